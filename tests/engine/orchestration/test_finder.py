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
from engine.orchestration.finder import ProcessFinder, Program, names_of
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
        ("fahclient", "FahCore_22", ("/var/lib/fah-client/cores/FahCore_22", "-dir", "01")),
        ("fah-client", "FahCore_a8.exe", ("C:\\fah\\FahCore_a8.exe",)),
        ("Folding@home", "fah-client", ("/usr/bin/fah-client",)),
        ("FahCore_*", "FahCore_26", ()),
        ("FahCore_22", "FahCore_22", ()),
        ("FAHClient.exe", "fah-client", ()),
        ("boinc-client", "boinc", ("/usr/bin/boinc",)),
        ("boincmgr", "boinc.exe", ("C:\\Program Files\\BOINC\\boinc.exe",)),
        ("boinc", "boinc_client", ("./boinc_client",)),
        ("einstein_O3AS_1.07", "einstein_O3AS_1", ()),
    ],
)
def test_names_that_fit(wanted: str, comm: str, arguments: tuple[str, ...]) -> None:
    """Case, hyphens, .exe, the cut at 15 characters and an interpreter in front make no difference."""
    assert Program(wanted).fits(names_of(comm, arguments))


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
        ("fahclient", "FahCore_zz", ()),
        ("fahclient", "FAHCoreWrapper", ("FAHCoreWrapper", "FahCore_22")),
        ("FahCore_22", "FahCore_23", ()),
        ("boinc", "boincmgr", ("boincmgr",)),
        ("boincmgr", "boincmgr", ("boincmgr",)),
        ("anything", "---------------", ()),
    ],
)
def test_names_that_do_not_fit(wanted: str, comm: str, arguments: tuple[str, ...]) -> None:
    """A part of a name, or a name among the arguments, is not the name."""
    assert not Program(wanted).fits(names_of(comm, arguments))


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


@pytest.mark.parametrize(("platform", "looks"), [("win32", 1), ("linux", 3)])
def test_who_may_not_be_looked_at_is_not_asked_again_and_again(
    monkeypatch: pytest.MonkeyPatch, platform: str, looks: int
) -> None:
    """Windows takes long to refuse; what comes later under such a number is looked at, and after a while all are."""
    now, looked = 0.0, []
    table: dict[int, Look | None] = {4: None}
    _show(monkeypatch, table)
    monkeypatch.setattr(processes, "look", lambda pid: looked.append(pid) or table.get(pid))
    monkeypatch.setattr(sys, "platform", platform)
    finder = ProcessFinder("job", lambda: now)
    assert [finder.find() for _ in range(3)] == [(), (), ()]
    assert len(looked) == looks
    del table[4]
    finder.find()
    table[4] = Look(ProcessId(4, 9), "job", "R", 1, 0)
    assert finder.find() == (ProcessId(4, 9),)
    table[5] = None
    finder.find()
    table[5] = Look(ProcessId(5, 9), "job", "R", 1, 0)
    now = 31.0
    assert finder.find() == (ProcessId(4, 9), ProcessId(5, 9))


# ---- Who holds the card ----------------------------------------------------------------------------------------------


def _family(*names: str) -> dict[int, Look]:
    """Return processes of which each is the parent of the next."""
    return {10 + n: Look(ProcessId(10 + n, 1 + n), name, "S", 9 + n, 0) for n, name in enumerate(names)}


def test_a_parent_that_has_the_card_open_is_found_with_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer computes by itself; its children only bring the data. A wrapper above both does nothing."""
    _show(monkeypatch, _family("job", "trainer", "loader"))
    monkeypatch.setattr(processes, "has_card", {10: False, 11: True}.__getitem__)
    finder = ProcessFinder("job", lambda: 0.0)
    assert [found.pid for found in finder.find()] == [11, 12]
    assert [member.pid for member in finder.members()] == [10, 11, 12]


@pytest.mark.parametrize("manager", ["fah-client", "boinc"])
def test_a_program_that_manages_others_is_not_found_above_them(monkeypatch: pytest.MonkeyPatch, manager: str) -> None:
    """It looks at the card, but a stopped one would answer nobody; without any children it is like any other."""
    table = _family(manager, "worker")
    _show(monkeypatch, table)
    monkeypatch.setattr(processes, "has_card", lambda _: True)
    finder = ProcessFinder(manager, lambda: 0.0)
    assert [found.pid for found in finder.find()] == [11]
    del table[11]
    assert [found.pid for found in finder.find()] == [10]


def test_the_card_is_asked_for_seldom_and_anew_for_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is kept for five seconds, for this very process only."""
    now, asked = 0.0, []
    table = _family("job", "loader")
    _show(monkeypatch, table)
    monkeypatch.setattr(processes, "has_card", lambda pid: bool(asked.append(pid)))
    finder = ProcessFinder("job", lambda: now)
    finder.find()
    finder.find()
    assert asked == [10]
    table[10] = Look(ProcessId(10, 99), "job", "S", 1, 0)
    finder.find()
    assert asked == [10, 10]
    now = 6.0
    finder.find()
    assert asked == [10, 10, 10]


@pytest.mark.real
def test_a_real_process_that_has_a_card_open_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its open files tell; a file stands for the card here."""
    card = tmp_path / "renderD128"
    card.touch()
    monkeypatch.setattr(processes, "CARDS", (str(tmp_path / "renderD"),))
    with card.open() as file, subprocess.Popen(["sleep", "60"], stdin=file) as with_card:
        assert processes.has_card(with_card.pid)
        with_card.kill()
    with subprocess.Popen(["sleep", "60"]) as without:
        assert not processes.has_card(without.pid)
        without.kill()
    assert not processes.has_card(without.pid)


# ---- What happens to a family ----------------------------------------------------------------------------------------


def test_children_stay_found_when_their_parent_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do the work still, under another parent and with names of their own; a stranger with the number does not."""
    table = _family("job", "wrapper", "worker")
    table[1] = Look(ProcessId(1, 0), "init", "S", 0, 0)
    _show(monkeypatch, table)
    finder = ProcessFinder("job", lambda: 0.0)
    assert finder.find() == (ProcessId(12, 3),)
    del table[10], table[11]
    table[12] = Look(ProcessId(12, 3), "worker", "S", 1, 0)
    assert finder.find() == (ProcessId(12, 3),)
    table[12] = Look(ProcessId(12, 99), "worker", "S", 1, 0)
    assert finder.find() == ()


def test_zombies_do_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent whose children are all dead works itself."""
    table = _family("job", "worker")
    _show(monkeypatch, table)
    finder = ProcessFinder("job", lambda: 0.0)
    assert finder.find() == (ProcessId(11, 2),)
    table[11] = Look(ProcessId(11, 2), "worker", "Z", 10, 0)
    assert finder.find() == (ProcessId(10, 1),)
