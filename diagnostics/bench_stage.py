"""The servers that a benchmark measures on, each with a way to make it lose its context; all but the user's own."""

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics.mock_server import StandIn
from diagnostics.real_server import RealServer
from diagnostics.tiny_model import cached
from diagnostics.ttft import Target
from engine.client.api import LlamaServer
from engine.clock import SystemClock
from engine.config.store import cache_folder
from engine.errors import ServerUnreachable, ZatError
from engine.events import ContextState, ServerState, Snapshot

MODEL = "80m-q8"  # a cold prompt takes it seconds, as it takes a large one with a card
ROOM = 1024  # tokens of context beside the conversation
SLEEP_AFTER = 5  # s; the engine saves some 3 s after a prompt
THREADS = 4  # at most


@dataclass(frozen=True)
class Stage:
    """One server in one scenario.

    `lose` makes it lose its context; `lost` tells by a snapshot that the engine has seen that, None where it sees it
    only when it looks at the slots. `keeps`: nothing is lost here, so nothing is to be restored.
    """

    scenario: str
    server: str
    target: Target
    save_path: str
    lose: Callable[[], None]
    lost: Callable[[Snapshot], bool] | None
    keeps: bool = False


StageIn = Callable[[Path, int], contextlib.AbstractContextManager[Stage]]


def stand_in(restore_ms: float) -> StageIn:
    """Return how to run the stand-in, which loses its context by a restart."""

    @contextlib.contextmanager
    def staged(folder: Path, tokens: int) -> Iterator[Stage]:
        slots = _slots(folder)
        with StandIn(restore_ms=restore_ms, slot_save_path=slots, context=tokens + ROOM) as server:

            def lose() -> None:
                server.down()
                server.up()

            yield Stage("restarted", "stand-in", Target(server.url), str(slots), lose, _came_back)

    return staged


@contextlib.contextmanager
def restarted(folder: Path, tokens: int) -> Iterator[Stage]:
    """Run the real server, which loses its context by a restart."""
    slots = _slots(folder)
    with _real(folder, tokens, slots) as server:
        yield Stage("restarted", "llama.cpp", Target(server.url), str(slots), server.restart, _came_back)


@contextlib.contextmanager
def asleep(folder: Path, tokens: int) -> Iterator[Stage]:
    """Run the real server, which loses its context by falling asleep."""
    slots = _slots(folder)
    with _real(folder, tokens, slots, sleep_idle_seconds=SLEEP_AFTER) as server:

        def lose() -> None:
            _until_asleep(server.url)

        yield Stage("asleep", "llama.cpp", Target(server.url), str(slots), lose, _sleeps)


@contextlib.contextmanager
def default_warm(folder: Path, tokens: int) -> Iterator[Stage]:
    """Run the real server with llama-server's own defaults: it keeps its context, and only the job is in the way."""
    slots = _slots(folder)
    with _real(folder, tokens, slots, slots=4, kv_unified=True, cache_ram_mib=8192) as server:
        yield Stage("default-warm", "llama.cpp", Target(server.url), str(slots), lambda: None, None, keeps=True)


def check_real() -> None:
    """Raise ZatError where the real server cannot be run."""
    missing = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        raise ZatError(f"--real needs {' and '.join(missing)}: pip install 'zat-scs[real-server]'")


def _real(
    folder: Path,
    tokens: int,
    save_path: Path,
    *,
    sleep_idle_seconds: int = 0,
    slots: int = 1,
    kv_unified: bool = False,
    cache_ram_mib: int = 0,
) -> RealServer:
    model = cached(cache_folder(), MODEL)
    return RealServer(
        model,
        folder,
        context=tokens + ROOM,
        slots=slots,
        kv_unified=kv_unified,
        slot_save_path=save_path,
        sleep_idle_seconds=sleep_idle_seconds,
        cache_ram_mib=cache_ram_mib,
        threads=min(THREADS, os.cpu_count() or 1),
    )


def _slots(folder: Path) -> Path:
    slots = folder / "slots"
    slots.mkdir(exist_ok=True)
    return slots


def _until_asleep(url: str) -> None:
    """Wait until the server sleeps. Asking for /props keeps nobody awake."""
    clock = SystemClock()
    until = clock.now() + SLEEP_AFTER + 30
    with LlamaServer(url) as server:
        while not server.props().is_sleeping:
            if clock.now() > until:
                raise ServerUnreachable("the server does not fall asleep")
            threading.Event().wait(0.1)


def _came_back(seen: Snapshot) -> bool:
    return seen.server is ServerState.UP and seen.context is ContextState.SAVED


def _sleeps(seen: Snapshot) -> bool:
    return seen.server is ServerState.ASLEEP
