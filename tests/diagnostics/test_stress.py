"""The stress test as people and programs call it, and each of its phases in small."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.engine_process import ROOT, user_folders
from helpers.wait import wait_until

from app import cli
from diagnostics import stress_rhythm, stress_test
from diagnostics.stress_stage import Result, Stage, Unmet, processes_of
from engine.processes import command_line

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.real]
SMALL = {
    "health": 0.07,
    "threshold": 1.0,
    "fallback": 0.1,
    "interrupt": 0.2,
    "kill": 0.025,
    "hang": 0.3,
    "changes": 0.2,
    "clock": 0.03,
    "server": 0.03,
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's settings out of it."""
    for name, folder in user_folders(tmp_path).items():
        monkeypatch.setenv(name, folder)


def test_every_phase_is_tried_here() -> None:
    """A new phase gets a test, too."""
    assert set(SMALL) | {"keys"} == set(stress_test.PHASES)
    assert len(stress_test.PHASES) == len(stress_test.LETTERS) == 10


@pytest.mark.parametrize("name", SMALL)
def test_a_phase_passes_in_small(name: str) -> None:
    """It finds no fault, shows figures, and leaves nothing behind, which `play` looks for itself."""
    (result,) = stress_test.play([name], SMALL[name])
    assert result.passed, result.figures
    assert result.name == name
    assert result.figures
    assert "fault" not in result.figures


def test_keys_at_100_hz(tmp_path: Path) -> None:
    """Ticks go on under them; how exactly is up to the machine, so the limits here are wide."""
    stage = Stage(tmp_path, 0.06)
    figures = stress_rhythm.keys(stage, off=5.0, lost=1000)
    assert stage.faults == []
    assert figures["keys"] == 180
    assert isinstance(figures["ticks"], int)
    assert figures["ticks"] > 2


def test_one_json_object_and_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """Exactly the contract on stdout, `progress K N` lines on stderr, exit 0."""
    assert cli.main(["stress", "--phase", "c", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert list(found) == ["passed", "phases"]
    assert found["passed"] is True
    assert [set(phase) for phase in found["phases"]] == [{"name", "passed", "figures"}]
    assert found["phases"][0]["figures"] == {
        "false_negatives": 15,
        "lowest": 0.4,
        "false_positives": 50,
        "highest": 0.9,
    }
    lines = captured.err.splitlines()
    assert lines[0] == "progress 0 100"
    assert lines[-1] == "progress 100 100"


def test_a_phase_that_fails_ends_with_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it waited in vain, broke, or left a process: the others are played all the same."""

    def waits(_: Stage) -> dict:
        raise Unmet("waited 30 s for the job to run")

    def breaks(_: Stage) -> dict:
        raise ZeroDivisionError

    def leaves(stage: Stage) -> dict:
        script = "import sys, time; time.sleep(600)"
        left.append(subprocess.Popen([sys.executable, "-c", script, str(stage.folder)]))
        # A process that has only just been started shows no command line yet.
        wait_until(lambda: str(stage.folder) in (command_line(left[0].pid) or ()), what="its command line")
        return {"left": 1}

    left: list[subprocess.Popen] = []
    monkeypatch.setattr("diagnostics.stress_stage.PATIENCE", 0.1)
    monkeypatch.setattr(stress_test.sweep, "__defaults__", (0.1,))
    phases = {"a": waits, "b": breaks, "c": leaves, "d": lambda _: {"seen": 3}}
    monkeypatch.setattr(stress_test, "PHASES", phases)
    assert stress_test.run(None, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert [phase["passed"] for phase in found["phases"]] == [False, False, False, True]
    assert found["phases"][0]["figures"] == {"faults": 1, "fault": "waited 30 s for the job to run"}
    assert found["phases"][1]["figures"]["fault"].startswith("ZeroDivisionError")
    assert found["phases"][2]["figures"]["fault"].startswith("left behind: ")
    assert left[0].wait(20) == -signal.SIGKILL


def test_the_table_says_what_passed() -> None:
    """One line a phase with its letter, a sentence at the end."""
    results = [Result("keys", True, {"p50_ms": 100.25, "x_sensed": None}), Result("kill", False, {"fault": "it was"})]
    assert stress_test.as_text(results).splitlines() == [
        "(a) keys       passed  p50_ms 100.25, x_sensed not measured",
        "(f) kill       FAILED  fault it was",
        "1 of 2 phases failed.",
    ]


@pytest.mark.parametrize(("number", "letter"), [("1", "a"), ("3", "c"), ("10", "j")])
def test_a_phase_goes_by_number_and_letter(number: str, letter: str) -> None:
    """Both name the same one."""
    assert stress_test.phase_name(number) == stress_test.phase_name(letter)


@pytest.mark.parametrize("words", [["11"], ["0"], ["k"], ["ab"], [""], ["-1"], ["keys"], []], ids=" ".join)
def test_a_phase_that_is_not_there_is_wrong_use(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and nothing is played."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["stress", "--phase", *words])
    assert ended.value.code == 2
    assert "--phase" in capsys.readouterr().err


def test_a_bad_setting_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """As with every command, also when it is run as a module."""
    assert stress_test.main(["--set", "NOPE=1"]) == 2
    assert "NOPE" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_broken_off_it_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl+C in the middle of the kills: exit 130, no process of its own, no folder."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = [sys.executable, "-m", "diagnostics.stress_test", "--phase", "f"]
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as stress:
        wait_until(lambda: len(processes_of(temporary)) >= 3, timeout=60, what="job, engine and guardian")
        stress.send_signal(number)
        _, said = stress.communicate(timeout=60)
    assert stress.returncode == 130, said
    assert said.splitlines()[-1] == "stress: broken off; everything was given back"
    assert processes_of(temporary) == ()
    assert list(temporary.iterdir()) == []
