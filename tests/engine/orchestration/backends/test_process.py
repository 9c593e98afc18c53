"""Holding the job by its processes, with real ones."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.backend_contract import BackendContract
from helpers.job import Job, background_job, identity, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.grips import Lowering
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Ledger, Renice, Resume

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

needs_raising = pytest.mark.skipif(
    not processes.may_restore(identity(os.getpid()), 0), reason="this user cannot raise a priority again"
)


class Bench:
    """A backend with the record of what it told the guardian."""

    def __init__(self, folder: Path, suspend: bool) -> None:
        self.name = unique_name()
        self.ledger = Ledger(folder / "ledger.json")
        self.steps: list[str] = []
        self.watched: Job | None = None
        safeguard = Safeguard(self.ledger, self._arm, lambda: self.steps.append("rest"))
        self.backend = ProcessBackend(self.name, suspend, ProcessFinder(self.name, time.monotonic), safeguard)

    def hold(self, share: int) -> Applied:
        """Apply, and look again where a loaded machine has not stopped the job yet."""
        applied = self.backend.apply(share)
        while "not yet seen" in applied.detail:
            applied = self.backend.verify()
        return applied

    def _arm(self) -> None:
        written = "written" if self.ledger.read() else "not written"
        acted = self.watched and self.watched.stopped
        self.steps.append(f"arm: {written}, {'stopped' if acted else 'running'}")


@pytest.fixture
def stopping(tmp_path: Path) -> Iterator[Bench]:
    """Give a backend that stops."""
    bench = Bench(tmp_path, suspend=True)
    yield bench
    bench.backend.release()


@pytest.fixture
def lowering(tmp_path: Path) -> Iterator[Bench]:
    """Give a backend that lowers the priority."""
    bench = Bench(tmp_path, suspend=False)
    yield bench
    bench.backend.release()


class TestStoppingContract(BackendContract):
    """The contract, by stopping."""

    @pytest.fixture
    def backend(self, stopping: Bench) -> ProcessBackend:
        """Give the backend under contract."""
        return stopping.backend


@needs_raising
class TestLoweringContract(BackendContract):
    """The contract, by lowering."""

    @pytest.fixture
    def backend(self, lowering: Bench) -> ProcessBackend:
        """Give the backend under contract."""
        return lowering.backend


@pytest.mark.real
class TestStopping:
    """Processes are stopped and go on."""

    def test_the_job_stands_still_until_it_is_given_back(self, stopping: Bench) -> None:
        """10 and 0 are the same here, and what stays taken is said."""
        with background_job(stopping.name) as job:
            applied = stopping.hold(10)
            assert (applied.share, applied.verified) == (10, True)
            assert "memory of the card stays taken" in applied.detail
            assert job.stopped
            assert stopping.hold(0).share == 0
            assert job.stopped
            assert stopping.backend.apply(100) == Applied(100, None, f"{stopping.name} ({job.pid}) goes on")
            assert job.running

    def test_the_order_is_ledger_guardian_act_and_back_again(self, stopping: Bench) -> None:
        """When the guardian is armed the file is written and the job still runs."""
        with background_job(stopping.name) as job:
            stopping.watched = job
            stopping.hold(10)
            stopping.backend.release()
        assert stopping.steps == ["arm: written, running", "rest"]
        assert not stopping.ledger.path.exists()

    def test_a_job_already_stopped_stays_so(self, stopping: Bench) -> None:
        """Its user stopped it, so only its user lets it go on."""
        with background_job(stopping.name) as job:
            os.kill(job.pid, signal.SIGSTOP)
            wait_until(lambda: job.stopped, what="the stop")
            applied = stopping.hold(10)
            assert (applied.share, applied.verified) == (100, None)
            assert "already stopped" in applied.detail
            assert not stopping.ledger.path.exists()
            stopping.backend.release()
            assert job.stopped

    def test_only_the_workers_are_stopped_not_what_started_them(self, stopping: Bench) -> None:
        """A stopped wrapper would not answer its own service manager."""
        with background_job(stopping.name, children=2) as job:
            assert stopping.hold(10).verified is True
            assert job.states == "TT"
            assert processes.state(job.pid) in ("R", "S", "D")

    def test_newcomers_are_held_and_the_dead_are_struck(self, stopping: Bench) -> None:
        """A job that comes back has another number and another entry."""
        with background_job(stopping.name) as first:
            stopping.hold(10)
            first.kill()
            assert stopping.backend.verify() == Applied(100, None, f"no {stopping.name} is running")
            assert stopping.ledger.read() == ()
        with background_job(stopping.name) as second:
            assert stopping.backend.verify().verified is True
            assert second.stopped
            worker = second.workers[0]
            assert stopping.ledger.read() == (Resume(worker.pid, worker.start, stopping.name),)
            stopping.backend.release()
            assert second.running

    def test_what_somebody_else_lets_go_on_is_left_alone_and_said(self, stopping: Bench) -> None:
        """We do not fight; the report says that the card is not free."""
        with background_job(stopping.name) as job:
            stopping.hold(10)
            os.kill(job.pid, signal.SIGCONT)
            wait_until(lambda: job.running, what="the job to go on")
            for _ in range(2):
                applied = stopping.backend.verify()
                assert (applied.share, applied.verified) == (100, False)
                assert "somebody else" in applied.detail
                assert job.running
            assert stopping.ledger.read() == ()


@pytest.mark.real
@needs_raising
class TestLowering:
    """Threads get the lowest priority and their own back."""

    def test_every_thread_gets_the_lowest_priority_and_its_own_back(self, lowering: Bench) -> None:
        """On Linux each thread has a priority of its own."""
        with background_job(lowering.name, threads=2) as job:
            threads = [thread.pid for thread in processes.threads(job.workers[0])]
            assert len(threads) == 3
            os.setpriority(os.PRIO_PROCESS, threads[1], 5)
            os.setpriority(os.PRIO_PROCESS, threads[2], 19)
            applied = lowering.hold(10)
            assert (applied.share, applied.verified) == (10, True)
            assert [processes.nice(thread) for thread in threads] == [19, 19, 19]
            lowering.backend.release()
            assert [processes.nice(thread) for thread in threads] == [os.nice(0), 5, 19]

    def test_a_job_already_at_the_lowest_priority_stays_so(self, lowering: Bench) -> None:
        """There is nothing to do, so nothing to undo."""
        with background_job(lowering.name) as job:
            os.setpriority(os.PRIO_PROCESS, job.pid, 19)
            applied = lowering.hold(0)
            assert (applied.share, applied.verified) == (100, None)
            lowering.backend.release()
            assert processes.nice(job.pid) == 19

    def test_a_value_that_somebody_else_set_is_left_alone_and_said(self, lowering: Bench) -> None:
        """Seen while the job is held."""
        with background_job(lowering.name) as job:
            lowering.hold(10)
            os.setpriority(os.PRIO_PROCESS, job.pid, 7)
            assert "somebody else" in lowering.backend.verify().detail
            lowering.backend.release()
            assert processes.nice(job.pid) == 7

    def test_a_value_changed_just_before_the_give_back_is_left_alone_and_said(self, lowering: Bench) -> None:
        """Seen only when it is given back."""
        with background_job(lowering.name) as job:
            lowering.hold(10)
            os.setpriority(os.PRIO_PROCESS, job.pid, 7)
            assert "priority 7 by somebody else" in lowering.backend.release().detail
            assert processes.nice(job.pid) == 7

    def test_what_a_held_job_starts_gets_the_priority_back_that_the_job_had(self, lowering: Bench) -> None:
        """It was born at the lowest priority, which is ours and not its own."""
        with background_job(lowering.name, threads=1) as job:
            known = job.workers[0]
            _, other = processes.threads(known)
            lowering.hold(10)
            entries = [entry for entry in lowering.ledger.read() if isinstance(entry, Renice)]
            newcomer = Lowering().plan(other, known, entries[:1])
            assert isinstance(newcomer, Renice)
            assert newcomer.since >= entries[0].since > 0
            assert newcomer == Renice(other.pid, other.start, lowering.name, os.nice(0), 19, newcomer.since)

    def test_what_outlives_its_lowered_parent_gets_the_priority_back_too(self, lowering: Bench) -> None:
        """A program that forks and leaves: the child has our priority from a parent that nobody can ask any more."""
        with background_job(lowering.name) as first:
            lowering.hold(10)
            gone = lowering.ledger.read()
            first.kill()
            lowering.backend.verify()
        with background_job(lowering.name) as second:
            os.setpriority(os.PRIO_PROCESS, second.pid, 19)  # as if it had been born by the first
            assert lowering.hold(10).verified is True
            assert lowering.ledger.read() != gone
            lowering.backend.release()
            assert processes.nice(second.pid) == os.nice(0)


def test_a_priority_that_could_not_be_raised_again_is_refused(lowering: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user is told what to set instead."""
    monkeypatch.setattr(processes, "may_restore", lambda *_: False)
    with pytest.raises(BackendUnavailable, match="FALLBACK_TO_SUSPEND"):
        lowering.backend.priority()
    with background_job(lowering.name) as job:
        applied = lowering.hold(10)
        assert (applied.share, applied.verified) == (100, False)
        assert processes.nice(job.pid) == os.nice(0)


def test_a_job_of_another_user_is_refused_with_the_reason(stopping: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written down for what is not done."""
    monkeypatch.setattr(processes, "may_suspend", lambda _: False)
    with background_job(stopping.name) as job:
        applied = stopping.hold(10)
        assert applied == Applied(100, False, f"{stopping.name}: it belongs to another user")
        assert job.running
        assert stopping.steps == []
