"""The guardian gives back when its parent dies, hangs or leaves, and at no other time."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration import guardian as module
from engine.orchestration.guardian import LEASE, Guardian
from engine.orchestration.ledger import Ledger, Resume

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@dataclass
class Held:
    """A stopped job, the ledger that says so, and an armed guardian."""

    job: Job
    ledger: Ledger
    guardian: Guardian

    @property
    def child(self) -> int:
        """The guardian's number."""
        assert self.guardian.pid
        return self.guardian.pid


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    """Give a guardian that is not started."""
    guardian = Guardian(tmp_path / "ledger.json")
    yield guardian
    guardian.stop()


@pytest.fixture
def held(tmp_path: Path, guardian: Guardian) -> Iterator[Held]:
    """Give a job that is stopped, written down and guarded."""
    with background_job(unique_name()) as job:
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.record([Resume(job.pid, job.workers[0].start, "job")])
        guardian.arm()
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: job.stopped, what="the stop")
        yield Held(job, ledger, guardian)


def test_the_child_is_alone_and_holds_nothing_but_its_pipe(guardian: Guardian) -> None:
    """Its own session, no working folder to pin, no open file that could keep a pipe from ending."""
    guardian.start()
    pid = guardian.pid
    assert pid
    assert os.getsid(pid) == pid
    process = Path("/proc") / str(pid)
    assert (process / "cwd").readlink() == Path("/")

    def files() -> dict[str, str]:
        return {entry.name: str(entry.readlink()) for entry in (process / "fd").iterdir()}

    wait_until(lambda: files().get("1") == "/dev/null", what="the child to let go of what it said to be ready by")
    assert files().keys() == {"0", "1", "2"}
    assert files()["0"].startswith("pipe:")
    assert files()["2"] == "/dev/null"


def test_starting_again_keeps_the_child(guardian: Guardian) -> None:
    """Starting is asked for before each action, so it must cost nothing."""
    guardian.start()
    pid = guardian.pid
    guardian.start()
    assert guardian.pid == pid


def test_stopping_ends_the_child_and_may_be_repeated(guardian: Guardian) -> None:
    """No zombie is left."""
    guardian.start()
    pid = guardian.pid
    assert pid
    guardian.stop()
    guardian.stop()
    assert not guardian.alive
    assert processes.look(pid) is None


def test_a_missed_beat_gives_back(held: Held) -> None:
    """A parent that hangs holds no longer than the lease."""
    started = time.monotonic()
    wait_until(lambda: held.job.running, what="the give-back")
    assert time.monotonic() - started > LEASE * 0.7
    wait_until(lambda: not held.ledger.path.exists(), what="the cleared ledger")
    wait_until(lambda: not held.guardian.alive, what="the guardian's end")
    assert not held.guardian.beat()


def test_beats_keep_it_quiet(held: Held) -> None:
    """As long as the parent is well nothing is given back."""
    until = time.monotonic() + LEASE * 1.5
    while time.monotonic() < until:
        assert held.guardian.beat()
        time.sleep(0.1)
    assert held.job.stopped


def test_at_rest_it_waits_without_beats(held: Held) -> None:
    """While nothing is held nobody has to wake up."""
    held.guardian.rest()
    time.sleep(LEASE * 1.2)
    assert held.guardian.alive
    assert held.guardian.beat()
    assert held.job.stopped


def test_when_it_is_told_to_leave_it_gives_back_what_is_left(held: Held) -> None:
    """A parent that leaves in disorder leaves no stopped job."""
    held.guardian.stop()
    wait_until(lambda: held.job.running, what="the give-back")
    assert not held.ledger.path.exists()


def test_signals_do_not_end_it(held: Held) -> None:
    """What ends a terminal, a session or a service does not end the guardian."""
    for name in ("SIGINT", "SIGHUP", "SIGTERM", "SIGQUIT", "SIGTSTP", "SIGPIPE"):
        os.kill(held.child, getattr(signal, name))
    time.sleep(0.1)
    assert held.guardian.alive
    assert held.guardian.beat()


def test_a_ledger_that_cannot_be_trusted_is_not_acted_on(held: Held) -> None:
    """The guardian believes no more than the next start does."""
    held.ledger.path.chmod(0o622)
    held.guardian.stop()
    assert held.job.stopped


def test_a_dead_child_is_noticed_and_replaced(held: Held) -> None:
    """A beat into a broken pipe is an answer, not a signal."""
    first = held.child
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not held.guardian.beat(), what="the end to be noticed")
    held.guardian.arm()
    assert held.child != first
    assert held.guardian.beat()


def test_a_stopped_child_counts_as_dead(held: Held) -> None:
    """A guardian that cannot act guards nothing."""
    first = held.child
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: not held.guardian.beat(), what="the stop to be noticed")
    held.guardian.arm()
    assert held.child != first
    assert processes.look(first) is None


def test_a_full_pipe_never_blocks(held: Held) -> None:
    """The loop that beats must not wait for anybody."""
    os.kill(held.child, signal.SIGSTOP)
    wait_until(lambda: processes.state(held.child) == "T", what="the stop")
    child = held.guardian._child
    assert child
    assert child.stdin
    assert child.stdin.write(b"b" * (1 << 20))
    assert not held.guardian._say(b"b")


def test_a_child_that_cannot_start_is_said(guardian: Guardian, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a guardian nothing may be held, so this is an error with a reason."""
    monkeypatch.setattr(module, "command", lambda _: ["/nowhere/python"])
    with pytest.raises(BackendUnavailable, match="cannot be started"):
        guardian.arm()
    monkeypatch.setattr(module, "command", lambda _: [sys.executable, "-c", ""])
    with pytest.raises(BackendUnavailable, match="ended while it was starting"):
        guardian.arm()
    assert guardian.pid is None
    assert not guardian.armed
