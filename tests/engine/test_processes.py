"""What is known of processes, and what is done to exactly one of them."""

import errno
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest
from helpers.job import background_job, identity, unique_name
from helpers.terminal import terminal
from helpers.wait import wait_until

from engine import processes, procfs
from engine.processes import Outcome, ProcessId

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_we_see_ourselves() -> None:
    """One reading of /proc gives parent, state, priority and age."""
    seen = processes.look(os.getpid())
    assert seen
    assert seen.parent == os.getppid()
    assert seen.state in "RS"
    assert processes.nice(os.getpid()) == os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpid() in processes.pids()
    assert processes.alive(seen.process)
    assert 0 <= processes.age(seen.process) < 3600


def test_a_name_with_brackets_and_spaces_is_read_whole() -> None:
    """A name may hold all that separates the fields after it."""
    with background_job("zat) R (1 job") as job:
        seen = processes.look(job.pid)
        assert seen
        assert seen.name == "zat) R (1 job"
        assert seen.parent == os.getpid()


def test_command_line_and_environment_are_those_of_the_start() -> None:
    """Arguments come in order, and a value may hold an equals sign."""
    with subprocess.Popen(["sleep", "60"], env={"ZAT": "a=b"}) as child:
        wait_until(lambda: processes.command_line(child.pid) == ("sleep", "60"), what="the program to be there")
        assert processes.environment(child.pid) == {"ZAT": "a=b"}
        child.kill()


def test_where_a_process_runs_is_seen(tmp_path: Path) -> None:
    """Its relative paths count from there."""
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path) as child:
        assert processes.working_folder(child.pid) == str(tmp_path)
        child.kill()


def test_what_is_gone_is_answered_by_nothing() -> None:
    """A zombie is not alive, and what was reaped gives None, False or GONE, never an exception."""
    with subprocess.Popen(["true"]) as child:
        who = identity(child.pid)
        wait_until(lambda: processes.state(child.pid) == "Z", what="the end")
        assert not processes.alive(who)
        assert processes.resume(who) is Outcome.GONE
    assert processes.look(child.pid) is None
    assert processes.state(child.pid) is None
    assert processes.nice(child.pid) is None
    assert processes.command_line(child.pid) is None
    assert processes.environment(child.pid) is None
    assert processes.working_folder(child.pid) is None
    assert processes.threads(who) == ()
    assert not processes.stopped(who)
    assert processes.suspend(who) is Outcome.GONE
    assert processes.renice(who, 5) is Outcome.GONE


def test_a_process_that_only_has_the_same_number_is_left_alone() -> None:
    """The start must be the same, or nothing is done."""
    with background_job(unique_name()) as job:
        earlier = ProcessId(job.pid, job.workers[0].start - 1)
        assert not processes.alive(earlier)
        assert processes.suspend(earlier) is Outcome.GONE
        assert processes.renice(earlier, 5) is Outcome.GONE
        assert job.running
        assert processes.nice(job.pid) == os.nice(0)


@pytest.mark.real
def test_stop_and_go_on() -> None:
    """Stopped means that every thread stands still."""
    with background_job(unique_name(), threads=2) as job:
        worker = job.workers[0]
        assert processes.may_suspend(worker)
        assert processes.suspend(worker) is Outcome.DONE
        wait_until(lambda: processes.stopped(worker), what="every thread to stop")
        assert processes.resume(worker) is Outcome.DONE
        wait_until(lambda: job.running, what="the job to go on")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_who_listens_on_a_port(family: socket.AddressFamily) -> None:
    """Both families are looked through, and a closed port has nobody."""
    try:
        server = socket.create_server(("::1" if family is socket.AF_INET6 else "127.0.0.1", 0), family=family)
    except OSError as error:
        pytest.skip(f"no loopback address of this kind: {error}")
    with server:
        port = server.getsockname()[1]
        assert processes.listener(port) == os.getpid()
    assert processes.listener(port) is None


def test_the_boot_has_an_identity() -> None:
    """It is the same as long as the machine runs."""
    assert len(processes.boot_id()) == 36
    assert processes.boot_id() == processes.boot_id()


def test_numbers_that_nobody_has_are_answered_by_nothing() -> None:
    """A negative number would mean many processes, so it must mean none."""
    assert processes.look(-1) is None
    assert processes.suspend(ProcessId(2**31 - 1, 1)) is Outcome.GONE


def test_what_cannot_be_read_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of descriptors nobody can look, and what is stopped stays stopped."""
    with background_job(unique_name()) as job:
        worker = job.workers[0]
        with monkeypatch.context() as busy:
            busy.setattr(procfs, "stat", _out_of_descriptors)
            with pytest.raises(OSError, match="Too many open files"):
                processes.find(worker)
            assert processes.alive(worker)
            assert not processes.stopped(worker)
            assert processes.look(job.pid) is None
            assert processes.resume(worker) is Outcome.DENIED
            assert processes.renice(worker, 5) is Outcome.DENIED
        assert processes.find(worker)
        job.kill()
        assert processes.find(worker) is None
        assert not processes.alive(worker)


def _out_of_descriptors(_: int) -> bytes:
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_present_is_counted_as_starts_are() -> None:
    """What starts now has started at this time, give or take the tick that is just going on."""
    before = processes.now()
    with subprocess.Popen(["true"]) as child:
        assert before <= identity(child.pid).start <= processes.now()


def test_a_job_of_a_shell_is_told_from_what_nobody_looks_after() -> None:
    """The shell itself, as the first at its terminal, is no job."""
    with terminal() as at:
        at.type("cat\n")
        wait_until(lambda: at.front not in (0, at.shell.pid), what="the job in front")
        assert processes.under_job_control(at.front)
        assert not processes.under_job_control(at.shell.pid)
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
            assert not processes.under_job_control(child.pid)
            child.kill()
        assert not processes.under_job_control(2**31 - 1)


# ---- The other systems' half, run here: psutil shows the same on all -------------------------------------------------


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Give the module as it is on a Mac."""
    assert psutil.LINUX  # it has found out before it is told something else
    assert processes.__file__
    found = importlib.util.spec_from_file_location("processes_elsewhere", processes.__file__)
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    monkeypatch.setattr(sys, "platform", "darwin")
    found.loader.exec_module(module)
    monkeypatch.setattr(sys, "platform", "linux")
    return module


@pytest.mark.real
def test_elsewhere_a_process_is_seen_stopped_and_let_go_on(elsewhere: ModuleType) -> None:
    """The same names with the same meaning."""
    with background_job(unique_name()) as job:
        seen = elsewhere.look(job.pid)
        assert (seen.parent, seen.nice, seen.process.pid) == (os.getpid(), os.nice(0), job.pid)
        assert 0 <= elsewhere.age(seen.process) < 60
        assert job.pid in elsewhere.pids()
        assert elsewhere.command_line(job.pid) == processes.command_line(job.pid)
        assert elsewhere.environment(job.pid) == processes.environment(job.pid)
        assert elsewhere.working_folder(job.pid) == processes.working_folder(job.pid)
        assert elsewhere.threads(seen.process) == (seen.process,)
        assert not elsewhere.has_card(job.pid)
        assert elsewhere.may_suspend(seen.process)
        assert elsewhere.suspend(seen.process).name == "DONE"
        wait_until(lambda: elsewhere.stopped(seen.process), what="the stop")
        assert elsewhere.resume(seen.process).name == "DONE"
        wait_until(lambda: job.running, what="the job to go on")
        assert elsewhere.renice(seen.process, 5).name == "DONE"
        assert elsewhere.nice(job.pid) == 5


def test_elsewhere_the_wrong_and_the_dead_are_left_alone_too(elsewhere: ModuleType) -> None:
    """The start must be the same, and what is gone is answered by nothing."""
    with background_job(unique_name()) as job:
        seen = elsewhere.look(job.pid).process
        earlier = elsewhere.ProcessId(seen.pid, seen.start - 100)
        assert not elsewhere.alive(earlier)
        assert elsewhere.suspend(earlier).name == "GONE"
        assert elsewhere.renice(earlier, 5).name == "GONE"
        assert job.running
    assert elsewhere.look(job.pid) is None
    assert elsewhere.command_line(job.pid) is None
    assert elsewhere.environment(job.pid) is None
    assert elsewhere.working_folder(job.pid) is None
    assert elsewhere.suspend(seen).name == "GONE"


def test_elsewhere_the_listener_on_a_port_is_found(elsewhere: ModuleType) -> None:
    """As far as the system tells."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert elsewhere.listener(server.getsockname()[1]) == os.getpid()


def test_elsewhere_a_job_of_a_shell_is_told_too(elsewhere: ModuleType) -> None:
    """By the same rule."""
    with terminal() as at:
        at.type("cat\n")
        wait_until(lambda: at.front not in (0, at.shell.pid), what="the job in front")
        assert elsewhere.under_job_control(at.front)
        assert not elsewhere.under_job_control(at.shell.pid)
        assert not elsewhere.under_job_control(2**31 - 1)


def test_what_is_closed_to_us_is_not_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where /proc shows nobody the processes of others."""
    who = identity(os.getpid())

    def closed(pid: int) -> processes.Look:
        raise PermissionError(13, "Permission denied", f"/proc/{pid}/stat")

    monkeypatch.setattr(processes, "examine", closed)
    with pytest.raises(PermissionError):
        processes.find(who)
    assert processes.alive(who)


def test_elsewhere_a_number_that_another_has_now_is_gone_though_it_is_closed(
    elsewhere: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it started can be told of any; else what is left in the ledger would be owed for ever."""
    with background_job(unique_name()) as job:
        who = elsewhere.look(job.pid).process

        def closed(one: psutil.Process) -> str:
            raise psutil.AccessDenied(one.pid)

        monkeypatch.setattr(psutil.Process, "name", closed)
        assert elsewhere.find(processes.ProcessId(who.pid, who.start - 1000)) is None


def test_elsewhere_what_is_closed_to_us_is_not_taken_for_gone(
    elsewhere: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what psutil calls gone is gone."""
    with background_job(unique_name()) as job:
        who = elsewhere.look(job.pid).process

        def closed(one: psutil.Process) -> str:
            raise psutil.AccessDenied(one.pid)

        with monkeypatch.context() as refusing:
            refusing.setattr(psutil.Process, "name", closed)
            assert elsewhere.look(job.pid) is None
            assert elsewhere.alive(who)
            with pytest.raises(PermissionError):
                elsewhere.find(who)
        assert elsewhere.find(who)
    assert elsewhere.find(who) is None


def test_on_a_mac_a_process_stays_itself_when_the_clock_is_set(
    elsewhere: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There psutil moves the time of the start along, but for what it goes by itself."""
    system, moved = type(psutil.Process()._proc), [0.0]  # type: ignore[attr-defined]
    real = system.create_time

    def of_a_mac(one: object, monotonic: bool = False) -> float:
        return float(real(one)) + (0.0 if monotonic else moved[0])

    with background_job(unique_name()) as job:
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.setattr(system, "create_time", of_a_mac)
        who = elsewhere.look(job.pid).process
        moved[0] = 3600.0
        assert elsewhere.look(job.pid).process == who


def test_elsewhere_what_may_not_be_looked_at_is_refused_at_once(
    elsewhere: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the one question that Windows answers quickly; whatever else is asked of such a process takes long there."""

    def refuse(process: psutil.Process) -> int:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "nice", refuse)
    for name in ("status", "name", "create_time"):
        monkeypatch.setattr(psutil.Process, name, lambda _, name=name: pytest.fail(f"it was asked for its {name}"))
    assert elsewhere.look(os.getpid()) is None
