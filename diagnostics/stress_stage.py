"""What the phases of the stress test share: results, a folder and a job of their own, a running engine, waiting."""

import contextlib
import os
import secrets
import signal
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from diagnostics.busy import named_job
from diagnostics.scripted import ScriptedParts
from engine import processes
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import Moved, Snapshot, State
from engine.loop import Engine
from engine.processes import ProcessId

clock = SystemClock()
PATIENCE = 30.0  # s any single step may take on a slow machine
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows ends a process by force for either
SETTLE = 15.0  # s for what was told to end
Figure = float | str | bool | None


@dataclass(frozen=True, slots=True)
class Result:
    """What one phase showed. `figures`: numbers and words by name; `fault` among them says what went wrong."""

    name: str
    passed: bool
    figures: dict[str, Figure]


class Unmet(Exception):  # noqa: N818 - what happened
    """Something that must happen did not; the message says what."""


@dataclass
class Stage:
    """Where one phase plays. `scale` shrinks its counts; `progress` is told which part of it is done."""

    folder: Path
    scale: float = 1.0
    progress: Callable[[float], None] = lambda _: None
    faults: list[str] = field(default_factory=list)

    def count(self, full: int) -> int:
        """Return how many of `full` are to be played."""
        return max(1, round(full * self.scale))

    def rounds(self, full: int) -> Iterator[int]:
        """Count to what is to be played, and show how far it is."""
        count = self.count(full)
        for number in range(count):
            self.progress(number / count)
            yield number

    def check(self, holds: object, fault: str) -> None:
        """Note a fault unless this holds."""
        if not holds:
            self.faults.append(fault)

    def room(self) -> Path:
        """Make a folder for one engine."""
        folder = self.folder / secrets.token_hex(4)
        folder.mkdir()
        return folder

    @contextlib.contextmanager
    def job(self, name: str = "") -> Iterator["Job"]:
        """Run a busy process under a name that no other one has, or under that of an earlier one."""
        name = name or f"zat{secrets.token_hex(4)}"
        with named_job(self.folder, name) as process:
            until(lambda: runs(process.pid), "the job to run")
            yield Job(name, process.pid)


@dataclass(frozen=True, slots=True)
class Job:
    """A background job of our own."""

    name: str
    pid: int

    @property
    def runs(self) -> bool:
        """It is there and not stopped."""
        return runs(self.pid)

    @property
    def stands(self) -> bool:
        """It is stopped."""
        return processes.state(self.pid) == "T"

    @property
    def identity(self) -> ProcessId:
        """Its number and start. Raises Unmet once it is gone."""
        seen = processes.look(self.pid)
        if seen is None:
            raise Unmet("the job is gone")
        return seen.process


def runs(pid: int) -> bool:
    """Tell whether a process is there and not stopped."""
    return (processes.state(pid) or "Z") not in "TtZXx"


def until(condition: Callable[[], object], what: str, timeout: float | None = None, step: float = 0.002) -> float:
    """Wait, PATIENCE unless another `timeout` is given; return how many seconds it took. Raises Unmet."""
    started, pause = clock.now(), threading.Event()
    timeout = PATIENCE if timeout is None else timeout
    while not condition():
        if clock.now() - started > timeout:
            raise Unmet(f"waited {timeout:g} s for {what}")
        pause.wait(step)
    return clock.now() - started


def held_by(url: str, job: Job, *, suspend: bool = True) -> Settings:
    """Return settings under which this job, and no other, is held for the prompts of this server."""
    return Settings(
        server_url=url,
        background_process_name=job.name,
        background_method="process",
        fallback_to_suspend=suspend,
        microphone=False,
        learned=False,  # plain rules prepare for keys alone, whatever comes of it
    )


class Rig:
    """An engine on its own thread, with keys from the program. `seen` is the newest snapshot."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.parts = ScriptedParts(clock, folder)
        self.engine = Engine(settings, self.parts, clock)
        self.seen = Snapshot(0.0, State.COLD_IDLE)
        self.moves: list[Moved] = []
        self.at: list[float] = []  # when each tick was over
        self.engine.subscribe(self._take)
        self._thread = threading.Thread(target=self.engine.run, name="stress-engine")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.stop()
        self._thread.join()

    def until(self, condition: Callable[[Snapshot], object], what: str) -> float:
        """Wait until a snapshot shows something. Raises Unmet."""
        return until(lambda: condition(self.seen), what)

    def ready(self) -> None:
        """Wait until it has found server and job."""
        self.until(lambda seen: seen.server.value == "up" and seen.backend == "process", "server and job to be found")

    def type(self, condition: Callable[[], object], what: str) -> None:
        """Type ten keys a second until something is so. Raises Unmet."""
        due = clock.now()

        def typed() -> object:
            nonlocal due
            if clock.now() >= due:
                self.parts.keys.press(clock.now())
                due += 0.1
            return condition()

        until(typed, what)

    def _take(self, snapshot: Snapshot) -> None:
        self.seen = snapshot
        self.moves += snapshot.moves
        self.at.append(clock.now())


def in_ms(seconds: Sequence[float], name: str) -> dict[str, Figure]:
    """Return median and maximum in milliseconds, None where there are none."""
    if not seconds:
        return {f"{name}_median_ms": None, f"{name}_max_ms": None}
    middle, most = statistics.median(seconds), max(seconds)
    return {f"{name}_median_ms": round(middle * 1000, 2), f"{name}_max_ms": round(most * 1000, 2)}


def processes_of(folder: Path) -> tuple[int, ...]:
    """Return the processes that were started for something in this folder; all of them are ours."""
    name = str(folder)
    lines = ((pid, processes.command_line(pid) or ()) for pid in processes.pids() if pid != os.getpid())
    return tuple(pid for pid, line in lines if any(name in word for word in line))


def sweep(folder: Path, timeout: float = SETTLE) -> tuple[str, ...]:
    """Wait for all that was started in this folder to end; end the rest by force and say what it was."""
    with contextlib.suppress(Unmet):
        until(lambda: not processes_of(folder), "the end", timeout, step=0.02)
        return ()
    left = processes_of(folder)
    names = tuple(" ".join(processes.command_line(pid) or ())[-80:] for pid in left)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, KILL)
    return names
