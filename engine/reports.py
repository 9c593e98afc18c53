"""What slow work reported last: the background job's share, the server, the context."""

from dataclasses import dataclass, replace

from engine.events import ContextReport, ContextState, Report, ServerReport, ServerState, ShareReport, Snapshot


@dataclass
class Reports:
    """The newest report of each kind. Belongs to the loop's thread."""

    share: ShareReport = ShareReport(100, None, "null", "not chosen yet")  # noqa: RUF009 - frozen
    server: ServerReport = ServerReport(ServerState.UNKNOWN)  # noqa: RUF009
    context: ContextReport = ContextReport(ContextState.NONE)  # noqa: RUF009

    def take(self, report: Report) -> None:
        """Replace the report of its kind."""
        match report:
            case ShareReport():
                self.share = report
            case ServerReport():
                self.server = report
            case ContextReport():
                self.context = report

    def shown_in(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with everything that was reported."""
        return replace(
            snapshot,
            background_share=self.share.share,
            background_verified=self.share.verified,
            backend=self.share.backend,
            background_detail=self.share.detail,
            linger_in=self.share.linger_in,
            refused=self.share.refused,
            vram=self.share.vram,
            server=self.server.server,
            server_detail=self.server.detail,
            context=self.context.context,
            context_tokens=self.context.tokens,
            context_detail=self.context.detail,
        )
