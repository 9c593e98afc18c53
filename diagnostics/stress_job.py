"""Phases (d) and (h): holding a job by its processes alone, and jobs that change while they are held."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

import psutil

from diagnostics.stress_stage import KILL, Figure, Job, Stage, Unmet, clock, held_by, in_ms, until
from engine import processes
from engine.events import ShareReport
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger, Resume
from engine.orchestration.leftovers import recover
from engine.orchestration.mps import BackgroundShare
from engine.processes import LOWEST, ProcessId

TIMES = 20
CHANGES = 5
STILL = 0.25  # s in which a stopped job must not use the processor
OTHERS = 5  # a priority that somebody else gives
_NOBODY = "http://127.0.0.1:9"


class Held:
    """The real share, alone. `report` is the newest."""

    def __init__(self, stage: Stage, job: Job, *, suspend: bool) -> None:
        self.path = stage.room() / "ledger.json"
        self.report = ShareReport(100, None, "null")
        settings = held_by(_NOBODY, job, suspend=suspend)
        self._share = BackgroundShare(settings, self._take, Ledger(self.path), Guardian(self.path), clock)
        self._beating = threading.Event()

    def _take(self, report: ShareReport) -> None:
        self.report = report

    def start(self) -> None:
        """Start, and beat as the loop does."""
        self._share.start()
        threading.Thread(target=self._beat, name="stress-beat").start()
        until(lambda: self.report.backend == "process", "the process backend to be chosen")

    def ask(self, percent: int, condition: Callable[[], object], what: str) -> float:
        """Ask for a share; return after how many seconds the system shows it. Raises Unmet."""
        started = clock.now()
        self._share.request(percent)
        until(condition, what)
        took = clock.now() - started
        until(lambda: self.report.share == percent, f"{percent} % to be reported")
        return took

    def close(self) -> bool:
        """Give back and end."""
        self._beating.set()
        return self._share.close()

    def _beat(self) -> None:
        while not self._beating.wait(0.1):
            self._share.beat()


@contextlib.contextmanager
def held(stage: Stage, job: Job, *, suspend: bool) -> Iterator[Held]:
    """Run the real share; what it holds is given back at the end."""
    share = Held(stage, job, suspend=suspend)
    try:
        share.start()
        yield share
    finally:
        stage.check(share.close(), "closing did not give the job back")
        stage.check(not share.path.exists(), "a ledger was left behind")


def fallback(stage: Stage) -> dict[str, Figure]:
    """Without MPS: hold and give back by the processes, seen in what the system says of them."""
    taken: list[float] = []
    given: list[float] = []
    with stage.job() as job, held(stage, job, suspend=True) as share:
        for _ in stage.rounds(TIMES):
            taken.append(share.ask(10, lambda: job.stands, "the job to stand still"))
            stage.check(share.report.verified, "a stopped job was not shown as verified")
            stage.check(_used(job, STILL) == 0.0, "a stopped job used the processor")
            given.append(share.ask(100, lambda: job.runs, "the job to run"))
            _works(job)
    figures = {"times": len(taken), **in_ms(taken, "suspend"), **in_ms(given, "resume")}
    return figures | {"nice": _lowered(stage)}


def _works(job: Job) -> None:
    before = _cpu(job)
    until(lambda: _cpu(job) > before, "the job to work")


def _lowered(stage: Stage) -> str:
    """Do the same by priority, where this user could raise it again."""
    if not may_renice():
        return "refused, as it must be: this user could not raise a priority again"
    with stage.job() as job, held(stage, job, suspend=False) as share:
        before = _nices(job)
        share.ask(10, lambda: _nices(job) == {LOWEST}, "the lowest priority")
        share.ask(100, lambda: _nices(job) == before, "the priority of before")
    return "lowered and restored"


def may_renice() -> bool:
    """Tell whether this user may raise a priority again."""
    ourselves = processes.look(os.getpid())
    return ourselves is not None and processes.may_restore(ourselves.process, 0)


def _nices(job: Job) -> set[int | None]:
    return {processes.nice(thread.pid) for thread in processes.threads(job.identity)}


def _cpu(job: Job) -> float:
    try:
        times = psutil.Process(job.pid).cpu_times()
    except psutil.NoSuchProcess:
        raise Unmet("the job is gone") from None
    return float(times.user + times.system)


def _used(job: Job, seconds: float) -> float:
    before = _cpu(job)
    threading.Event().wait(seconds)
    return _cpu(job) - before


# ---- (h) Jobs that change --------------------------------------------------------------------------------------------


def changes(stage: Stage) -> dict[str, Figure]:
    """Let the job restart, its number be reused, and others change it, while it is held."""
    taken: list[float] = []
    for _ in stage.rounds(CHANGES):
        taken.append(_restarted(stage))
        _reused(stage)
        _let_go_on(stage)
        if may_renice():
            _reniced(stage)
    return {"times": len(taken), **in_ms(taken, "restart_to_held"), "by_priority": may_renice()}


def _restarted(stage: Stage) -> float:
    """Kill a held job and start it anew; return after how many seconds the new one is held."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(stage.job())
        share = stack.enter_context(held(stage, first, suspend=True))
        share.ask(10, lambda: first.stands, "the job to stand still")
        os.kill(first.pid, KILL)
        started = clock.now()
        second = stack.enter_context(stage.job(first.name))
        until(lambda: second.stands, "the restarted job to be held")
        took = clock.now() - started
        share.ask(100, lambda: second.runs, "the restarted job to run")
        return took


def _reused(stage: Stage) -> None:
    """See a process left alone that has the number of another one in the ledger."""
    path = stage.room() / "ledger.json"
    with stage.job() as job:
        now = job.identity
        processes.suspend(now)
        until(lambda: job.stands, "the job to stand still")
        Ledger(path).record([Resume(now.pid, now.start - 1, job.name)])
        said = recover(path)
        stage.check(job.stands, "another process with a number from the ledger was told to go on")
        stage.check(not path.exists(), "the ledger still names a process that is gone")
        stage.check(any("had ended" in sentence for sentence in said), f"nothing was said of it: {said}")
        processes.resume(now)


def _let_go_on(stage: Stage) -> None:
    """Somebody else lets the job go on: so do we, and say so."""
    with stage.job() as job, held(stage, job, suspend=True) as share:
        share.ask(10, lambda: job.stands, "the job to stand still")
        until(lambda: share.report.verified, "a verified share")
        processes.resume(job.identity)
        _until_said(share)
        stage.check(job.runs, "a job that somebody else let go on was stopped again")
        stage.check(share.report.verified is not True, "a job that goes on was shown as held")


def _reniced(stage: Stage) -> None:
    """Somebody else gives it a priority: it keeps that, and it is said."""
    with stage.job() as job, held(stage, job, suspend=False) as share:
        share.ask(10, lambda: _nices(job) == {LOWEST}, "the lowest priority")
        until(lambda: share.report.verified, "a verified share")
        processes.renice(ProcessId(job.pid, job.identity.start), OTHERS)
        _until_said(share)
        share.ask(100, lambda: True, "the end")
        stage.check(_nices(job) == {OTHERS}, f"a priority that somebody else gave was changed to {_nices(job)}")


def _until_said(share: Held) -> None:
    until(lambda: "somebody else" in share.report.detail, "it to be said that somebody else changed the job")
