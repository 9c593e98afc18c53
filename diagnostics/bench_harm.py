"""What help costs when it is wrong or in the way: prompts beside a wrong guess, a restore, a save and a wake.

No background job runs here: holding it would make up for what the engine costs.
"""

import contextlib
import functools
import http.client
import random
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics import bench_engine, bench_jobs, ttft
from diagnostics.bench_engine import Unmet, Watched
from diagnostics.bench_figures import percentile
from diagnostics.bench_jobs import Jobs
from diagnostics.bench_runs import ANY_KEY, Bench, Words, server_seen
from diagnostics.bench_stage import StageIn
from diagnostics.bench_table import Figures
from engine.clock import Clock, SystemClock
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.errors import ServerError

BLOCK = 25  # short prompts before the other side has its turn
BLOCKS = 4  # of each side: a p99 needs many prompts
JITTER = 0.05  # s after the threshold within which a prompt is sent into a restore
_WRITING = 30.0  # s to wait for a save to begin
_OTHER = "Something else altogether, which no saved conversation begins with. "
Step = Callable[[], None]


class _Row:
    """Times with the engine in the way, and without it, in ms."""

    def __init__(self, step: Step) -> None:
        self.beside: list[float] = []
        self.alone: list[float] = []
        self.failed: list[str] = []
        self._step = step

    def take(self, into: list[float], ask: Callable[[], ttft.Answer]) -> None:
        """Measure one prompt; one that is not answered counts as lost."""
        try:
            answer = ask()
        except (Unmet, OSError, http.client.HTTPException, ServerError) as error:
            self.failed.append(str(error) or type(error).__name__)
        else:
            into.append(1000 * answer.first)
        self._step()

    def figures(self) -> Figures:
        """Return what JSON and table show."""
        both = bool(self.beside and self.alone)
        return {
            "samples": len(self.beside),
            "median_ms": statistics.median(self.beside) if self.beside else None,
            "p99_ms": percentile(self.beside, 0.99) if self.beside else None,
            "max_ms": max(self.beside, default=None),
            "against_p99_ms": percentile(self.alone, 0.99) if self.alone else None,
            "p99_ratio": percentile(self.beside, 0.99) / percentile(self.alone, 0.99) if both else None,
            "unanswered": len(self.failed),
            "failed": self.failed,
        }


@dataclass(frozen=True)
class Grounds:
    """A server that loses its context by a restart, and one that sleeps, where there is one."""

    restarting: StageIn
    sleeping: StageIn | None = None


def steps(grounds: Grounds, runs: int) -> int:
    """Return how often measure() calls `step`."""
    return 2 * BLOCK * BLOCKS + runs * (4 if grounds.sleeping is None else 6)


def measure(grounds: Grounds, tokens: int, runs: int, step: Step) -> dict[str, Figures]:
    """Measure wrong guesses, and prompts in the midst of a restore, a save and a wake. Raises Unmet."""
    found = {}
    with _bench(grounds.restarting, tokens) as (bench, jobs):
        found["engine present, guessing wrong"] = _wrong(bench, jobs, step)
        found["prompt during a restore"] = _during_preparation(bench, jobs, runs, step)
        found["prompt during a save"] = _during_save(bench, jobs, runs, step)
    if grounds.sleeping is not None:
        with _bench(grounds.sleeping, tokens) as (bench, jobs):
            found["prompt during a wake"] = _during_preparation(bench, jobs, runs, step)
    return {title: row.figures() for title, row in found.items()}


@contextlib.contextmanager
def _bench(staged: StageIn, tokens: int) -> Iterator[tuple[Bench, Jobs]]:
    with tempfile.TemporaryDirectory(prefix="zat-scs-harm-") as name:
        folder = Path(name)
        with staged(folder, tokens) as stage, bench_jobs.busy(folder, 0) as jobs:
            bench = Bench(stage, Words.of(tokens, 1.0), folder, SystemClock(), Settings())
            unkept = bench.keep_context(jobs)
            if unkept:
                raise Unmet(unkept)
            yield bench, jobs


def _wrong(bench: Bench, jobs: Jobs, step: Step) -> _Row:
    """Ask about something else, each time after the engine has prepared; and the same without an engine."""
    row, number = _Row(step), 0
    for _ in range(BLOCKS):
        bench.lose()
        for _ in range(BLOCK):
            number += 1
            row.take(row.alone, functools.partial(_about_something_else, bench, number))
        with _engine(bench, jobs, **ANY_KEY) as engine:  # guesses soon, so that it guesses often
            bench.lose_seen(engine, jobs)
            for _ in range(BLOCK):
                number += 1
                row.take(row.beside, functools.partial(_after_a_guess, bench, engine, number))
    return row


def _after_a_guess(bench: Bench, engine: Watched, number: int) -> ttft.Answer:
    engine.type_until("a preparation", bench_engine.prepared)
    return _about_something_else(bench, number)


def _about_something_else(bench: Bench, number: int) -> ttft.Answer:
    return ttft.ask(bench.stage.target, f"{number:06d} {_OTHER}", bench.clock, n_predict=1)


def _during_preparation(bench: Bench, jobs: Jobs, runs: int, step: Step) -> _Row:
    """Send the prompt right after the threshold was crossed, into whatever the engine does then; and cold."""
    row, chance = _Row(step), random.Random(0)
    for _ in range(runs):
        bench.lose()
        row.take(row.alone, bench.ask)
        with _engine(bench, jobs) as engine:
            bench.lose_seen(engine, jobs)
            engine.type_until("a preparation", bench_engine.prepared)
            threading.Event().wait(chance.uniform(0.0, JITTER))
            row.take(row.beside, bench.ask)
    return row


def _during_save(bench: Bench, jobs: Jobs, runs: int, step: Step) -> _Row:
    """Send the prompt when the file of a save is seen to be written; and warm."""
    row = _Row(step)
    for _ in range(runs):
        bench.prime()
        row.take(row.alone, bench.ask)
        with tempfile.TemporaryDirectory(prefix="zat-scs-harm-") as folder:  # nothing was saved yet: this turn will be
            fresh = Bench(bench.stage, bench.words, Path(folder), bench.clock, Settings())
            with _engine(fresh, jobs) as engine:
                engine.wait("the server is seen", server_seen)
                fresh.prime()
                _until_written(Path(bench.stage.save_path), bench.clock)
                row.take(row.beside, fresh.ask)
    return row


@contextlib.contextmanager
def _engine(bench: Bench, jobs: Jobs, **more: Value) -> Iterator[Watched]:
    with bench_engine.running(bench.settings(jobs, **more), bench.folder, bench.clock) as engine:
        yield engine


def _until_written(folder: Path, clock: Clock) -> None:
    """Return the moment a file in the folder is begun or overwritten. Raises Unmet."""
    before, until = _stamps(folder), clock.now() + _WRITING
    while _stamps(folder) == before:
        if clock.now() > until:
            raise Unmet(f"nothing was saved within {_WRITING:g} s")
        threading.Event().wait(0.001)


def _stamps(folder: Path) -> set[tuple[str, int, int]]:
    stamps = set()
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            stamps.add((path.name, status.st_ino, status.st_mtime_ns))
    return stamps
