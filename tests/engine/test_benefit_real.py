"""What the engine books after a restore is what the real server says of its own prompt."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.fake_parts import FakeParts
from helpers.rig import ask
from helpers.wait import wait_until

from diagnostics.real_server import RealServer
from engine.account import Day
from engine.client.link import ServerLink
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.days import load
from engine.events import ContextState, Event, PrepareRequested, ServerState, Snapshot, State
from engine.loop import Engine

pytestmark = pytest.mark.real
TALK = "The user and the model have talked about the garden for a while. " * 10
CLOCK = SystemClock()


class Parts(FakeParts):
    """Fakes but for the server's side."""

    def __init__(self, index: Path) -> None:
        super().__init__()
        self._index = index

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:  # type: ignore[override]
        """Make the real one."""
        return ServerLink(settings, self._index, CLOCK, post)


class Running:
    """An engine that runs on a thread of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.days = folder / "benefit.json"
        self.engine = Engine(
            Settings(server_url=url, inactivity_timer=60.0), Parts(folder / "contexts.json"), CLOCK, days=self.days
        )
        self.last = Snapshot(0.0, State.COLD_IDLE)
        self.engine.subscribe(self._see)
        self._thread = threading.Thread(target=self.engine.run)
        self._thread.start()

    def _see(self, snapshot: Snapshot) -> None:
        self.last = snapshot

    @property
    def today(self) -> Day:
        """What is booked by now."""
        assert self.last.today is not None
        return self.last.today

    def wait(self, what: str, condition: Callable[[Snapshot], bool]) -> None:
        """Wait until a snapshot is so."""
        wait_until(lambda: condition(self.last), what=what)

    def end(self) -> None:
        """Stop it."""
        self.engine.stop()
        self._thread.join(30)


@pytest.fixture
def serve(tiny_model: Path, tmp_path: Path) -> Iterator[Callable[..., RealServer]]:
    """Return what starts a real server that keeps contexts."""
    with ExitStack() as stack:
        yield lambda **flags: stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, **flags))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[[RealServer], Running]]:
    """Return what runs an engine that watches a server."""
    with ExitStack() as stack:

        def start(server: RealServer) -> Running:
            running = Running(server.url, tmp_path)
            stack.callback(running.end)
            running.wait("the server", lambda seen: seen.server is ServerState.UP)
            return running

        yield start


def prompted(server: RealServer, text: str) -> dict[str, float]:
    """Send a prompt; return the server's own timings."""
    status, answer = ask(server.url, "/completion", {"prompt": text, "n_predict": 4, "cache_prompt": True})
    assert status == 200
    timings: dict[str, float] = answer["timings"]
    return timings


def at_its_speed(tokens: int, cold: dict[str, float]) -> float:
    """Return the seconds in which the server computes so many tokens as it did these."""
    return tokens * cold["prompt_ms"] / cold["prompt_n"] / 1000


def test_what_is_booked_is_what_the_server_says(
    serve: Callable[..., RealServer], run: Callable[[RealServer], Running]
) -> None:
    """Tokens re-used are its cache_n, and seconds saved are those at the speed of its own cold prompt."""
    server = serve()
    running = run(server)
    cold = prompted(server, TALK)
    running.wait("a saved context", lambda seen: seen.context_detail == "saved")
    assert (running.today.measured, running.today.saved) == (0, 0.0)
    server.restart()
    running.wait("the loss", lambda seen: seen.context is ContextState.SAVED and seen.server is ServerState.UP)
    running.engine.post(PrepareRequested())
    running.wait("the restore", lambda seen: seen.context is ContextState.RESTORED)
    restored = prompted(server, TALK + "And now, what is new? ")
    running.wait("the books", lambda _: running.today.measured == 1)
    running.end()
    today = running.today
    assert restored["cache_n"] >= len(TALK)
    assert today.reused == pytest.approx(restored["cache_n"], abs=4)
    assert today.saved == pytest.approx(at_its_speed(today.reused, cold), rel=0.02)
    assert (today.preparations, today.asked, today.hits, today.false_alarms) == (1, 1, 1, 0)
    assert today.lead > 0
    assert today.held_serving > 0
    assert load(running.days).days == [today]


def test_a_server_that_was_woken_saves_its_waking_too(
    serve: Callable[..., RealServer], run: Callable[[RealServer], Running]
) -> None:
    """As long as our own call took, beside what need not be computed."""
    server = serve(sleep_idle_seconds=3)
    running = run(server)
    cold = prompted(server, TALK)
    running.wait("a saved context", lambda seen: seen.context_detail == "saved")
    running.wait("sleep", lambda seen: seen.server is ServerState.ASLEEP)
    running.engine.post(PrepareRequested())
    running.wait("the restore", lambda seen: seen.context is ContextState.RESTORED and seen.server is ServerState.UP)
    restored = prompted(server, TALK + "And now, what is new? ")
    running.wait("the books", lambda _: running.today.measured == 1)
    assert running.today.reused == pytest.approx(restored["cache_n"], abs=4)
    assert running.today.saved > at_its_speed(running.today.reused, cold)
