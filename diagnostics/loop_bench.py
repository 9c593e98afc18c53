"""Measures the engine on this machine: work and rhythm of the loop, its delays, how fast it lets the job go.

    python -m diagnostics.loop_bench [--seconds 60] [--part NAME]

Real share, real server's side, a real process as the job; the server is the real llama.cpp where its package is
installed, else the stand-in. Absolute times are this machine's; no test depends on them.
"""

import argparse
import contextlib
import importlib.util
import itertools
import math
import queue
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diagnostics.busy import named_job
from diagnostics.client import complete
from diagnostics.mock_server import StandIn
from diagnostics.overhead_programs import JOB, running_engine
from diagnostics.real_server import RealServer
from diagnostics.scripted import ScriptedParts
from diagnostics.tiny_model import cached
from engine.client.link import ServerLink
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import ContextReport, ContextState, Event, PromptArrived, Snapshot, State
from engine.loop import Engine
from engine.processes import state as process_state

CONTEXT = "A conversation of some length, about nothing in particular. " * 34  # some 2,000 tokens
ROUNDS = 10
clock = SystemClock()


@dataclass
class TimedParts(ScriptedParts):
    """Scripted parts that note when the server's side reports something."""

    heard: "queue.SimpleQueue[tuple[float, Event]]" = field(default_factory=queue.SimpleQueue)

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:
        """Make the real thing, with a note of the time of each event."""

        def timed(event: Event) -> None:
            self.heard.put((clock.now(), event))
            post(event)

        return super().link(settings, timed)

    def wait(self, wanted: Callable[[Event], bool], timeout: float = 60.0) -> float:
        """Return when the next such event came. Raises queue.Empty."""
        while True:
            at, event = self.heard.get(timeout=timeout)
            if wanted(event):
                return at


@contextlib.contextmanager
def server_in(folder: Path) -> Iterator[tuple[str, Callable[[], None], str]]:
    """Run a server; yield its address, how to make it lose its context, and what it is."""
    slots = folder / "slots"
    slots.mkdir(exist_ok=True)
    if importlib.util.find_spec("xllamacpp") and importlib.util.find_spec("gguf"):
        with RealServer(cached(folder), folder, slot_save_path=slots) as real:
            yield real.url, real.restart, "llama.cpp"
    else:
        with StandIn(slot_save_path=slots) as stand_in:
            yield stand_in.url, stand_in.forget, "stand-in"


@contextlib.contextmanager
def engine_in(folder: Path, url: str) -> Iterator[tuple[Engine, TimedParts]]:
    """Run an engine on its own thread."""
    parts = TimedParts(clock, folder)
    settings = Settings(
        server_url=url,
        slot_save_path=str(folder / "slots"),
        background_process_name=JOB,
        background_method="process",
        fallback_to_suspend=True,
        microphone=False,
    )
    engine = Engine(settings, parts, clock)
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        yield engine, parts
    finally:
        engine.stop()
        thread.join()


def ticks(folder: Path, seconds: float) -> None:
    """Work per tick and the interval between ticks, idle and beside two busy processes."""
    for title, busy in (("idle", 0), ("beside two busy processes", 2)):
        work: list[float] = []
        starts: list[float] = []
        with server_in(folder) as (url, _, _), _busy(busy), engine_in(folder, url) as (engine, parts):
            inner = engine.tick

            def timed(now: float, inner: Callable[[float], object] = inner) -> object:
                started = clock.now()
                snapshot = inner(now)
                starts.append(started)  # noqa: B023 - called within the round
                work.append(clock.now() - started)  # noqa: B023
                return snapshot

            engine.tick = timed  # type: ignore[method-assign,assignment] # a probe around the real one
            end = clock.now() + seconds
            while clock.now() < end:
                parts.keys.press(clock.now())
                threading.Event().wait(0.13)
        gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
        _say(f"work of a tick, {title}", work)
        _say(f"interval of ticks, {title}", gaps)


def delays(folder: Path, rounds: float) -> None:
    """From the threshold to the job held and the restore answered; from a prompt's send to its being seen."""
    held, restored, seen = [], [], []
    with (
        server_in(folder) as (url, lose, what),
        named_job(folder, JOB) as job,
        engine_in(folder, url) as (engine, parts),
    ):
        moves: queue.SimpleQueue[tuple[float, State]] = queue.SimpleQueue()

        def note(snapshot: Snapshot) -> None:
            for move in snapshot.moves:
                moves.put((clock.now(), move.target))

        engine.subscribe(note)
        complete(url, CONTEXT, clock, n_predict=30)
        parts.wait(lambda event: isinstance(event, ContextReport) and event.detail == "saved")
        for _ in range(int(rounds)):
            lose()
            _await(moves, State.COLD_IDLE)
            stopped: list[float] = []
            watch = threading.Thread(target=_note_stop, args=(job.pid, stopped))
            watch.start()
            _type(parts)
            crossed = _await(moves, State.SPECULATIVE_PREPARED)
            watch.join()
            held.append(stopped[0] - crossed)
            done = parts.wait(lambda event: isinstance(event, ContextReport) and event.context is ContextState.RESTORED)
            restored.append(done - crossed)
            sent = clock.now()
            asking = threading.Thread(target=complete, args=(url, CONTEXT + "x" * 40, clock), kwargs={"n_predict": 60})
            asking.start()
            seen.append(parts.wait(lambda event: isinstance(event, PromptArrived)) - sent)
            asking.join()
            _await(moves, State.COLD_IDLE)
    _say("threshold crossed → job seen stopped", held)
    _say(f"threshold crossed → restore answered ({what})", restored)
    _say("prompt sent → prompt seen (prepared)", seen)


def letting_go(folder: Path, rounds: float) -> None:
    """From kill -9 of the engine to the job running again."""
    times = []
    with StandIn(restore_ms=100, token_ms=50) as server:
        for _ in range(int(rounds)):
            with named_job(folder, JOB) as job, running_engine(folder, server.url) as engine:
                request = threading.Thread(target=_endless, args=(server.url,), daemon=True)
                request.start()
                _until(lambda: process_state(job.pid) == "T")
                started = clock.now()
                engine.kill()
                _until(lambda: process_state(job.pid) != "T")
                times.append(clock.now() - started)
                server.down()
                server.up()
    _say("kill -9 of the engine → job running", times)


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(named_job(Path(folder), "zat-bench-busy"))
        yield


def _type(parts: TimedParts) -> None:
    for _ in range(16):
        parts.keys.press(clock.now())
        threading.Event().wait(0.12)


def _note_stop(pid: int, stopped: list[float]) -> None:
    _until(lambda: process_state(pid) == "T")
    stopped.append(clock.now())


def _until(condition: Callable[[], bool], timeout: float = 60.0) -> None:
    end = clock.now() + timeout
    while not condition():
        if clock.now() > end:
            raise TimeoutError("waited in vain; is something else holding the machine?")
        threading.Event().wait(0.0005)


def _await(moves: "queue.SimpleQueue[tuple[float, State]]", state: State) -> float:
    while True:
        at, target = moves.get(timeout=60.0)
        if target is state:
            return at


def _endless(url: str) -> None:
    with contextlib.suppress(OSError):
        complete(url, "hello", clock, n_predict=100_000)


def _say(title: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, math.ceil(0.99 * len(ordered)) - 1)]
    middle = statistics.median(ordered)
    unit = f"p50 {middle * 1000:8.2f}  p99 {last * 1000:8.2f}  max {ordered[-1] * 1000:8.2f} ms"
    print(f"{title:<52} {unit}  n {len(ordered)}", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Measure; print one line a figure."""
    parts: dict[str, Callable[[Path, float], None]] = {
        "ticks": ticks,
        "delays": delays,
        "letting-go": letting_go,
    }
    parser = argparse.ArgumentParser(prog="python -m diagnostics.loop_bench", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each timed part (default: 60)")
    parser.add_argument("--part", choices=parts, help="measure this part only")
    options = parser.parse_args(argv)
    for name, part in parts.items():
        if options.part in (None, name):
            with tempfile.TemporaryDirectory(prefix="zat-scs-bench-") as folder:
                part(Path(folder), options.seconds if name == "ticks" else ROUNDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
