"""The job is found by its name, never by a part of it, and never the wrong process."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.job import background_job, identity, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.orchestration.finder import ProcessFinder, goes_by, normalised
from engine.processes import Look, ProcessId

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.parametrize(
    ("wanted", "comm", "arguments"),
    [
        ("fahclient", "fah-client", ("/usr/bin/fah-client",)),
        ("fahclient", "FAHClient.exe", ("C:\\Program Files\\FAHClient\\FAHClient.exe",)),
        ("fah_client", "fahclient", ()),
        ("fahclient", "python3", ("python3", "/opt/fahclient.py")),
        ("fahclient", "python3.11", ("/usr/bin/python3.11", "-u", "-W", "error", "fah-client.py", "--x")),
        ("fahclient", "python3", ("python3", "-m", "fahclient")),
        ("fahclient", "bash", ("-bash", "fahclient.sh")),
        ("fahclient", "worker", ("/opt/fahclient", "--gpu")),
        ("nvidia-cuda-mps-control", "nvidia-cuda-mps", ("nvidia-cuda-mps-control", "-d")),
        ("nvidia-cuda-mps-control", "nvidia-cuda-mps", ()),
    ],
)
def test_names_that_fit(wanted: str, comm: str, arguments: tuple[str, ...]) -> None:
    """Case, hyphens, .exe, the cut at 15 characters and an interpreter in front make no difference."""
    assert goes_by(normalised(wanted), comm, arguments)


@pytest.mark.parametrize(
    ("wanted", "comm", "arguments"),
    [
        ("fahclient", "fahclient2", ("fahclient2",)),
        ("fah", "fahclient", ("fahclient",)),
        ("fahclient", "vim", ("vim", "fahclient")),
        ("fahclient", "python3", ("python3", "-c", "fahclient")),
        ("fahclient", "tail", ("tail", "-f", "/var/log/fahclient")),
        ("nvidia-cuda-mps-control", "nvidia-cuda-mps", ("nvidia-cuda-mps-server",)),
        ("nvidia-cuda-mps-control", "nvidia", ()),
        ("fahclient", "kworker/0:1", ()),
    ],
)
def test_names_that_do_not_fit(wanted: str, comm: str, arguments: tuple[str, ...]) -> None:
    """A part of a name, or a name among the arguments, is not the name."""
    assert not goes_by(normalised(wanted), comm, arguments)


def test_a_job_is_found_when_it_starts_and_lost_when_it_ends() -> None:
    """A finder that has ruled out everything still sees what comes."""
    name = unique_name()
    finder = ProcessFinder(name.upper(), time.monotonic)
    assert finder.find() == ()
    with background_job(name) as job:
        assert finder.find() == (identity(job.pid),)
    assert finder.find() == ()


def test_the_leaves_are_found() -> None:
    """Only what has no child of its own does the work."""
    name = unique_name()
    finder = ProcessFinder(name, time.monotonic)
    with background_job(name, children=2) as job:
        assert {found.pid for found in finder.find()} == set(job.children)


def test_a_script_is_found_by_its_name(tmp_path: Path) -> None:
    """An interpreter goes by the name of what it runs."""
    name = unique_name()
    script = tmp_path / f"{name}.py"
    script.write_text("print(flush=True)\nwhile True: pass\n")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        assert [found.pid for found in ProcessFinder(name, time.monotonic).find()] == [child.pid]
        child.kill()


def test_a_young_process_that_turns_into_the_job_is_found(tmp_path: Path) -> None:
    """`exec` keeps the number: what was ruled out while young is looked at again."""
    program = tmp_path / unique_name()
    program.symlink_to("/bin/sleep")
    finder = ProcessFinder(program.name, time.monotonic)
    with subprocess.Popen(["sh", "-c", f"read x; exec {program} 60"], stdin=subprocess.PIPE) as child:
        wait_until(lambda: processes.command_line(child.pid), what="the shell")
        assert finder.find() == ()
        assert child.stdin
        child.stdin.write(b"go\n")
        child.stdin.close()
        wait_until(lambda: finder.find() == (identity(child.pid),), what="the job")
        child.kill()


def test_neither_we_nor_our_ancestors_nor_the_spared_are_found() -> None:
    """A job named like this program, its shell or its guardian must not stop them."""
    for pid in (os.getpid(), os.getppid()):
        seen = processes.look(pid)
        assert seen
        found = {one.pid for one in ProcessFinder(seen.name, time.monotonic).find()}
        assert pid not in found
    name = unique_name()
    with background_job(name) as job:
        assert ProcessFinder(name, time.monotonic, spared=lambda: {job.pid}).find() == ()


def test_a_language_model_server_is_never_found() -> None:
    """Not even when the settings name it."""
    with background_job("llama-server") as job:
        assert job.pid not in {found.pid for found in ProcessFinder("llama-server", time.monotonic).find()}


def test_a_language_model_server_that_the_job_started_is_not_found_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are those that the server itself started."""
    table = {
        10: Look(ProcessId(10, 1), "job", "S", 1, 0),
        11: Look(ProcessId(11, 2), "llama-server", "S", 10, 0),
        12: Look(ProcessId(12, 3), "helper", "S", 11, 0),
    }
    _show(monkeypatch, table)
    assert ProcessFinder("job", lambda: 0.0).find() == ()


def _show(monkeypatch: pytest.MonkeyPatch, table: dict[int, Look]) -> None:
    """Let the finder see this table of old processes."""
    monkeypatch.setattr(processes, "pids", lambda: list(table))
    monkeypatch.setattr(processes, "look", table.get)
    monkeypatch.setattr(processes, "command_line", lambda _: ())
    monkeypatch.setattr(processes, "age", lambda _: 1000.0)


def test_a_number_that_another_process_has_now_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settled child's number is taken over by a stranger: it must not be held in the child's place."""
    table = {
        10: Look(ProcessId(10, 1), "job", "S", 1, 0),
        11: Look(ProcessId(11, 2), "worker", "R", 10, 0),
        os.getpid(): Look(ProcessId(os.getpid(), 3), "zat", "R", 1, 0),
    }
    _show(monkeypatch, table)
    finder = ProcessFinder("job", lambda: 0.0)
    assert finder.find() == (ProcessId(11, 2),)
    table[11] = Look(ProcessId(11, 99), "editor", "R", 1, 0)
    assert finder.find() == (ProcessId(10, 1),)


def test_all_are_looked_at_again_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old process may still rename itself."""
    now = 0.0
    table = {10: Look(ProcessId(10, 1), "loader", "S", 1, 0)}
    _show(monkeypatch, table)
    finder = ProcessFinder("job", lambda: now)
    assert finder.find() == ()
    table[10] = Look(ProcessId(10, 1), "job", "S", 1, 0)
    assert finder.find() == ()
    now = 31.0
    assert finder.find() == (ProcessId(10, 1),)
