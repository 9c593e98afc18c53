"""What slow work reported last: the background job's share, the server, the context."""

from dataclasses import dataclass, field
from typing import Any

from engine.account import PromptReport
from engine.events import ContextReport, ContextState, Report, ServerReport, ServerState, ShareReport


@dataclass
class Reports:
    """The newest report of each kind, and what prompts took since that was asked. Belongs to the loop's thread."""

    share: ShareReport = ShareReport(100, None, "null", "not chosen yet")  # noqa: RUF009 - frozen
    server: ServerReport = ServerReport(ServerState.UNKNOWN)  # noqa: RUF009
    context: ContextReport = ContextReport(ContextState.NONE)  # noqa: RUF009
    _prompts: list[PromptReport] = field(default_factory=list)

    def take(self, report: Report) -> None:
        """Replace the report of its kind."""
        match report:
            case ShareReport():
                self.share = report
            case ServerReport():
                self.server = report
            case ContextReport():
                self.context = report
            case PromptReport():
                self._prompts.append(report)

    def take_prompts(self) -> list[PromptReport]:
        """Return what prompts took since the last call."""
        taken, self._prompts = self._prompts, []
        return taken

    def shown(self) -> dict[str, Any]:
        """Return everything that was reported, by the names of a Snapshot's fields."""
        return {
            "background_share": self.share.share,
            "background_verified": self.share.verified,
            "backend": self.share.backend,
            "background_detail": self.share.detail,
            "linger_in": self.share.linger_in,
            "refused": self.share.refused,
            "vram": self.share.vram,
            "server": self.server.server,
            "server_detail": self.server.detail,
            "context": self.context.context,
            "context_tokens": self.context.tokens,
            "context_detail": self.context.detail,
        }
