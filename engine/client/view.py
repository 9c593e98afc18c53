"""What is known of the server, shared by the thread that watches it and the thread that acts on it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.client.answers import SENTENCES, Kind
from engine.client.flags import flag, is_own, shaping
from engine.processes import ProcessId

__all__ = ["Facts", "Helper", "Reuse", "View", "flag", "readable"]
_SLEEP = "--sleep-idle-seconds"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server is, from its start to its end. None: not known.

    `command_line` and `process` are of whoever listens at the address, where that is on this machine under a user we
    may look at: the server, or a program that passes everything on to one elsewhere. `save_path`: the folder of its
    slot files, `model_path`: its weights, both as the server names them, but whole where they count from a folder that
    can be seen. `is_unclear`: `model_path` counts from one of this machine that cannot, so other weights may have the
    same. `model`: to be sent along to a router; `arguments`: those with which the router has started that model.
    """

    kind: Kind
    model: str | None = None
    model_path: str | None = None
    build: str | None = None
    total_slots: int | None = None
    n_ctx: int | None = None
    has_metrics: bool = False
    has_slots: bool = False
    needs_key: bool = False
    process: ProcessId | None = None
    command_line: tuple[str, ...] | None = None
    save_path: str | None = None
    is_unclear: bool = False
    arguments: tuple[str, ...] | None = None

    @property
    def can_sleep(self) -> bool:
        """Tell whether it may put itself to sleep; only its own flags, all of them, without that one say no."""
        seconds = flag(self._flags, _SLEEP)
        if seconds is not None:
            return seconds not in ("-1", "0")
        # A router's models may have flags in a file.
        return self.arguments is None and (self.kind is Kind.ROUTER or not self.is_own)

    @property
    def sleeps_after(self) -> float | None:
        """Seconds without work after which it puts itself to sleep; None where it does not tell."""
        try:
            return float(flag(self._flags, _SLEEP) or "")
        except ValueError:
            return None

    @property
    def is_own(self) -> bool:
        """Tell whether `process` and `command_line` are of the server itself, and not of a program before it."""
        return is_own(self.command_line or (), self.model_path or "")

    @property
    def _flags(self) -> tuple[str, ...]:
        return self.command_line or () if self.arguments is None else self.arguments

    @property
    def is_llama(self) -> bool:
        """Tell whether it is llama-server, alone or as a router, and talks to us."""
        return self.kind in (Kind.LLAMA_SERVER, Kind.ROUTER) and not self.needs_key

    @property
    def shortcoming(self) -> str:
        """Say what cannot be observed, and what would change it; empty: all can."""
        if self.needs_key:
            return "it wants an API key: set API_KEY; until then prompts are not seen"
        if self.kind not in (Kind.LLAMA_SERVER, Kind.ROUTER):
            return SENTENCES[self.kind]
        if self.kind is Kind.ROUTER and self.model is None:
            return "no model is loaded"
        if self.has_metrics:
            return ""
        if self.has_slots:
            return "start it with --metrics: without it prompts are seen only while you type"
        return "start it with --metrics: prompts are not seen, and nothing is tuned"

    @property
    def cache_types(self) -> str:
        """Return what shapes a slot file and the meaning of what is in it beside the model, as far as flags tell."""
        return " ".join(shaping(self._flags))

    @property
    def unkeepable(self) -> str:
        """Say why its contexts cannot be kept, and what would change that; empty: they can."""
        if not self.save_path:
            return "start the server with --slot-save-path FOLDER to keep its context"
        if self.is_unclear:
            cost = "from here it cannot be told from others of that name"
            return f"start the server with the whole path of {self.model_path} to keep its context: {cost}"
        return ""


@dataclass(frozen=True, slots=True)
class Reuse:
    """What the prompts since the last rest took from the server's cache, in tokens.

    `seconds`: that computing the rest took, None where the server does not say.
    """

    cached: int
    computed: int
    seconds: float | None = None


def readable(folder: str, filename: str) -> Path | None:
    """Return the path of a slot file as seen from here; None where the server's folder means nothing to us."""
    path = Path(folder, filename)
    return path if path.is_absolute() else None  # else it counts from a folder of the server's that cannot be seen


@dataclass
class View:
    """The shared knowledge. Each field is replaced as a whole; beside `waking`, `loss` and `in_doubt`, by one thread.

    The watcher writes `facts`, `busy`, `sleeping`, `reachable`, `starts`, `turns`; the prefetcher `own_actions`,
    `own_requests` and `quiet_until`.
    """

    facts: Facts | None = None
    reachable: bool = False
    busy: bool = False
    sleeping: bool = False
    starts: int = 0  # how often the server was seen to be started, or lost
    turns: int = 0  # how often it was seen to come to rest after prompts
    loss: str | None = None  # why the server's own context is gone; None: not seen to be gone
    waking: bool = False  # we sent something that wakes it
    own_actions: int = 0  # slot actions of ours in flight
    own_requests: int = 0  # completions of ours since the start of the program
    in_doubt: bool = False  # after a slot action of ours: a prompt may be stranded behind it
    quiet_until: float = float(
        "-inf"
    )  # monotonic; the server forgets a call only after a second without such questions


class Helper(Protocol):
    """Who acts on the server, as the watcher sees it. No method blocks."""

    def noticed(self, reuse: Reuse | None) -> None:
        """Something of the context changed; `reuse`: what the last prompts took from the cache."""

    def take_back(self) -> None:
        """Hang up on a slot action of ours that stands in a prompt's way."""

    def free(self) -> None:
        """Start a prompt that waits beside idle slots, behind an action of ours."""
