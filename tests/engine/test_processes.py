"""What is known of processes, and what is done to exactly one of them."""

import os
import socket
import subprocess
import sys

import pytest
from helpers.job import background_job, identity, unique_name
from helpers.wait import wait_until

from engine import processes
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
        assert processes.nice(job.pid) == 0


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
