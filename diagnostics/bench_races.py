"""Prompts, restores, saves, cancels, wakes and kills in every order against the real server, many games side by side.

What must never happen is counted: a prompt left waiting, a warm context wiped, a wrong answer, a server that ends.
"""

import contextlib
import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from diagnostics import ttft
from diagnostics.bench_engine import Unmet
from diagnostics.bench_sent import Prompts
from diagnostics.real_server import RealServer
from diagnostics.scripted import ScriptedParts
from engine.client import workbench
from engine.client.api import LlamaServer
from engine.client.link import ServerLink
from engine.clock import Clock, SystemClock
from engine.config.settings import Settings
from engine.errors import ServerError
from engine.events import ContextReport, ContextState, Event, PrepareRequested, ReleaseRequested
from engine.loop import Engine

LANES = 8  # games side by side: each waits most of its time
CONTEXT = 4096  # tokens
SLEEP_AFTER = 3  # s; a turn is saved before
STRUCK = 0.4  # of our restores and saves at which prompts are sent on purpose
STRIKE = 0.006  # s around their sending
SAVED_WITHIN = 5.0  # s
NEVER = ("stranded", "wiped", "wrong_answers", "servers_ended")  # what must be zero
_LANES: tuple[dict[str, Any], ...] = (
    {}, {"sleep_idle_seconds": SLEEP_AFTER}, {}, {"metrics": False},
    {}, {"sleep_idle_seconds": SLEEP_AFTER}, {"cache_ram_mib": 64}, {"slots": 2, "kv_unified": True},
)  # fmt: skip


class Parts(ScriptedParts):
    """The real share and link; `overhear` is told what becomes of the context, in the moment in which it does."""

    overhear: Callable[[ContextReport], None] = staticmethod(lambda _: None)

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:
        """Make the real thing."""

        def heard(event: Event) -> None:
            if isinstance(event, ContextReport):
                self.overhear(event)
            post(event)

        return super().link(settings, heard)


class Lane:
    """One server, one user, and our engine between them."""

    def __init__(self, model: Path, folder: Path, number: int, clock: Clock) -> None:
        folder.mkdir(parents=True)
        self.slots = folder / "slots"
        self.slots.mkdir()
        options = _LANES[number % len(_LANES)]
        self.sleeps = "sleep_idle_seconds" in options
        self.server = RealServer(model, folder, context=CONTEXT, slot_save_path=self.slots, **options)
        self.chance = random.Random(number)
        sleep_after = float(options.get("sleep_idle_seconds", "inf"))
        self.prompts = Prompts(self.server.url, clock, one_slot="slots" not in options, sleep_after=sleep_after)
        self.done: Counter[str] = Counter()
        self.ended: list[int] = []
        self._clock = clock
        self._saved = threading.Event()
        parts = Parts(clock, folder)
        parts.overhear = self._overhear
        self._engine = Engine(self._settings(), parts, clock)

    def _settings(self) -> Settings:
        return Settings(
            server_url=self.server.url, slot_save_path=str(self.slots), background_method="off", microphone=False
        )

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run server and engine."""
        with self.server:
            thread = threading.Thread(target=self._engine.run, name="races-engine")
            thread.start()
            try:
                self._prompt()
                self._saved.wait(SAVED_WITHIN)
                yield
            finally:
                self._engine.stop()
                thread.join()

    def play(self) -> None:
        """Let things collide once, and wait until every prompt has its answer. Raises Unmet."""
        self._lose()
        prepared = self.chance.uniform(0.0, 0.6)
        acts: list[tuple[float, Callable[[], None]]] = []
        if self.chance.random() < 0.85:
            acts.append((prepared, self._prepare))
        if self.chance.random() < 0.25:
            acts.append((prepared + self.chance.uniform(0.0, 0.4), self._cancel))
        for _ in range(self.chance.randint(1, 3)):
            near = prepared + self.chance.uniform(-0.01, 0.15)
            acts.append((near if self.chance.random() < 0.6 else self.chance.uniform(0.0, 1.0), self._prompt))
        if self.chance.random() < 0.12:
            acts.append((self.chance.uniform(0.0, 1.0), self._kill))
        began = self._clock.now()
        for at, act in sorted(acts, key=lambda pair: pair[0]):
            _rest(began + at - self._clock.now())
            act()
        self._saved.clear()
        self.prompts.settle()
        if self.chance.random() < 0.4:
            self._saved.wait(SAVED_WITHIN)
            self.prompts.settle()
        if self.server.exit_code is not None:
            self.ended.append(self.server.exit_code)
            self._kill()

    # ---- What the user and fate do -----------------------------------------------------------------------------------

    def _prompt(self) -> None:
        self.prompts.send(self.chance)

    def _prepare(self) -> None:
        self.done["prepared"] += 1
        self._engine.post(PrepareRequested(self.chance.uniform(1.0, 5.0)))

    def _cancel(self) -> None:
        self.done["cancelled"] += 1
        self._engine.post(ReleaseRequested())

    def _kill(self) -> None:
        self.done["killed"] += 1
        with self.prompts.losing():
            self.server.kill()
            self.server.start()

    def _lose(self) -> None:
        """Let the context be lost in one of several ways, or not."""
        fate = self.chance.random()
        if self.sleeps and fate < 0.5:
            self._sleep()
        elif fate < 0.12:
            self._kill()
        elif fate < 0.75:
            with self.prompts.losing(), contextlib.suppress(OSError):
                ttft.erase(ttft.Target(self.server.url), 0)
        _rest(self.chance.choice((0.0, 0.1, 0.4)))

    def _sleep(self) -> None:
        """Wait until it sleeps; a preparation that is under way may keep it awake."""
        until = self._clock.now() + SLEEP_AFTER + 3.0
        with self.prompts.losing(), LlamaServer(self.server.url) as server, contextlib.suppress(ServerError):
            while self._clock.now() < until and not server.props().is_sleeping:
                _rest(0.1)
        self.done["slept"] += 1

    # ---- What we do --------------------------------------------------------------------------------------------------

    def _overhear(self, report: ContextReport) -> None:
        """Count what is done; now and then send a prompt at the very moment."""
        if report.detail == "saved":
            self.done["saved"] += 1
            self._saved.set()
        elif report.context is ContextState.RESTORED:
            self.done["restored"] += 1
        elif report.context is ContextState.RESTORING or (report.context is ContextState.WARM and report.tokens):
            self._strike()  # what follows is the restore, or perhaps a save

    def _strike(self) -> None:
        if self.chance.random() < STRUCK:
            self.done["struck"] += 1
            for _ in range(self.chance.randint(1, 2)):
                self.prompts.send(self.chance, after=self.chance.uniform(0.0, STRIKE))


def measure(model: Path, folder: Path, wanted: int, step: Callable[[], None]) -> dict[str, object]:
    """Play so many games; return the counts. Raises Unmet where a server cannot be run."""
    clock, turns = SystemClock(), iter(range(wanted))
    lanes = [Lane(model, folder / str(number), number, clock) for number in range(min(LANES, wanted))]
    taking, faults = threading.Lock(), list[str]()

    def lead(lane: Lane) -> None:
        try:
            with lane.running():
                while True:
                    with taking:
                        if faults or next(turns, None) is None:
                            return
                    lane.play()
                    with taking:
                        step()
        except (ServerError, OSError) as error:
            faults.append(str(error) or type(error).__name__)

    threads = [threading.Thread(target=lead, args=(lane,), name="races") for lane in lanes]
    with _counted() as freed:
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            faults += ["broken off"] * any(thread.is_alive() for thread in threads)  # by Ctrl+C: nobody begins anew
            for thread in threads:
                if thread.is_alive():
                    thread.join()
    if faults:
        raise Unmet(faults[0])
    return _summed(lanes, wanted, freed.count)


def _summed(lanes: list[Lane], wanted: int, freed: int) -> dict[str, object]:
    done = sum((lane.done for lane in lanes), Counter[str]())
    names = ("prepared", "restored", "saved", "cancelled", "killed", "slept", "struck")
    found: dict[str, object] = {"interleavings": wanted, **{name: done[name] for name in names}, "freed": freed}
    found |= Prompts.judged([lane.prompts for lane in lanes])
    found["servers_ended"] = sum(len(lane.ended) for lane in lanes)
    return found


class _Freed(logging.Handler):
    """Counts how often a prompt was freed that may have stood behind an action of ours."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count what is told of it."""
        self.count += "started now" in str(record.msg)


@contextlib.contextmanager
def _counted() -> Iterator[_Freed]:
    """Listen to whoever acts on the server, and to nobody else."""
    log, freed = logging.getLogger(workbench.__name__), _Freed()
    before = log.level, log.propagate
    log.addHandler(freed)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield freed
    finally:
        log.removeHandler(freed)
        log.setLevel(before[0])
        log.propagate = before[1]


def _rest(seconds: float) -> None:
    if seconds > 0:
        threading.Event().wait(seconds)
