"""What is known of the server, shared by the thread that watches it and the thread that acts on it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.client.answers import SENTENCES, Kind
from engine.processes import ProcessId


@dataclass(frozen=True, slots=True)
class Facts:
    """What a server is, from its start to its end. None: not known.

    `command_line` and `process` are known where the server runs on this machine under a user we may look at.
    `save_path`: the folder of its slot files as the server names it. `model`: to be sent along to a router.
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

    @property
    def can_sleep(self) -> bool:
        """Tell whether it may put itself to sleep; only a command line without the flag says no."""
        if self.command_line is None:
            return True
        return flag(self.command_line, "--sleep-idle-seconds") not in (None, "-1", "0")

    @property
    def sleeps_after(self) -> float | None:
        """Seconds without work after which it puts itself to sleep; None where it does not tell."""
        try:
            return float(flag(self.command_line or (), "--sleep-idle-seconds") or "")
        except ValueError:
            return None

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
        """Return what shapes a slot file beside the model, as far as the command line tells."""
        line = self.command_line or ()
        wanted = (("--cache-type-k", "-ctk"), ("--cache-type-v", "-ctv"), ("--flash-attn", "-fa"), ("--lora",))
        parts = [f"{names[0]}={flag(line, *names)}" for names in wanted if flag(line, *names) is not None]
        unified = any(word in ("-kvu", "--kv-unified") for word in line)
        return " ".join([*parts, *(["--kv-unified"] if unified else [])])


def flag(command_line: tuple[str, ...], *names: str) -> str | None:
    """Return the value of a command-line flag, in either form; None if it is not given."""
    value = None
    for word, following in zip(command_line, (*command_line[1:], ""), strict=False):
        if word in names:
            value = following
        for name in names:
            if word.startswith(f"{name}="):
                value = word.removeprefix(f"{name}=")
    return value


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
    return path if path.is_absolute() else None  # else it counts from the server's own working directory


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
