"""What is known of the server, shared by the thread that watches it and the thread that acts on it."""

from dataclasses import dataclass

from engine.client.answers import Kind
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
        return flag(self.command_line, "--sleep-idle-seconds") not in (None, "-1")

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
    for word, following in zip(command_line, (*command_line[1:], ""), strict=True):
        if word in names:
            value = following
        for name in names:
            if word.startswith(f"{name}="):
                value = word.removeprefix(f"{name}=")
    return value


@dataclass
class View:
    """The shared knowledge. Each field is written by one thread and replaced as a whole.

    The watcher writes `facts`, `busy`, `sleeping`, `reachable`; the prefetcher `own_actions` and `own_requests`;
    both write `waking` and `loss`.
    """

    facts: Facts | None = None
    reachable: bool = False
    busy: bool = False
    sleeping: bool = False
    loss: str | None = None  # why the server's own context is gone; None: not seen to be gone
    waking: bool = False  # we sent something that wakes it
    own_actions: int = 0  # slot actions of ours in flight
    own_requests: int = 0  # completions of ours since the start of the program
