"""What is born at a lowered priority gets back what it was born of had."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.job import identity, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.orchestration import heirs
from engine.orchestration.backends.base import Safeguard
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Ledger, Renice
from engine.orchestration.leftovers import recover
from engine.orchestration.undoing import undo
from engine.processes import LOWEST, Outcome, ProcessId

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(
        not processes.may_restore(identity(os.getpid()), 0), reason="this user cannot raise a priority again"
    ),
    pytest.mark.real,
]

PARENT = """
import os, sys, threading, time
def wait():
    time.sleep(600)
def born():
    os.write(1, b"%d\\n" % threading.get_native_id())  # no lock, which a fork could find taken
    wait()
def many():
    for _ in range(60):
        if not os.fork():
            wait()
        time.sleep(0.001)
    wait()
for line in sys.stdin:
    match line.split():
        case ["thread"]:
            threading.Thread(target=born, daemon=True).start()
        case ["child"] if not os.fork():
            born()
        case ["grandchild"] if not os.fork():
            if not os.fork():
                born()
            wait()
        case ["many"]:
            threading.Thread(target=many, daemon=True).start()
"""


class Parent:
    """A job that bears threads and children when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.who = identity(process.pid)

    def bear(self, what: str) -> int:
        """Let it bear one; return the newcomer's number."""
        self.tell(what)
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def tell(self, word: str) -> None:
        """Say a word to it."""
        assert self.process.stdin
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def lowered(self, previous: int = 0) -> Renice:
        """Lower it by hand; return the entry that takes it back."""
        os.setpriority(os.PRIO_PROCESS, self.who.pid, previous)
        since = processes.now()
        os.setpriority(os.PRIO_PROCESS, self.who.pid, LOWEST)
        return Renice(self.who.pid, self.who.start, "job", previous, LOWEST, since)


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Parent]:
    """Give a job that is ended with all that it bears."""
    name = unique_name()
    program = tmp_path / name
    program.symlink_to(Path(sys.executable).resolve())
    words = [program, "-S", "-E", "-c", PARENT]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, text=True, start_new_session=True, **pipes) as process:
        wait_until(lambda: (seen := processes.look(process.pid)) and seen.name == name, what="the program")
        yield Parent(process)
        os.killpg(process.pid, 9)


def family(root: int) -> set[int]:
    """Return the numbers of this process, of all that come from it, and of their threads."""
    seen = [look for pid in processes.pids() if (look := processes.look(pid))]
    found = {root}
    while more := {look.process.pid for look in seen if look.parent in found} - found:
        found |= more
    return {thread.pid for pid in found for thread in processes.threads(identity(pid))}


@pytest.mark.parametrize("what", ["thread", "child", "grandchild"])
def test_what_is_born_while_it_is_lowered_gets_the_priority_back(parent: Parent, what: str) -> None:
    """It has ours from what it came from, and nobody else will ever take it back."""
    entry = parent.lowered(previous=3)
    newcomer = parent.bear(what)
    assert processes.nice(newcomer) == LOWEST
    (undone,) = undo([entry])
    assert undone.settled
    assert {processes.nice(pid) for pid in family(parent.who.pid)} == {3}


def test_all_ways_of_giving_back_do_it(parent: Parent, tmp_path: Path) -> None:
    """The backend's own, and that of the next start, which is also the guardian's."""
    seen = processes.look(parent.who.pid)
    assert seen
    ledger = Ledger(tmp_path / "ledger.json")
    safeguard = Safeguard(ledger, lambda: None, lambda: None)
    backend = ProcessBackend(seen.name, False, ProcessFinder(seen.name, time.monotonic), safeguard)
    for give_back in (backend.release, lambda: recover(ledger.path)):
        assert backend.apply(10).verified is True
        parent.bear("thread")
        parent.bear("child")
        give_back()
        assert {processes.nice(pid) for pid in family(parent.who.pid)} == {os.nice(0)}
        assert ledger.read() == ()


def test_what_was_at_the_lowest_priority_before_stays_so(parent: Parent) -> None:
    """It is its own; and so is any other value."""
    before, other = parent.bear("thread"), parent.bear("child")
    os.setpriority(os.PRIO_PROCESS, before, LOWEST)
    wait_until(lambda: processes.now() > identity(other).start, what="the clock to go on")
    entry = parent.lowered()
    newcomer = parent.bear("child")
    os.setpriority(os.PRIO_PROCESS, newcomer, 7)
    undo([entry])
    assert [processes.nice(pid) for pid in (parent.who.pid, before, other, newcomer)] == [0, LOWEST, os.nice(0), 7]


def test_an_entry_without_a_time_says_nothing_of_newcomers(parent: Parent) -> None:
    """One that an earlier version wrote down."""
    entry = parent.lowered()
    newcomer = parent.bear("child")
    (undone,) = undo([Renice(entry.pid, entry.start, entry.name, 0, LOWEST)])
    assert undone.settled
    assert processes.nice(newcomer) == LOWEST


def test_it_is_looked_again_until_nobody_is_left(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is given back it bears more and more."""
    monkeypatch.setattr(heirs, "_PAUSE", 0.3)  # a birth may take its time here
    entry = parent.lowered()
    parent.tell("many")
    wait_until(lambda: len(family(parent.who.pid)) > 10, what="the first few")
    wait_until(lambda: undo([entry])[0].settled, what="the last one")
    wait_until(lambda: len(family(parent.who.pid)) > 60, what="all of them")
    assert {processes.nice(pid) for pid in family(parent.who.pid)} == {0}


def test_newcomers_of_another_user_are_left_alone(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before they were born; while such a one lives, nothing is owed for it, and others get theirs back."""
    entry = parent.lowered()
    foreign, own = parent.bear("child"), parent.bear("child")
    real = processes.renice

    def denied(process: ProcessId, value: int) -> Outcome:
        return Outcome.DENIED if process.pid == foreign else real(process, value)

    monkeypatch.setattr(processes, "renice", denied)
    (undone,) = undo([entry])
    assert undone.settled
    assert [processes.nice(pid) for pid in (foreign, own)] == [LOWEST, 0]


def test_newcomers_that_cannot_be_looked_at_stay_owed(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry stands for them until they are."""
    entry = parent.lowered()
    newcomer = parent.bear("child")
    real = processes.find

    def blind(process: ProcessId) -> processes.Look | None:
        if process.pid == newcomer:
            raise OSError(24, "Too many open files")
        return real(process)

    with monkeypatch.context() as refusing:
        refusing.setattr(processes, "find", blind)
        (undone,) = undo([entry])
        assert not undone.settled
        assert undone.sentence == f"what job ({parent.who.pid}) has started could not be given its priority back"
    assert undo([entry])[0].settled
    assert processes.nice(newcomer) == 0


def test_where_nothing_can_be_listed_it_stays_owed(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows then whether there are any; and one that is born anew each time is not waited for without end."""
    entry = parent.lowered()
    with monkeypatch.context() as blind:
        blind.setattr(processes, "pids", list)
        assert not undo([entry])[0].settled
    monkeypatch.setattr(heirs, "_heirs", lambda _: [(ProcessId(2**31 - 1, 1), entry)])
    assert undo([entry])[0].settled
