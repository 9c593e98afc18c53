"""The guardian gives back when its parent dies, hangs or leaves, and at no other time."""

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.config import store
from engine.errors import BackendUnavailable
from engine.orchestration import guardian as module
from engine.orchestration.guardian import LEASE, Guardian
from engine.orchestration.ledger import Ledger, Resume

# The child as it is on Windows: looks into the pipe are those of Linux, and a descriptor belongs to whoever reads from
# it until there is something to read, as in the C runtime there.
ON_WINDOWS = """
import collections, fcntl, os, select, struct, sys, termios, threading, types
from engine.orchestration import guardian

locks, read, dup2 = collections.defaultdict(threading.RLock), os.read, os.dup2


def locked_read(descriptor, size):
    with locks[descriptor]:
        return read(descriptor, size)


def locked_dup2(source, target):
    with locks[min(source, target)], locks[max(source, target)]:
        return dup2(source, target)


def peek(handle, size):
    readable = select.select([handle], [], [], 0)[0]
    waiting = struct.unpack("i", fcntl.ioctl(handle, termios.FIONREAD, b"    "))[0]
    if readable and not waiting:
        raise BrokenPipeError("the pipe has been ended")
    return waiting, 0


os.read, os.dup2 = locked_read, locked_dup2
sys.modules["_winapi"] = types.SimpleNamespace(PeekNamedPipe=peek)
sys.modules["msvcrt"] = types.SimpleNamespace(get_osfhandle=lambda descriptor: descriptor)
sys.platform = "win32"
source = open(guardian.__file__, encoding="utf-8").read()
exec(compile(source.partition("if __name__")[0], guardian.__file__, "exec"), guardian.__dict__)
sys.platform = "linux"
sys.exit(guardian.main(sys.argv[1:]))
"""
# The first time that it wants to read the ledger after its parent's end, it may not.
REFUSED_ONCE = """
import os, sys
from engine.orchestration import guardian

ledger, open_, give_back = sys.argv[1], os.open, guardian._give_back


def refuse(path, *more):
    if str(path) != ledger:
        return open_(path, *more)
    os.open = open_
    raise PermissionError(13, "Permission denied")


def refused(ledger, held):
    os.open = refuse
    give_back(ledger, ())


guardian._give_back = refused
sys.exit(guardian.main(sys.argv[1:]))
"""

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]


@dataclass
class Held:
    """A stopped job, the ledger that says so, and an armed guardian."""

    job: Job
    ledger: Ledger
    guardian: Guardian
    since: float  # right before it was armed

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
def held(
    tmp_path: Path, guardian: Guardian, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Held]:
    """Give a job that is stopped, written down and guarded; a parameter is the program of the guardian."""
    script = getattr(request, "param", None)
    if script is not None:
        monkeypatch.setattr(module, "command", lambda ledger: [sys.executable, "-c", script, str(ledger)])
    with background_job(unique_name()) as job:
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.record([Resume(job.pid, job.workers[0].start, "job")])
        since = time.monotonic()
        guardian.arm()
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: job.stopped, what="the stop")
        yield Held(job, ledger, guardian, since)


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
    wait_until(lambda: held.job.running, what="the give-back")
    assert time.monotonic() - held.since >= LEASE
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


@pytest.mark.parametrize("remembers", [True, False])
@pytest.mark.parametrize("harm", ["deleted", "open to others", "unreadable"])
def test_what_it_read_when_it_was_armed_is_given_back_whatever_became_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, *, remembers: bool
) -> None:
    """A ledger that cannot be trusted is not acted on; the next start believes no more of it."""
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))
    with background_job(unique_name()) as job:
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.record([Resume(job.pid, job.workers[0].start, "job")])
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: job.stopped, what="the stop")
        said = iter((module.ARM, module.BEAT, b""))
        held = module._watch(lambda _: next(said), ledger)
        match harm:
            case "deleted":
                ledger.path.unlink()
            case "open to others":
                ledger.path.chmod(0o622)
            case _:
                ledger.path.unlink()
                ledger.path.mkdir()
        module._give_back(ledger, held if remembers else ())
        assert job.stopped is not remembers


def test_what_was_given_back_is_not_remembered(held: Held) -> None:
    """At rest the parent holds nothing, whatever was held before."""
    for words in ((module.ARM, module.BEAT, module.REST, b""), (module.ARM, module.REST + module.LEAVE)):
        said = iter(words)
        assert module._watch(lambda _, said=said: next(said), held.ledger) == ()
    said = iter((module.ARM + module.LEAVE,))
    assert len(module._watch(lambda _: next(said), held.ledger)) == 1


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


# ---- Windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [ON_WINDOWS], indirect=True)
def test_on_windows_a_missed_beat_gives_back_while_the_pipe_is_open(held: Held) -> None:
    """A parent that hangs ends no read: nobody may be reading when the child wants to let go of the pipe."""
    assert held.guardian.beat()
    wait_until(lambda: held.job.running, what="the give-back")
    wait_until(lambda: not held.ledger.path.exists(), what="the cleared ledger")
    assert not held.guardian.beat()


@pytest.mark.parametrize("held", [ON_WINDOWS], indirect=True)
def test_on_windows_beats_keep_it_quiet_and_the_end_is_noticed(held: Held) -> None:
    """At rest it waits without end; once the parent is gone it gives back."""
    until = time.monotonic() + LEASE * 1.5
    while time.monotonic() < until:
        assert held.guardian.beat()
        time.sleep(0.1)
    held.guardian.rest()
    time.sleep(LEASE * 1.2)
    assert held.job.stopped
    assert held.guardian.alive
    held.guardian.stop()
    wait_until(lambda: held.job.running, what="the give-back")


def test_on_windows_nobody_looks_at_the_child(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look takes long there, and this is asked with each beat."""
    monkeypatch.setattr(processes, "look", lambda _: pytest.fail("it looked"))
    with monkeypatch.context() as windows:
        windows.setattr(sys, "platform", "win32")
        assert held.guardian.alive
        held.guardian._child.kill()
        held.guardian._child.wait()
        assert not held.guardian.alive


# ---- A disk in trouble -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", [REFUSED_ONCE], indirect=True)
def test_a_ledger_that_cannot_be_read_just_now_is_read_again(held: Held) -> None:
    """Somebody may have it open; the job must not stay stopped for that."""
    held.guardian.stop()
    wait_until(lambda: held.job.running, what="the give-back")
    wait_until(lambda: not held.ledger.path.exists(), what="the cleared ledger")


def _once(monkeypatch: pytest.MonkeyPatch, where: object, name: str, answer: object) -> None:
    """Let a call fail, or answer with `answer`, a single time."""
    call = getattr(where, name)

    def failing(*_: object, **__: object) -> object:
        monkeypatch.setattr(where, name, call)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(where, name, failing)


def _nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    _once(monkeypatch, Path, "stat", OSError(errno.EIO, "Input/output error"))
    _once(monkeypatch, os, "open", OSError(errno.EIO, "Input/output error"))


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(lambda m: _once(m, os, "open", OSError(errno.ENFILE, "Too many open files")), id="opening"),
        pytest.param(lambda m: _once(m, os, "read", OSError(errno.EIO, "Input/output error")), id="reading"),
        pytest.param(lambda m: _once(m, processes, "boot_id", ""), id="the number of this boot"),
        pytest.param(_nowhere, id="all of it"),
    ],
)
def test_whatever_of_the_disk_fails_once_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """Even where the next try comes so late that somebody else could have written meanwhile: nobody has."""
    monkeypatch.setattr(module, "_PAUSES", (0.0, module._FRESH + 0.01))
    with background_job(unique_name()) as job:
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.record([Resume(job.pid, job.workers[0].start, "job")])
        os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: job.stopped, what="the stop")
        trouble(monkeypatch)
        module._give_back(ledger, ())
        wait_until(lambda: job.running, what="the job to go on")
        assert not ledger.path.exists()


@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_what_cannot_be_struck_out_keeps_nothing_else_from_being_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A full disk, or one that fails once the new file is there, while one of two jobs cannot be given back yet."""
    monkeypatch.setattr(module, "_PAUSES", (0.0, module._FRESH + 0.01))
    with background_job(unique_name()) as first, background_job(unique_name()) as second:
        ledger = Ledger(tmp_path / "ledger.json")
        ledger.record([Resume(job.pid, job.workers[0].start, "job") for job in (first, second)])
        for job in (first, second):
            os.kill(job.pid, signal.SIGSTOP)
        wait_until(lambda: first.stopped and second.stopped, what="the stops")
        _once(monkeypatch, processes, "_signal", processes.Outcome.DENIED)
        full = OSError(errno.ENOSPC, "No space left on device")
        if where == "fsync":
            _once(monkeypatch, store, "_sync_folder", full)
        else:
            _once(monkeypatch, Path, "replace", full)
        module._give_back(ledger, ())
        wait_until(lambda: first.running and second.running, what="both jobs to go on")
        assert not ledger.path.exists()
