"""What the program costs, measured from outside: shape, reasons, and that nothing it started is left."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from helpers.desktop import needs
from helpers.wait import wait_until

from diagnostics import overhead, overhead_inside, overhead_programs, overhead_run, overhead_table
from diagnostics.overhead_probe import Cost, Spread, Unmeasured, cost, read, spread
from diagnostics.overhead_run import CONDITIONS, ENGINE, LOOP, PROGRAMS, QUIET, SPEECH, TYPING, Found, Keys

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what threads do")
ROOT = Path(__file__).parents[2]
COST = Cost(0.5, 20.0, 48.0, 33.0, 9.0, 10, Spread(0.3, 0.5), Spread(100.0, 104.0), {"MainThread": 0.4})


def descendants(pid: int) -> list[psutil.Process]:
    """Return all processes that come from this one."""
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.real
@needs("Xvfb", "xdotool")
def test_the_engine_is_measured_beside_an_empty_loop() -> None:
    """Really run, really typed on, for two seconds; and all that was started has ended."""
    before = descendants(os.getpid())
    found = overhead_run.run(2.0, calm=0.0, only=(LOOP, ENGINE))
    for condition in (QUIET, TYPING):
        engine, empty = found.costs[ENGINE][condition], found.costs[LOOP][condition]
        assert engine is not None, found.reasons
        assert empty is not None, found.reasons
        assert engine.cpu_percent > empty.cpu_percent > 0
        assert engine.resident_mb >= engine.proportional_mb > empty.proportional_mb
        assert engine.threads > empty.threads == 1
        assert engine.wakeups_per_s > 0
        assert engine.helpers_mb > 0
        assert engine.tick_work_ms is not None
        assert engine.tick_interval_ms is not None
        assert 0 < engine.tick_work_ms.p50 <= engine.tick_work_ms.p99
        assert {"MainThread", "server-watch"} <= engine.by_thread.keys()
        assert empty.tick_work_ms is None
    assert found.keys is not None, found.reasons
    assert found.keys.without.p50 > 0
    assert found.server in ("llama.cpp", "stand-in")
    left = [process for process in descendants(os.getpid()) if process not in before]
    assert left == []


@pytest.mark.real
@needs("Xvfb")
def test_broken_off_it_ends_what_it_started() -> None:
    """Screen, server, engine and job: after a signal nothing is left of them."""
    command = [sys.executable, "-m", "diagnostics.overhead", "--seconds", "60"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:

        def engine_runs() -> bool:
            seen = [word for child in descendants(process.pid) for word in _words(child)]
            return overhead_programs.JOB in " ".join(seen) and "engine" in seen

        wait_until(engine_runs, timeout=60, what="the engine")
        started = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "broken off\n")
    assert process.returncode == 1
    wait_until(lambda: not any(one.is_running() for one in started), what="the end of all that was started")


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@ON_LINUX
def test_what_is_missing_is_said_and_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without screen and sound there is no typing, no speech and no tray, each with its reason; the rest goes on."""
    monkeypatch.setenv("PATH", "")
    found = overhead_run.run(0.2, calm=0.0, only=tuple(name for name in PROGRAMS if name != ENGINE))
    assert found.costs[LOOP][QUIET] is not None
    for name in PROGRAMS:
        for condition in CONDITIONS:
            assert (found.costs[name][condition] is None) is bool(found.reason(name, condition))
    assert found.reason(LOOP, TYPING) == "Xvfb is not installed"
    assert found.reason(LOOP, SPEECH) == "pulseaudio is not installed"
    assert found.reason(ENGINE, QUIET) == "not asked for"
    assert found.keys is None
    assert found.reasons["keys"] == "Xvfb is not installed"


def test_another_system_has_a_reason_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Linux tells what threads do: nothing is started, nothing claimed."""
    monkeypatch.setattr(sys, "platform", "win32")
    found = overhead_run.run(1.0)
    reasons = {found.reason(name, condition) for name in PROGRAMS for condition in CONDITIONS}
    assert reasons == {"only Linux tells what the threads of a process do"}
    assert found.keys is None
    assert "not known" in overhead_table.text(found)


def test_the_command_prints_one_shape(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON, the table, or lines; 1 only where not even the engine could be measured."""
    monkeypatch.setattr(overhead_run, "run", lambda seconds: some() if seconds == 60 else Found(seconds, load=[1.0]))
    assert overhead.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["server"] == "llama.cpp"
    assert overhead.main(["--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| program | meanwhile |")
    assert overhead.main(["--seconds", "5"]) == 1
    with pytest.raises(SystemExit, match="2"):
        overhead.main(["--seconds", "0"])


def test_the_json_has_one_shape_whatever_was_measured() -> None:
    """Every program and condition is there, null where it was not measured."""
    found = some()
    answer: dict[str, Any] = json.loads(msgspec.json.encode(found))
    assert answer.keys() == {"seconds", "server", "cores", "load", "costs", "keys", "reasons"}
    assert answer["costs"].keys() == set(PROGRAMS)
    assert all(by_condition.keys() == set(CONDITIONS) for by_condition in answer["costs"].values())
    assert answer["costs"][ENGINE][QUIET]["tick_work_ms"] == {"p50": 0.3, "p99": 0.5}
    assert answer["costs"][ENGINE][TYPING] is None
    assert answer["keys"]["added"] == {"p50": 0.01, "p99": -0.2}


def test_the_table_has_a_row_for_each_program_in_each_condition() -> None:
    """With what it takes over the empty program of its kind; below it what was not measured."""
    lines = overhead_table.markdown(some()).splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == 2 + len(PROGRAMS) * len(CONDITIONS)
    assert "| engine | quiet | 0.50 | 20 | 48 (33) | 10 | 0.30 · 0.50 | 100.00 · 104.00 | +0.48 |" in lines
    assert "| engine | typing | - | - | - | - | - | - | - |" in lines
    assert "Not measured: typing: xdotool is not installed." in lines
    assert any("in 0.30 ms (p99 0.60) without the engine" in line for line in lines)
    assert "engine, typing               xdotool is not installed" in overhead_table.text(some())


def some() -> Found:
    """Return what a run may find."""
    found = Found(20.0, server="llama.cpp", cores=2, load=[0.1, 0.2])
    found.costs[ENGINE][QUIET] = COST
    found.costs[LOOP][QUIET] = Cost(0.02, 10.0, 11.0, 5.0, 0.0, 1, None, None, {})
    found.keys = Keys(Spread(0.3, 0.6), Spread(0.31, 0.4), Spread(0.01, -0.2))
    found.fail(Unmeasured("xdotool is not installed"), TYPING)
    found.fail(Unmeasured("pulseaudio is not installed"), SPEECH)
    return found


@ON_LINUX
def test_a_process_that_is_gone_cannot_be_measured() -> None:
    """That is said, not counted as nothing."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        before = read(process.pid, None)
        process.kill()
    with pytest.raises(Unmeasured, match=f"process {process.pid} is gone"):
        read(process.pid, None)
    with pytest.raises(Unmeasured, match="gone"):
        cost(process.pid, None, before, before, 1.0)


@ON_LINUX
def test_the_ticks_are_noted_by_the_program_itself(tmp_path: Path) -> None:
    """When each began and how long it worked, in the order in which they came."""
    with overhead_programs.ours("engine", ("engine",), tmp_path / "e", "http://127.0.0.1:9", {}) as program:
        before = program.read()
        wait_until(lambda: program.read().ticks >= before.ticks + 5)
        after = program.read()
        seen = program.cost(before, after, 1.0)
    assert after.ticks < overhead_inside.ROOM
    assert seen.tick_interval_ms is not None
    assert seen.tick_interval_ms.p50 > 50


@ON_LINUX
def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    """Its last words are the reason."""
    with (
        pytest.raises(Unmeasured, match=r"it ended with 2: .*SERVER_URL"),
        overhead_programs.ours("engine", ("engine",), tmp_path / "e", "no-address", {}),
    ):
        pass


def test_a_spread_is_the_middle_and_the_worst_in_a_hundred() -> None:
    """Of nothing there is none."""
    assert spread([]) is None
    assert spread([float(value) for value in range(1, 201)]) == Spread(100.5, 198.0)
