"""Jobs of a shell at a terminal: a stop would come between the two, so they are not stopped."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.job import identity, unique_name
from helpers.terminal import terminal
from helpers.wait import wait_until

from engine import processes
from engine.orchestration import undoing
from engine.orchestration.backends.base import Safeguard
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Ledger, Resume
from engine.orchestration.undoing import undo

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.real]
needs_raising = pytest.mark.skipif(
    not processes.may_restore(identity(os.getpid()), 0), reason="this user cannot raise a priority again"
)


class Bench:
    """A job by a name of its own, which sleeps or listens to its terminal, and what finds and holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = unique_name()
        self.finder = ProcessFinder(self.name, time.monotonic)
        self.ledger = Ledger(folder / "ledger.json")

    def program(self, kind: str) -> Path:
        """Return `sleep` or `cat` under the job's name."""
        found = self.folder / self.name
        found.symlink_to(shutil.which(kind) or kind)
        return found

    def backend(self, *, suspend: bool = True) -> ProcessBackend:
        """Return what holds it."""
        return ProcessBackend(self.name, suspend, self.finder, Safeguard(self.ledger, lambda: None, lambda: None))

    def found(self) -> int:
        """Return its number once it runs."""
        wait_until(self.finder.find, what="the job")
        return self.finder.find()[0].pid


def goes_on(pid: int) -> bool:
    """Tell whether it is there and not stopped."""
    return (processes.state(pid) or "Z") in "RSD"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a bench; whatever it has found is ended."""
    bench = Bench(tmp_path)
    yield bench
    for left in bench.finder.find():
        with suppress(ProcessLookupError):
            os.kill(left.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["sleep 600", "cat"], ids=["quiet", "listens"])
def test_a_job_in_front_of_its_terminal_is_left_alone_and_keeps_it(bench: Bench, kind: str) -> None:
    """The shell would take the terminal, so the job would stop at its next question, and Ctrl+C would not reach it."""
    program, _, rest = kind.partition(" ")
    with terminal() as at:
        at.type(f"{bench.program(program)} {rest}\n")
        pid = bench.found()
        wait_until(lambda: at.front == pid, what="the job in front")
        backend = bench.backend()
        applied = backend.apply(0)
        assert (applied.share, applied.verified) == (100, False)
        assert "start it with setsid" in applied.detail
        assert bench.ledger.read() == ()
        backend.release()
        assert at.front == pid
        assert goes_on(pid)
        at.type("\x03")
        wait_until(lambda: processes.look(pid) is None, what="Ctrl+C to reach it")


def test_what_a_job_in_front_has_started_is_held_and_keeps_the_terminal(bench: Bench) -> None:
    """Its shell is told nothing of that, as it is not its child: so a script, make or a launcher can be held."""
    with terminal() as at:
        at.type(f"sh -c '{bench.program('cat')}; true'\n")
        pid = bench.found()
        wait_until(lambda: at.front == os.getpgid(pid), what="the job in front")
        backend = bench.backend()
        assert backend.apply(0).verified is True
        assert backend.apply(100).detail.endswith("goes on")
        assert (goes_on(pid), at.front) == (True, os.getpgid(pid))
        at.type("\x03")
        wait_until(lambda: processes.look(pid) is None, what="Ctrl+C to reach it")


def test_a_script_in_the_background_is_left_alone(bench: Bench) -> None:
    """What stands still in it would end with the shell."""
    with terminal() as at:
        at.type(f"sh -c '{bench.program('sleep')} 600; true' & disown\n")
        pid = bench.found()
        wait_until(lambda: os.getpgid(pid) != at.shell.pid, what="its group")
        assert "start it with setsid" in bench.backend().apply(0).detail
        at.type("exit\n")
        at.shell.wait(20)
        assert goes_on(pid)


def test_a_job_that_its_shell_has_disowned_outlives_the_shell(bench: Bench) -> None:
    """What stands still in a group that nobody looks after any more is ended by the system; so it never does."""
    with terminal() as at:
        at.type(f"{bench.program('sleep')} 600 </dev/null >/dev/null 2>&1 & disown\n")
        pid = bench.found()
        backend = bench.backend()
        assert "start it with setsid" in backend.apply(0).detail
        at.type("exit\n")
        at.shell.wait(20)
        assert goes_on(pid)
        backend.release()
        assert backend.apply(0).verified is True  # it is nobody's job now
        backend.release()
        assert goes_on(pid)


def test_a_job_in_a_session_of_its_own_is_held_and_outlives_the_shell(bench: Bench) -> None:
    """This is how it should be started."""
    with terminal() as at:
        at.type(f"setsid {bench.program('sleep')} 600 </dev/null >/dev/null 2>&1 &\n")
        pid = bench.found()
        wait_until(lambda: os.getsid(pid) == pid, what="its session")
        backend = bench.backend()
        assert backend.apply(0).verified is True
        at.type("exit\n")
        at.shell.wait(20)
        assert processes.state(pid) == "T"
        backend.release()
        assert goes_on(pid)


def test_a_job_that_has_a_terminal_for_itself_is_held(bench: Bench) -> None:
    """As in a window of tmux, or a terminal that runs one program: no shell is there to take notice."""
    with terminal(str(bench.program("cat"))) as at:
        pid = bench.found()
        wait_until(lambda: at.front == pid, what="the job in front")
        backend = bench.backend()
        assert backend.apply(0).verified is True
        assert backend.apply(100).detail.endswith("goes on")
        assert (goes_on(pid), at.front) == (True, pid)
        at.type("\x03")
        wait_until(lambda: (processes.state(pid) or "Z") == "Z", what="Ctrl+C to reach it")


@needs_raising
def test_a_lower_priority_takes_nothing_from_it(bench: Bench) -> None:
    """No shell takes notice of that."""
    with terminal() as at:
        at.type(f"{bench.program('sleep')} 600\n")
        pid = bench.found()
        backend = bench.backend(suspend=False)
        assert backend.apply(0).verified is True
        assert processes.nice(pid) == processes.LOWEST
        backend.release()
        assert processes.nice(pid) == os.nice(0)


def test_what_its_terminal_has_stopped_anew_is_said_and_not_owed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our stop is over; only its user can give it the terminal back."""
    monkeypatch.setattr(undoing, "_LOOKS", 4000)  # it may take its time here
    with terminal() as at:
        at.type(f"{bench.program('cat')}\n")
        pid = bench.found()
        wait_until(lambda: at.front == pid, what="the job in front")
        who = identity(pid)
        processes.suspend(who)
        at.wait_for_shell()
        (undone,) = undo([Resume(pid, who.start, bench.name)])
        assert undone.settled
        assert "its terminal has stopped it: type fg there" in undone.sentence
        at.type("fg\n")
        wait_until(lambda: goes_on(pid), what="the job to go on")
