"""Each phase of the stress test fails when what it guards is broken: else it would prove nothing."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diagnostics import stress_clock, stress_fuzz, stress_health, stress_job, stress_kill, stress_race
from diagnostics.stress_stage import Stage, Unmet, sweep
from engine import processes
from engine.client import answers
from engine.orchestration import undoing
from engine.orchestration.ledger import Entry, Undone
from engine.orchestration.mps import BackgroundShare
from engine.processes import Outcome, ProcessId

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"), pytest.mark.real]
BLIND_GUARDIAN = """
import sys
from diagnostics.stress_engine import main
from engine.orchestration import guardian
wait = "import os; os.write(1, b'r')\\nwhile os.read(0, 99): pass"
guardian.command = lambda path: [sys.executable, "-c", wait, str(path)]
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for what will not come no longer than needed; what does come takes a second or two."""
    monkeypatch.setattr("diagnostics.stress_stage.PATIENCE", 12.0)


def faults_of(phase: Callable[[Stage], object], folder: Path, scale: float) -> str:
    """Play a phase; return what it found fault with."""
    stage = Stage(folder, scale)
    try:
        phase(stage)
    except Unmet as error:
        stage.faults.append(str(error))
    finally:
        left = sweep(folder)
    assert left == ()
    return "; ".join(stage.faults)


def test_a_job_that_stays_held_while_the_server_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(b) A share that does not give back when it is asked to."""
    real = BackgroundShare.request

    def holds_on(share: BackgroundShare, percent: int, *, linger: bool = False) -> None:
        if percent < 100:
            real(share, percent, linger=linger)

    monkeypatch.setattr(BackgroundShare, "request", holds_on)
    assert "the job to run while the server is away" in faults_of(stress_health.flapping, tmp_path, 0.01)


def test_a_threshold_without_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(c) Tuning that knows no bounds."""
    monkeypatch.setattr("engine.orchestration.fsm._within", lambda _, value: value)
    assert "the threshold fell to" in faults_of(stress_clock.threshold, tmp_path, 1.0)


def test_a_job_that_is_not_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(d) A give-back that says so and does nothing."""

    def lies(entry: Entry) -> Undone:
        return Undone(entry, True, "it goes on")

    monkeypatch.setattr(undoing, "_resume", lies)
    assert "waited 12 s for the job to run" in faults_of(stress_job.fallback, tmp_path, 0.05)


def test_a_job_that_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(d) A suspension that says so and does nothing."""
    monkeypatch.setattr(processes, "suspend", lambda _: Outcome.DONE)
    assert "waited 12 s for the job to stand still" in faults_of(stress_job.fallback, tmp_path, 0.05)


def test_a_guardian_that_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(f) Nobody gives back what a killed engine held."""
    monkeypatch.setattr("diagnostics.stress_engine.START", (sys.executable, "-c", BLIND_GUARDIAN))
    monkeypatch.setattr(stress_kill, "BACK", 0.5)
    monkeypatch.setattr("diagnostics.stress_stage.PATIENCE", 60.0)  # nothing is waited for in vain here
    faults = faults_of(stress_kill.kill, tmp_path, 0.025)
    assert "the job was left held by kill -9 in prepared" in faults
    assert "the ledger was left" in faults


def test_a_hung_engine_that_keeps_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(g) The same guardian misses no beat, either."""
    monkeypatch.setattr("diagnostics.stress_engine.START", (sys.executable, "-c", BLIND_GUARDIAN))
    assert "the job to run while the engine hangs" in faults_of(stress_kill.hang, tmp_path, 0.1)


def test_a_reused_number_that_is_acted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(h) A give-back that does not look whose number it is."""
    real = processes.resume

    def careless(process: ProcessId) -> Outcome:
        now = processes.look(process.pid)
        return real(now.process if now else process)

    monkeypatch.setattr(processes, "resume", careless)
    found = faults_of(stress_job.changes, tmp_path, 0.05)
    assert "another process with a number from the ledger was told to go on" in found


def test_evidence_that_outlives_sleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(i) A fusion that does not notice the gap."""
    monkeypatch.setattr("engine.telemetry.processor.GAP", 1e9)
    assert "evidence outlived" in faults_of(stress_clock.jumps, tmp_path, 0.02)


@pytest.mark.parametrize(
    ("method", "answer", "fault"),
    [
        ("restorer.Restorer._rests", True, "a restore was sent to a busy slot"),
        ("restorer.Restorer._lost", True, "a restore was sent to a warm slot"),
        ("workbench.Workbench.free_stranded", None, "prompts were left waiting"),
    ],
    ids=["ignores a busy slot", "ignores a warm slot", "frees nobody"],
)
def test_a_client_that_harms_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, answer: object, fault: str
) -> None:
    """(j) The model notices each harm that the care of the client prevents."""
    monkeypatch.setattr(f"engine.client.{method}", lambda *_: answer)
    assert fault in faults_of(stress_race.interleave, tmp_path, 0.1)


def test_damaged_files_that_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(j) A list of contexts that does not look at their files."""
    monkeypatch.setattr("engine.client.matching._damage", lambda _: None)
    assert "a restore of a missing or short file was sent" in faults_of(stress_race.interleave, tmp_path, 0.1)


def test_a_client_that_trips_over_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """(j) An error that is none of ours."""

    def trips(_: bytes) -> answers.Props:
        raise KeyError("slots")

    monkeypatch.setattr(answers, "read_props", trips)
    assert "a look: KeyError" in faults_of(stress_fuzz.fuzz, tmp_path, 0.01)
