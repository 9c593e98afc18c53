"""The scheduling class of the card under Windows: its logic, with the system's calls replaced."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.job import Job, background_job, identity, unique_name

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration import windows_gpu
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.grips import LeftAlone
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Entry, Ledger, Renice
from engine.orchestration.windows_gpu import IDLE, GpuClassGrip, restore
from engine.processes import Outcome, ProcessId

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
NORMAL, HIGH = 2, 4
DENIED = -0x3FFFFFDE  # STATUS_ACCESS_DENIED


class Windows:
    """The system: the class of each process. `deaf`: it says yes and changes nothing."""

    def __init__(self) -> None:
        self.classes: dict[int, int] = {}
        self.open_handles: list[int] = []
        self.denied = self.deaf = False
        self.opened = 0

    def open(self, pid: int) -> int:
        """Return the number itself as the handle."""
        if self.denied:
            return 0
        self.opened += 1
        self.open_handles.append(pid)
        return pid

    def close(self, handle: int) -> None:
        """Close one that is open."""
        self.open_handles.remove(handle)

    def get(self, handle: int) -> tuple[int, int]:
        """Return status and class."""
        assert handle in self.open_handles
        return (0, self.classes[handle]) if handle in self.classes else (DENIED, -1)

    def set(self, handle: int, value: int) -> int:
        """Set the class."""
        assert handle in self.open_handles
        if not self.deaf:
            self.classes[handle] = value
        return 0


@pytest.fixture
def windows() -> Iterator[Windows]:
    """Give a system that ends without an open handle."""
    windows = Windows()
    yield windows
    assert windows.open_handles == []


@pytest.fixture
def job(windows: Windows) -> Iterator[Job]:
    """Give a job of the normal class."""
    with background_job(unique_name()) as job:
        windows.classes[job.pid] = NORMAL
        yield job


def record(pid: int, start: int, name: str, previous: int, ours: int) -> Entry:
    """Make an entry; any with these fields will do here."""
    return Renice(pid, start, name, previous, ours)


def give_back(windows: Windows, worker: ProcessId) -> tuple[bool, str]:
    """Undo what was done to a process of the normal class."""
    return restore(worker, "FahCore_22", NORMAL, IDLE, calls=windows)


def test_the_class_is_lowered_read_back_and_restored(windows: Windows, job: Job) -> None:
    """What is recorded is what was in force before."""
    grip, (worker,) = GpuClassGrip(record, windows), job.workers
    grip.check()
    assert grip.targets(worker) == (worker,)
    plan = grip.plan(worker, worker, ())
    assert isinstance(plan, Renice)
    assert (plan.pid, plan.start, plan.previous, plan.ours) == (worker.pid, worker.start, NORMAL, IDLE)
    assert grip.act(worker) is Outcome.DONE
    assert grip.holds(worker)
    assert give_back(windows, worker) == (True, "FahCore_22 has its scheduling class of the card back")
    assert windows.classes[job.pid] == NORMAL
    assert give_back(windows, worker) == (True, "FahCore_22 had its scheduling class of the card back")


def test_a_call_that_succeeds_and_changes_nothing_is_not_believed(windows: Windows, job: Job) -> None:
    """Only what is read back counts, in both directions."""
    grip, (worker,) = GpuClassGrip(record, windows), job.workers
    windows.deaf = True
    assert grip.act(worker) is Outcome.DONE
    assert not grip.holds(worker)
    windows.classes[job.pid] = IDLE
    assert give_back(windows, worker)[0] is False


def test_what_somebody_else_set_is_left_alone(windows: Windows, job: Job) -> None:
    """Both before we act and after."""
    grip, (worker,) = GpuClassGrip(record, windows), job.workers
    windows.classes[job.pid] = IDLE
    assert grip.plan(worker, worker, ()) == LeftAlone(
        "it was already in the lowest scheduling class of the card", free=False
    )
    windows.classes[job.pid] = HIGH
    settled, sentence = give_back(windows, worker)
    assert settled
    assert "given class 4 of the card by somebody else" in sentence
    assert windows.classes[job.pid] == HIGH


def test_a_process_that_may_not_be_opened_is_left_alone(windows: Windows, job: Job) -> None:
    """It works on, and this is said; what we owe it stays owed."""
    grip, (worker,) = GpuClassGrip(record, windows), job.workers
    windows.denied = True
    assert grip.plan(worker, worker, ()) == LeftAlone("its scheduling class of the card cannot be read", free=True)
    assert grip.act(worker) is Outcome.DENIED
    assert not grip.holds(worker)
    assert give_back(windows, worker)[0] is False


def test_another_process_with_the_number_is_never_touched(windows: Windows, job: Job) -> None:
    """It is opened first and compared then."""
    grip = GpuClassGrip(record, windows)
    earlier = ProcessId(job.pid, job.workers[0].start - 1)
    assert grip.plan(earlier, earlier, ()) is None
    assert grip.act(earlier) is Outcome.GONE
    assert windows.classes[job.pid] == NORMAL
    assert give_back(windows, earlier) == (True, f"FahCore_22 ({job.pid}) had ended")


@pytest.mark.skipif(
    not processes.may_restore(identity(os.getpid()), 0), reason="this user cannot raise a priority again"
)
def test_the_backend_holds_by_priority_and_class_together(windows: Windows, tmp_path: Path) -> None:
    """One process, two entries; the class goes with the lowered priority only."""
    name = unique_name()
    written: list[tuple[int, int]] = []

    def note(pid: int, start: int, name: str, previous: int, ours: int) -> Entry:
        written.append((previous, ours))
        return record(pid, start, name, previous, 19)  # undone as a priority here: the ledger knows no class yet

    safeguard = Safeguard(Ledger(tmp_path / "ledger.json"), lambda: None, lambda: None)
    finder = ProcessFinder(name, lambda: 0.0)
    backend = ProcessBackend(name, False, finder, safeguard, (GpuClassGrip(note, windows),))
    with background_job(name) as job:
        windows.classes[job.pid] = NORMAL
        applied = backend.apply(10)
        assert applied == Applied(10, True, applied.detail)
        assert "lowest priority" in applied.detail
        assert "lowest scheduling class" in applied.detail
        assert windows.classes[job.pid] == IDLE
        assert written == [(NORMAL, IDLE)]
        backend.release()
    stopping = ProcessBackend(name, True, finder, safeguard, (GpuClassGrip(note, windows),))
    assert len(stopping._grips) == 1


def test_elsewhere_there_is_no_such_class() -> None:
    """The reason says so."""
    with pytest.raises(BackendUnavailable, match="only Windows"):
        windows_gpu.system_calls()
