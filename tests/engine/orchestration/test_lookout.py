"""Listed programs that run, by real processes."""

import shutil
import sys
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.desktop import running
from helpers.wait import wait_until

from engine import processes
from engine.orchestration.lookout import Lookout

SLEEP = shutil.which("sleep") or "sleep"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return a program with a name of its own."""
    path = tmp_path / "zat-quiet_Show"
    shutil.copy(SLEEP, path)
    return path


def test_a_listed_program_is_named_while_it_runs(program: Path) -> None:
    """As it is listed; suffix, hyphens and capitals do not matter; afterwards nothing is."""
    lookout = Lookout(" , no-such-program, ZAT-QuietShow.exe,")
    assert lookout() is None
    with running([str(program), "60"]):
        wait_until(lambda: lookout() == "ZAT-QuietShow.exe", what="the program")
    wait_until(lambda: lookout() is None, what="its end")


def test_nothing_listed_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default costs nothing."""
    monkeypatch.setattr(processes, "pids", lambda: pytest.fail("it looked"))
    assert Lookout(" , ")() is None


def test_only_what_is_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes older than 5 s are known by then; once a minute all are looked at again."""
    looked: list[int] = []
    monkeypatch.setattr(processes, "pids", lambda: [1, 4321])
    monkeypatch.setattr(processes, "command_line", lambda pid: (f"program{pid}",))
    monkeypatch.setattr(processes, "age", lambda process: 4.0 if process.pid == 4321 else 6.0)

    def counted(pid: int) -> processes.Look:
        looked.append(pid)
        return processes.Look(processes.ProcessId(pid, 0), f"program{pid}", "S", 0, 0)

    monkeypatch.setattr(processes, "look", counted)
    clock = FakeClock()
    lookout = Lookout("program1", clock.now)
    assert [lookout(), lookout()] == ["program1", "program1"]
    assert sorted(looked) == [1, 4321, 4321]
    clock.advance(60.0)
    lookout()
    assert looked.count(1) == 2


@pytest.mark.parametrize(("platform", "looks"), [("win32", 1), ("linux", 3)])
def test_who_may_not_be_looked_at_is_not_asked_again_and_again(
    monkeypatch: pytest.MonkeyPatch, platform: str, looks: int
) -> None:
    """Windows takes long to refuse; elsewhere such a process is gone, and its number may soon be somebody else's."""
    looked: list[int] = []
    monkeypatch.setattr(processes, "pids", lambda: [4])
    monkeypatch.setattr(processes, "look", looked.append)
    monkeypatch.setattr(sys, "platform", platform)
    clock = FakeClock()
    lookout = Lookout("program", clock.now)
    assert [lookout() for _ in range(3)] == [None, None, None]
    assert len(looked) == looks
    clock.advance(60.0)
    assert lookout() is None
    assert len(looked) == looks + 1
