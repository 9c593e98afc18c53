"""Holding the job by its processes when nothing stands still: restarts, crowds, the dead, orphans, other users."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers import as_ordinary_user
from helpers.job import identity, unique_name
from helpers.ordinary_user import run_as_ordinary_user
from helpers.wait import wait_until

from engine import processes
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Ledger, Resume
from engine.processes import Outcome, ProcessId

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.real]


class Bench:
    """A backend that stops the processes of one name, which cost nothing: they only sleep."""

    def __init__(self, folder: Path) -> None:
        self.name = unique_name()
        self.ledger = Ledger(folder / "ledger.json")
        self.finder = ProcessFinder(self.name, time.monotonic)
        self.backend = ProcessBackend(self.name, True, self.finder, Safeguard(self.ledger, _nothing, _nothing))
        self.program = self._linked("sleep")
        self.shell = self._linked("sh")

    def _linked(self, target: str) -> Path:
        program = self.ledger.path.parent / target / self.name
        program.parent.mkdir()
        program.symlink_to(shutil.which(target) or target)
        return program

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more process of the job."""
        return subprocess.Popen([self.program, "600"], start_new_session=True)


def _nothing() -> None:
    pass


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a bench without a job; whatever happens, nothing stays held."""
    bench = Bench(tmp_path)
    yield bench
    bench.backend.release()
    assert bench.ledger.read() == ()


def _kill(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
    for child in children:
        child.wait()


def test_a_job_that_starts_again_ten_times_a_second_is_never_left_stopped(bench: Bench) -> None:
    """For three seconds it is held, looked at and given back, while each of its processes lives a tenth."""
    over, seen = threading.Event(), set()

    def restart() -> None:
        while not over.is_set():
            with bench.start() as child:
                over.wait(0.1)
                child.kill()

    restarts = threading.Thread(target=restart)
    restarts.start()
    try:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            seen |= {bench.backend.apply(share).share for share in (10, 0)}
            seen.add(bench.backend.verify().share)
            bench.backend.release()
            assert bench.ledger.read() == ()
            for pid in (found.pid for found in bench.finder.find()):
                assert processes.state(pid) != "T"
    finally:
        over.set()
        restarts.join()
    assert {10, 0} <= seen


def test_two_hundred_processes_are_held_and_given_back(bench: Bench) -> None:
    """All of them, with one record."""
    children = [bench.start() for _ in range(200)]
    try:
        wait_until(lambda: len(bench.finder.find()) == 200, what="all of them")
        applied = bench.backend.apply(10)
        while "not yet seen" in applied.detail:
            applied = bench.backend.verify()
        assert (applied.share, applied.verified) == (10, True)
        assert [processes.state(child.pid) for child in children] == ["T"] * 200
        assert len(bench.ledger.read()) == 200
        bench.backend.release()
        assert "T" not in [processes.state(child.pid) for child in children]
    finally:
        _kill(children)


def test_the_dead_that_nobody_has_buried_are_not_held(bench: Bench) -> None:
    """A signal to a zombie succeeds and means nothing."""
    child = subprocess.Popen([bench.program, "0"], start_new_session=True)
    wait_until(lambda: processes.state(child.pid) == "Z", what="the end")
    assert bench.backend.apply(10) == Applied(100, None, f"no {bench.name} is running")
    child.wait()


@pytest.mark.parametrize("held_first", [True, False], ids=["held before", "held after"])
def test_a_worker_whose_parent_dies_is_held_and_given_back(bench: Bench, held_first: bool) -> None:
    """Its name is not the job's; that it was a child of the job is remembered."""
    script = "sleep 600 & echo $!; wait"
    with ExitStack() as stack:
        command = [bench.shell, "-c", script]
        parent = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        assert parent.stdout
        worker = identity(int(parent.stdout.readline()))
        stack.callback(os.kill, worker.pid, signal.SIGKILL)
        wait_until(lambda: bench.finder.find() == (worker,), what="the worker")
        if held_first:
            bench.backend.apply(10)
        parent.kill()
        parent.wait()
        assert bench.backend.apply(0).verified is True
        assert processes.stopped(worker)
        bench.backend.release()
        assert processes.state(worker.pid) != "T"


def test_a_worker_that_had_its_parents_name_is_held_when_that_has_died(bench: Bench, tmp_path: Path) -> None:
    """One just forked goes by the job's name until it becomes the program that does the work."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    inner = f"read line <{gate}; exec sleep 600"
    script = f"{bench.shell} -c '{inner}' & echo $!; wait"
    with ExitStack() as stack:
        command = [bench.shell, "-c", script]
        parent = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
        assert parent.stdout
        worker = identity(int(parent.stdout.readline()))
        stack.callback(os.kill, worker.pid, signal.SIGKILL)
        wait_until(lambda: bench.finder.find() == (worker,), what="the worker")
        parent.kill()
        parent.wait()
        gate.write_text("go\n")
        wait_until(lambda: "sleep" in (processes.command_line(worker.pid) or ()), what="the work to begin")
        assert bench.backend.apply(0).verified is True
        assert processes.stopped(worker)


def test_a_newcomer_writes_down_what_was_held_before_it(bench: Bench) -> None:
    """Somebody may have deleted the ledger meanwhile, and the guardian knows what it has read last."""
    children = [bench.start()]
    try:
        wait_until(lambda: len(bench.finder.find()) == 1, what="the first")
        bench.backend.apply(10)
        bench.ledger.path.unlink()
        children.append(bench.start())
        wait_until(lambda: len(bench.finder.find()) == 2, what="the second")
        bench.backend.verify()
        assert {entry.pid for entry in bench.ledger.read() if isinstance(entry, Resume)} == {c.pid for c in children}
    finally:
        bench.backend.release()
        _kill(children)


def test_what_only_looks_as_if_it_was_let_go_is_let_go(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of a descriptor it could not be seen to be held; forgotten as it is, it would stand for ever."""
    child = bench.start()
    try:
        wait_until(lambda: len(bench.finder.find()) == 1, what="it")
        assert bench.backend.apply(10).verified is True
        with monkeypatch.context() as blind:
            blind.setattr(processes, "stopped", lambda _: False)
            bench.backend.verify()
        assert processes.state(child.pid) != "T"
        assert bench.ledger.read() == ()
    finally:
        _kill([child])


def test_a_stop_by_somebody_else_on_top_of_ours_does_not_count(bench: Bench) -> None:
    """On Linux two stops are one: the job goes on when we give it back."""
    with bench.start() as child:
        bench.backend.apply(10)
        os.kill(child.pid, signal.SIGSTOP)
        assert bench.backend.verify().verified is True
        bench.backend.release()
        assert processes.state(child.pid) != "T"
        child.kill()


def test_one_stop_and_one_go_on_however_often_it_is_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows the system counts both: a second stop of ours would keep the job held."""
    counts = {"suspend": 0, "resume": 0}
    for name in counts:
        real = getattr(processes, name)

        def counted(process: ProcessId, name: str = name, real: object = real) -> Outcome:
            counts[name] += 1
            assert callable(real)
            outcome: Outcome = real(process)
            return outcome

        monkeypatch.setattr(processes, name, counted)
    with bench.start() as child:
        for share in (10, 0, 10):
            bench.backend.apply(share)
            bench.backend.verify()
        bench.backend.release()
        bench.backend.release()
        assert counts == {"suspend": 1, "resume": 1}
        child.kill()


def test_a_number_that_is_another_process_now_is_not_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the finder saw a moment ago may be gone: the start time must be the same when we act."""
    with bench.start() as child:
        now = identity(child.pid)
        monkeypatch.setattr(bench.finder, "find", lambda: (ProcessId(now.pid, now.start - 1),))
        assert bench.backend.apply(10).share == 100
        assert processes.state(child.pid) != "T"
        child.kill()


def test_a_job_of_another_user_is_refused_with_the_reason() -> None:
    """An ordinary user may not stop what another ordinary user runs, and is told so."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root, with setpriv, can start something for two other users")
    name = unique_name()
    with tempfile.TemporaryDirectory() as folder:  # not pytest's, which is closed to others
        Path(folder).chmod(0o755)
        program = Path(folder) / name
        program.symlink_to(shutil.which("sleep") or "")
        other = [setpriv, "--reuid=65533", "--regid=65533", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
        with subprocess.Popen([*other, program, "600"]) as job:
            wait_until(lambda: _comm(job.pid) == name, what="the job")
            answer = run_as_ordinary_user(Path(as_ordinary_user.__file__), name)
            assert processes.state(job.pid) != "T"
            job.kill()
    assert answer.stdout == f"100 False {name}: it belongs to another user\n", answer.stderr


def _comm(pid: int) -> str:
    seen = processes.look(pid)
    return seen.name if seen else ""
