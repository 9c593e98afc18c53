"""Phases (e), (f) and (g): the engine is interrupted, killed and stopped in every state; the job must run again."""

import contextlib
import http.client
import random
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from diagnostics.client import complete
from diagnostics.mock_server import StandIn
from diagnostics.stress_engine import Child
from diagnostics.stress_stage import KILL, Figure, Job, Stage, clock, in_ms, processes_of, until
from engine import processes
from engine.errors import LedgerError
from engine.orchestration.guardian import LEASE
from engine.orchestration.ledger import Ledger

KILLS = 200
INTERRUPTS = 5  # in each state
HANGS = 3
SEED = 20_260_101
BACK = 5.0  # s within which a job must run again, on however slow a machine
GRACE = 3.0  # s over the lease


@dataclass
class Scene:
    """A server, a job and an engine that is brought into a state; `chance` says when it is struck there."""

    server: StandIn
    job: Job
    child: Child
    chance: random.Random
    _asking: list[threading.Thread] = field(default_factory=list)

    def wait(self, at_most: float) -> None:
        """Let a random time pass."""
        threading.Event().wait(self.chance.uniform(0.0, at_most))

    def type(self, condition: Callable[[], object], what: str) -> None:
        """Press ten keys a second until something is so. Raises Unmet."""
        due = clock.now()

        def typed() -> object:
            nonlocal due
            if clock.now() >= due:
                self.child.press()
                due += 0.1
            return condition()

        until(typed, what)

    def typing(self) -> None:
        """Type: it may be about to prepare, or be preparing."""
        end = clock.now() + self.chance.uniform(0.0, 1.5)
        self.type(lambda: clock.now() >= end, "the end of typing")

    def prepared(self) -> None:
        """Type until the job is held for a prompt that is foreseen."""
        self.type(lambda: self.job.stands, "the job to be held")
        self.child.until(lambda line: line["state"] == "SPECULATIVE_PREPARED", "SPECULATIVE_PREPARED")
        self.wait(0.3)

    def active(self) -> None:
        """Send a prompt; it may be in work, or about to be seen."""
        self.ask()
        self.wait(1.2)

    def serving(self) -> None:
        """Send a prompt, and see the job held for it."""
        self.ask()
        self.child.until(lambda line: line["state"] == "ACTIVE_INFERENCE", "ACTIVE_INFERENCE")
        until(lambda: self.job.stands, "the job to be held")

    def degraded(self) -> None:
        """Let the server die while the job is held for it; that may not be seen yet."""
        self.prepared()
        self.server.down()
        self.wait(0.5)

    def lost(self) -> None:
        """Let the server die, and that be seen."""
        self.prepared()
        self.server.down()
        self.child.until(lambda line: line["state"] == "DEGRADED", "DEGRADED")

    def closing(self) -> None:
        """Tell it to end while it holds the job."""
        self.prepared()
        self.child.process.terminate()
        self.wait(0.02)

    def ask(self) -> None:
        """Send a prompt whose reply does not end by itself."""
        asking = threading.Thread(target=_ask, args=(self.server.url,), name="stress-prompt")
        asking.start()
        self._asking.append(asking)

    def clear(self) -> None:
        """End the prompt, and bring the server back."""
        self.server.down()
        for asking in self._asking:
            asking.join()


def _ask(url: str) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        complete(url, "a prompt", clock, n_predict=100_000)


@contextlib.contextmanager
def _scene(stage: Stage, job: Job, chance: random.Random) -> Iterator[Scene]:
    """Run server and engine for one job; it must run again when they are gone."""
    with StandIn(restore_ms=100, token_ms=50) as server, Child(stage.room(), server.url, job) as child:
        scene = Scene(server, job, child, chance)
        try:
            child.ready()
            yield scene
        finally:
            scene.clear()


def _clean(stage: Stage, scene: Scene, where: str) -> None:
    """See that the job runs and nothing is left of the engine."""
    stage.check(scene.job.runs, f"the job was left held {where}")
    processes.resume(scene.job.identity)  # so that the next round tells something, too
    stage.check(not processes_of(scene.child.folder), f"a process was left {where}")
    try:
        left = Ledger(scene.child.ledger).read()
    except LedgerError as error:
        stage.faults.append(str(error))
    else:
        stage.check(not left, f"the ledger was left {where}: {left}")


def interrupt(stage: Stage) -> dict[str, Figure]:
    """Interrupt it in each state: exit 0, with no thread, child or held job left."""
    chance, taken = random.Random(SEED), []
    with stage.job() as job:
        for _ in stage.rounds(INTERRUPTS):
            for bring in (Scene.typing, Scene.prepared, Scene.serving, Scene.lost):
                where = f"by SIGINT in {bring.__name__}"
                with _scene(stage, job, chance) as scene:
                    bring(scene)
                    started = clock.now()
                    code = scene.child.end(signal.SIGINT)
                    taken.append(clock.now() - started)
                    stage.check(code == 0, f"exit {code} {where}")
                    stage.check(scene.child.threads == [], f"threads left {where}: {scene.child.threads}")
                    _clean(stage, scene, where)
    return {"times": len(taken), "states": 4, **in_ms(taken, "end")}


def kill(stage: Stage) -> dict[str, Figure]:
    """Kill it at random moments, spread over what it may be doing: the job runs again each time."""
    chance, taken = random.Random(SEED), []
    moods = (Scene.typing, Scene.prepared, Scene.active, Scene.degraded, Scene.closing)
    with stage.job() as job:
        for number in stage.rounds(KILLS):
            bring = moods[number % len(moods)]
            with _scene(stage, job, chance) as scene:
                bring(scene)
                was_held = job.stands
                took = _kill(stage, scene, f"by kill -9 in {bring.__name__}, number {number}")
                if was_held:
                    taken.append(took)
    return {"kills": stage.count(KILLS), "while_held": len(taken), **in_ms(taken, "kill_to_running")}


def _kill(stage: Stage, scene: Scene, where: str) -> float:
    """Kill the engine alone; return after how many seconds the job ran."""
    started = clock.now()
    scene.child.process.send_signal(KILL)
    until(lambda: scene.job.runs or clock.now() - started > BACK, "the job to run")
    took = clock.now() - started
    scene.child.end(KILL)  # waits for the guardian, too: only then nothing can change any more
    _clean(stage, scene, where)
    return took


def hang(stage: Stage) -> dict[str, Figure]:
    """Stop the engine while it holds the job: the job runs within the lease; woken, it takes up again."""
    chance = random.Random(SEED)
    back: list[float] = []
    again: list[float] = []
    with stage.job() as job:
        for _ in stage.rounds(HANGS):
            with _scene(stage, job, chance) as scene:
                scene.serving()
                scene.wait(1.0)
                engine = processes.look(scene.child.process.pid)
                assert engine
                processes.suspend(engine.process)
                back.append(until(lambda: job.runs, "the job to run while the engine hangs"))
                stage.check(back[-1] <= LEASE + GRACE, f"a hung engine kept the job for {back[-1]:.1f} s")
                scene.wait(1.0)
                stage.check(job.runs, "the job was stopped again while the engine hung")
                processes.resume(engine.process)
                again.append(until(lambda: job.stands, "the woken engine to take up again"))
                stage.check(scene.child.end(signal.SIGTERM) == 0, "the woken engine did not end clean")
                _clean(stage, scene, "by an engine that hung")
    return {"times": len(back), "lease_s": LEASE, **in_ms(back, "hung_to_running"), **in_ms(again, "woken_to_held")}
