"""What is to be undone is written down, believed only when it is ours, and undone only where nothing has changed."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.config.store import write_private
from engine.errors import LedgerError
from engine.orchestration.ledger import (
    Entry,
    Ledger,
    Renice,
    RestoreBoinc,
    RestoreMps,
    Resume,
    Undone,
    UnpauseFolding,
)
from engine.orchestration.leftovers import recover
from engine.orchestration.undoing import undo
from engine.processes import ProcessId

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ONE = Resume(4711, 1, "one")
TWO = Renice(4712, 2, "two", 0, 19)
PAUSE = UnpauseFolding("ws://127.0.0.1:9/", "card", True)
LEASE = RestoreBoinc("127.0.0.1:9", "")
SHARE = RestoreMps("/nowhere", 100.0, 10.0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Give a ledger in a folder that is not there yet."""
    return Ledger(tmp_path / "state" / "ledger.json")


def stop(job: Job) -> Resume:
    """Stop a job by hand; return the entry that takes it back."""
    os.kill(job.pid, signal.SIGSTOP)
    wait_until(lambda: job.stopped, what="the stop")
    return Resume(job.pid, job.workers[0].start, "job")


def test_entries_are_kept_until_they_are_cleared(ledger: Ledger) -> None:
    """Entries add up, none stands there twice, and without any there is no file."""
    assert ledger.read() == ()
    ledger.record([ONE])
    ledger.record([TWO, ONE])
    assert Ledger(ledger.path).read() == (ONE, TWO)
    ledger.clear([ONE])
    assert ledger.read() == (TWO,)
    ledger.clear([TWO])
    assert not ledger.path.exists()
    ledger.record([ONE, TWO])
    ledger.clear()
    assert not ledger.path.exists()
    ledger.clear()


def test_the_file_is_the_owners_alone(ledger: Ledger) -> None:
    """What others could read or write would not be believed later."""
    ledger.record([ONE])
    assert stat.S_IMODE(ledger.path.stat().st_mode) == 0o600


def test_the_folder_is_synced_too(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could take the new name of the file along."""
    synced: list[bool] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    ledger.record([ONE])
    assert synced == [False, True]


def test_what_was_before_the_restart_of_the_machine_is_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same number and ticks mean another process after a restart."""
    with background_job(unique_name()) as job:
        entry = stop(job)
        with monkeypatch.context() as earlier:
            earlier.setattr(processes, "boot_id", lambda: "an earlier boot")
            ledger.record([entry])
        assert ledger.read() == ()
        assert recover(ledger.path) == ()
        assert job.stopped
        assert not ledger.path.exists()


def test_what_the_job_itself_keeps_is_read_after_a_restart_of_the_machine_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause of Folding@home; leases, percentages and processes are over by then."""
    with monkeypatch.context() as earlier:
        earlier.setattr(processes, "boot_id", lambda: "an earlier boot")
        ledger.record([ONE, PAUSE, LEASE, SHARE])
        assert ledger.read() == (ONE, PAUSE, LEASE, SHARE)
    assert ledger.read() == (PAUSE,)
    ledger.record([TWO])
    assert ledger.read() == (PAUSE, TWO)
    ledger.clear([PAUSE, TWO])
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    "entry",
    [
        b'{"type":"unpause_folding","url":"","group":"","finish":false}',
        b'{"type":"unpause_folding","url":"ws://x/","group":"' + b"g" * 256 + b'","finish":false}',
        b'{"type":"unpause_folding","url":"' + b"u" * 2049 + b'","group":"","finish":false}',
        b'{"type":"restore_boinc","address":"x:1","password_file":"' + b"p" * 4097 + b'"}',
        b'{"type":"restore_mps","pipe_directory":"/x","previous":101,"ours":10}',
        b'{"type":"restore_mps","pipe_directory":"/x","previous":100,"ours":-1}',
    ],
)
def test_entries_beyond_all_bounds_are_refused(ledger: Ledger, entry: bytes) -> None:
    """What we would never write is not ours."""
    ledger.record([ONE])
    sheet = b'{"version":1,"boot":"' + processes.boot_id().encode() + b'","entries":[' + entry + b"]}"
    ledger.path.write_bytes(sheet)
    with pytest.raises(LedgerError, match="not a ledger"):
        ledger.read()


def test_each_entry_is_undone_by_its_backend_and_processes_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that fails is said and keeps none of the others from being undone."""

    def broken(_: Entry) -> Undone:
        raise RuntimeError("on fire")

    for name in ("boinc", "mps_control"):
        monkeypatch.setattr(f"engine.orchestration.backends.{name}.undo", lambda entry: Undone(entry, True, "undone"))
    monkeypatch.setattr("engine.orchestration.backends.folding.undo", broken)
    undone = undo([PAUSE, LEASE, SHARE, ONE])
    assert [(one.entry, one.settled) for one in undone] == [(ONE, True), (PAUSE, False), (LEASE, True), (SHARE, True)]
    assert undone[1].sentence == "UnpauseFolding: RuntimeError('on fire')"


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        pytest.param([UnpauseFolding("ws://127.0.0.1:9/", "g" * 256, False)], "length <= 255", id="long name"),
        pytest.param([Resume(1, 5, "job")], ">= 2", id="first process"),
        pytest.param([Renice(2 + i, 1, "job", 0, 19) for i in range(20_000)], "too large", id="crowd"),
    ],
)
def test_what_would_not_be_believed_is_not_written(ledger: Ledger, entries: list[Entry], reason: str) -> None:
    """Nothing has been done yet, and what stood there before is still believed."""
    ledger.record([ONE])
    with pytest.raises(LedgerError, match=reason):
        ledger.record(entries)
    assert ledger.read() == (ONE,)


def test_a_file_system_that_opens_it_to_all_is_noticed_before_anything_is_done(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a stick of a camera: the next start would refuse the file."""

    def without_modes(path: Path, content: bytes) -> None:
        write_private(path, content)
        path.chmod(0o777)

    monkeypatch.setattr("engine.config.store.write_private", without_modes)
    with pytest.raises(LedgerError, match="others may write it"):
        ledger.record([ONE])


def test_a_disk_that_forgets_is_noticed_before_anything_is_done(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that all is written."""
    monkeypatch.setattr("engine.config.store.write_private", lambda *_: None)
    with pytest.raises(LedgerError, match="does not keep what is written there"):
        ledger.record([ONE])


def _linked(path: Path) -> None:
    original = path.with_name("elsewhere")
    path.replace(original)
    path.symlink_to(original)


def _twice(path: Path) -> None:
    path.with_name("second").hardlink_to(path)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 65534, 65534)


def _edited(before: bytes, after: bytes) -> Callable[[Path], object]:
    def edit(path: Path) -> None:
        content = path.read_bytes()
        assert before in content
        path.write_bytes(content.replace(before, after))

    return edit


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        pytest.param(_linked, "it is a link", id="symbolic link"),
        pytest.param(_twice, "more than one link", id="second link"),
        pytest.param(_pipe, "not a regular file", id="pipe"),
        pytest.param(_folder, "not a regular file", id="folder"),
        pytest.param(_foreign, "belongs to another user", id="another user's"),
        pytest.param(lambda path: path.chmod(0o620), "others may write it", id="group writes"),
        pytest.param(lambda path: path.chmod(0o602), "others may write it", id="all write"),
        pytest.param(lambda path: path.write_bytes(b"\xff\x00{"), "not a ledger", id="garbage"),
        pytest.param(lambda path: path.write_bytes(b""), "not a ledger", id="empty"),
        pytest.param(lambda path: path.write_bytes(b"[" * 100_000), "not a ledger", id="deep"),
        pytest.param(lambda path: path.write_bytes(b" " * (1 << 20) + b"{}"), "too large", id="large"),
        pytest.param(_edited(b'"resume"', b'"kill"'), "not a ledger", id="unknown verb"),
        pytest.param(_edited(b'"name":"job"', b'"name":"job","run":"x"'), "not a ledger", id="unknown field"),
        pytest.param(_edited(b'"version":1', b'"version":2'), "not a ledger", id="other version"),
        pytest.param(_edited(b'"pid":', b'"pid":-'), "not a ledger", id="number of a group"),
    ],
)
def test_a_file_that_cannot_be_trusted_is_not_acted_on(
    ledger: Ledger, forge: Callable[[Path], object], reason: str
) -> None:
    """It is refused with the reason, set aside once, and work goes on with a new one."""
    with background_job(unique_name()) as job:
        ledger.record([stop(job)])
        forge(ledger.path)
        with pytest.raises(LedgerError, match=reason) as refusal:
            ledger.read()
        assert str(ledger.path) in str(refusal.value)
        with pytest.raises(LedgerError):
            ledger.record([ONE])
        said = recover(ledger.path)
        assert len(said) == 1
        assert "ledger.json.refused" in said[0]
        assert job.stopped
    assert recover(ledger.path) == ()
    ledger.record([ONE])
    assert ledger.read() == (ONE,)


def test_an_untrusted_file_that_cannot_be_set_aside_is_said(ledger: Ledger) -> None:
    """Both sentences reach the log, and nothing is raised."""
    ledger.record([ONE])
    ledger.path.chmod(0o622)
    blocker = ledger.path.with_name("ledger.json.refused")
    blocker.mkdir()
    assert "cannot be set aside" in recover(ledger.path)[1]


def test_a_ledger_that_cannot_be_written_is_an_error_of_ours(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk keeps us from acting, and says why."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("engine.config.store.write_private", full)
    with pytest.raises(LedgerError, match="cannot be written: No space left on device"):
        ledger.record([ONE])


def test_a_ledger_that_cannot_be_read_just_now_is_not_set_aside(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trouble of ours is no reason to distrust the file."""

    def busy(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    ledger.record([ONE])
    with monkeypatch.context() as trouble:
        trouble.setattr(os, "open", busy)
        assert "cannot be read" in recover(ledger.path)[0]
    assert ledger.read() == (ONE,)


@pytest.mark.parametrize("call", ["read", "fstat"])
def test_a_disk_that_fails_is_an_error_of_ours(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Also once the file is open."""

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    ledger.record([ONE])
    with monkeypatch.context() as trouble:
        trouble.setattr(os, call, broken)
        with pytest.raises(LedgerError, match="cannot be read: Input/output error"):
            ledger.read()


def test_entries_of_this_boot_are_not_taken_for_those_of_an_earlier_one(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While /proc cannot be read nobody knows; then nothing is read, and nothing written."""
    ledger.record([ONE])
    with monkeypatch.context() as trouble:
        trouble.setattr(processes, "boot_id", lambda: "")
        with pytest.raises(LedgerError, match="cannot be told from one of an earlier boot"):
            ledger.read()
        with pytest.raises(LedgerError):
            ledger.record([TWO])
    assert ledger.read() == (ONE,)


@pytest.mark.real
def test_the_next_start_gives_back_what_was_left(ledger: Ledger) -> None:
    """It says what it did, and there is nothing to do the second time."""
    with background_job(unique_name()) as job:
        ledger.record([stop(job)])
        assert recover(ledger.path) == (f"job ({job.pid}) goes on",)
        wait_until(lambda: job.running, what="the job to go on")
        assert recover(ledger.path) == ()


@pytest.mark.real
def test_a_process_that_only_has_the_same_number_is_left_alone(ledger: Ledger) -> None:
    """Neither verb touches a process that started at another time."""
    with background_job(unique_name()) as job:
        stop(job)
        start = job.workers[0].start + 1
        ledger.record([Resume(job.pid, start, "gone"), Renice(job.pid, start, "gone", 5, 0)])
        assert recover(ledger.path) == (f"gone ({job.pid}) had ended",)
        assert job.stopped
        assert processes.nice(job.pid) == os.nice(0)


@pytest.mark.real
@pytest.mark.parametrize(
    ("present", "after", "sentence"),
    [(19, 3, "has its priority back"), (7, 7, "priority 7 by somebody else"), (3, 3, "had its priority back")],
)
def test_a_priority_comes_back_only_if_it_is_still_ours(present: int, after: int, sentence: str) -> None:
    """A value that somebody else set meanwhile stays."""
    with background_job(unique_name()) as job:
        who = job.workers[0]
        if not processes.may_restore(who, 0):
            pytest.skip("this user cannot raise a priority again")
        os.setpriority(os.PRIO_PROCESS, job.pid, present)
        (undone,) = undo([Renice(who.pid, who.start, "job", 3, 19)])
        assert undone.settled
        assert sentence in undone.sentence
        assert processes.nice(job.pid) == after


def test_what_cannot_be_given_back_now_stays_written_down(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is settled is struck; the rest waits for the next try."""
    with background_job(unique_name()) as job:
        entry: Entry = Resume(job.pid, job.workers[0].start, "job")
        ledger.record([entry, ONE])
        monkeypatch.setattr(processes, "_signal", _denied_for(job.workers[0]))
        assert f"job ({job.pid}) could not be told to go on" in recover(ledger.path)
        assert ledger.read() == (entry,)


def _denied_for(who: ProcessId) -> Callable[[ProcessId, int], processes.Outcome]:
    return lambda process, _: processes.Outcome.DENIED if process == who else processes.Outcome.GONE


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
from engine.orchestration.ledger import Ledger
from engine.orchestration.undoing import undo
entries = Ledger(Path(sys.argv[1])).read()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open("/", os.O_RDONLY))
except OSError:
    os.close(taken.pop())
print(*[one.settled for one in undo(entries)])
"""


@pytest.mark.real
def test_what_cannot_be_looked_at_stays_owed(ledger: Ledger) -> None:
    """With a single descriptor left a process can be opened, and not be compared."""
    with background_job(unique_name()) as job:
        who = job.workers[0]
        ledger.record([stop(job), Renice(who.pid, who.start, "job", 0, 19, 1)])
        command = [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(ledger.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["False", "True"]  # a priority is compared and set by one descriptor
        assert job.stopped
        assert f"job ({job.pid}) goes on" in recover(ledger.path)


def test_the_guardian_can_load_it_without_psutil_and_settings() -> None:
    """The guardian stays resident, so it must stay small."""
    program = "import engine.orchestration.undoing, sys; print({'psutil', 'tomlkit', 'logging'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_file_reads_as_it_is_described(ledger: Ledger) -> None:
    """Another version of this program may have to undo it."""
    ledger.record([ONE])
    assert msgspec.json.decode(ledger.path.read_bytes()) == {
        "version": 1,
        "boot": processes.boot_id(),
        "entries": [{"type": "resume", "pid": 4711, "start": 1, "name": "one"}],
    }


def test_a_ledger_nested_without_end_is_refused(tmp_path: Path) -> None:
    """It must not take the program along."""
    path = tmp_path / "ledger.json"
    path.write_bytes(b"[" * 100_000)
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path).read()
