"""prepare, release, pause, resume and status against a real engine that holds a real job."""

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.engine_process import EngineProcess, engine_process, user_folders
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from app import cli
from diagnostics.mock_server import StandIn

pytestmark = pytest.mark.real
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def server() -> Iterator[StandIn]:
    """Return a stand-in whose replies take long enough to be asked in."""
    with StandIn(restore_ms=500, token_ms=20) as server:
        yield server


@pytest.fixture
def job() -> Iterator[Job]:
    """Return a busy job."""
    with background_job(unique_name()) as job:
        yield job


@pytest.fixture
def engine(tmp_path: Path, server: StandIn, job: Job) -> Iterator[EngineProcess]:
    """Return an engine that suspends this job for the prompts of this server, without sensors."""
    values = {
        "SERVER_URL": server.url,
        "BACKGROUND_PROCESS_NAME": Path(job.process.args[0]).name,
        "FALLBACK_TO_SUSPEND": "on",
        "KEYBOARD": "off",
        "MICROPHONE": "off",
    }
    with engine_process(tmp_path, values) as engine:
        engine.wait_snapshot("server and job", lambda seen: seen["server"] == "up" and seen["backend"] == "process")
        yield engine


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs a command of the same user: (exit code, stdout, stderr)."""
    for variable, folder in user_folders(tmp_path).items():
        monkeypatch.setenv(variable, folder)

    def run(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@contextlib.contextmanager
def prompting(server: StandIn) -> Iterator[None]:
    """Keep a prompt in work for as long as the block lasts."""
    script = (
        "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1] + '/completion',"
        "b'{\"prompt\": \"hello\", \"n_predict\": 100000}', {'Content-Type': 'application/json'})).read()"
    )
    with subprocess.Popen([sys.executable, "-c", script, server.url], stderr=subprocess.DEVNULL) as client:
        try:
            yield
        finally:
            client.kill()


def test_prepare_holds_the_job_for_the_time_asked_for(engine: EngineProcess, job: Job, command: Command) -> None:
    """It answers once the job stands; the end of the time is nobody's mistake."""
    code, out, err = command("prepare", "--for", "10")
    assert (code, err) == (0, "")
    assert out.startswith("A prompt seems near")
    assert "Prepared because: asked for by hand\n" in command("status")[1]
    assert job.stopped
    assert engine.wait_move("SPECULATIVE_PREPARED", "threshold") == 1
    engine.wait_move("COLD_IDLE", "timeout")
    wait_until(lambda: job.running, what="the job to run")
    assert engine.wait_snapshot("the share", lambda seen: seen["background_share"] == 100)["false_positives"] == 0


def test_stats_know_of_today_while_the_engine_runs_and_after(engine: EngineProcess, job: Job, command: Command) -> None:
    """The preparation and the seconds of the job that it took, from the engine first, then from its file."""
    assert command("prepare", "--for", "5")[0] == 0
    engine.wait_move("COLD_IDLE", "timeout")
    wait_until(lambda: job.running, what="the job to run")
    live = json.loads(command("stats", "--json")[1])["total"]
    assert (live["preparations"], live["asked"], live["hits"], live["false_alarms"]) == (1, 1, 0, 0)
    assert live["held_serving_s"] > 0
    assert engine.end() == 0
    code, out, err = command("stats", "--json")
    assert (code, err) == (0, "")
    kept = json.loads(out)["total"]
    assert kept["held_serving_s"] >= live["held_serving_s"]
    assert kept | {"held_serving_s": 0} == live | {"held_serving_s": 0}


def test_release_during_a_prompt(engine: EngineProcess, server: StandIn, job: Job, command: Command) -> None:
    """The job runs when it answers, though the server still works; again is as good."""
    with prompting(server):
        wait_until(lambda: job.stopped, what="the job to be held")
        for _ in range(2):
            assert command("release") == (
                0,
                "The engine holds nothing any more; it goes on, and waits for quiet before its next guess.\n",
                "",
            )
            assert job.running
        engine.wait_snapshot(
            "the end of it", lambda seen: (seen["state"], seen["background_share"]) == ("COLD_IDLE", 100)
        )
        assert engine.moves == [("ACTIVE_INFERENCE", "prompt"), ("COLD_IDLE", "paused")]


def test_pause_and_resume(engine: EngineProcess, server: StandIn, job: Job, command: Command) -> None:
    """Paused, a prompt in work holds nothing and nothing can be prepared; resumed, it does."""
    assert command("pause") == (0, "Paused until you resume; the background job is not held back.\n", "")
    assert command("prepare")[::2] == (1, "zat-scs: the engine is paused: `zat-scs resume` ends that\n")
    with prompting(server):
        engine.wait_snapshot("the prompt", lambda seen: seen["server"] == "busy")
        assert job.running
        assert command("resume")[0] == 0
        wait_until(lambda: job.stopped, what="the job to be held")
        assert command("pause", "--for", "5")[0] == 0
        assert job.running
        wait_until(lambda: job.stopped, what="the pause to end by itself")


def test_a_running_engine_forgets_and_does_not_write_it_again(
    engine: EngineProcess, server: StandIn, tmp_path: Path, command: Command
) -> None:
    """Its file is gone when it answers, and stays so over the end of the engine."""
    habits = Path(user_folders(tmp_path)["XDG_DATA_HOME"]) / "zat-scs" / "habits.json"
    with prompting(server):
        engine.wait_move("ACTIVE_INFERENCE", "prompt")
    habits.parent.mkdir(parents=True, exist_ok=True)
    habits.write_text("{}", "ascii")
    assert command("forget", "--habits") == (0, "Forgotten. The engine learns anew from the next prompt on.\n", "")
    assert not habits.exists()
    assert engine.end() == 0
    assert not habits.exists()


def test_nothing_can_be_prepared_without_a_server(
    engine: EngineProcess, server: StandIn, job: Job, command: Command
) -> None:
    """It says what is missing, and the job runs on."""
    server.stop()
    engine.wait_snapshot("the loss", lambda seen: seen["state"] == "DEGRADED")
    code, _, err = command("prepare")
    assert code == 1
    assert err.startswith("zat-scs: there is nothing to prepare for. The server does not answer")
    assert job.running


def test_status_for_people_and_for_programs(engine: EngineProcess, command: Command) -> None:
    """One sentence and a few lines, or the very fields of `engine --json`."""
    code, out, err = command("status")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Waiting for signs of a prompt; the background job is not held back."
    assert lines[-1] == f"engine: process {engine.process.pid}"
    assert len(lines) <= 8
    code, out, err = command("status", "--json")
    assert (code, err) == (0, "")
    assert set(json.loads(out)) == set(engine.snapshots[-1])
    assert json.loads(out)["state"] == "COLD_IDLE"


def test_a_hung_engine_is_released_by_hand(engine: EngineProcess, server: StandIn, job: Job, command: Command) -> None:
    """It does not answer within 2 s, and whatever it held runs; the others say so and fail."""
    with prompting(server):
        wait_until(lambda: job.stopped, what="the job to be held")
        engine.process.send_signal(signal.SIGSTOP)
        code, _, err = command("release")
        assert (code, err) == (0, "zat-scs: the engine has not answered for 2 s; it is undone by hand\n")
        assert job.running
        assert command("status") == (1, "", "zat-scs: the engine has not answered for 2 s\n")
        engine.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    "words", [("prepare",), ("pause", "--for", "5"), ("resume",), ("status",), ("status", "--json")]
)
def test_without_an_engine(words: tuple[str, ...], command: Command) -> None:
    """Exit 1 and one sentence."""
    assert command(*words) == (1, "", "zat-scs: no engine of yours is running\n")


def test_release_without_an_engine(command: Command) -> None:
    """By hand; there is nothing to do."""
    assert command("release") == (0, "Nothing is held.\n", "")


@pytest.mark.parametrize("seconds", ["0", "-1", "86401", "nan", "soon"])
def test_times_that_are_not_allowed(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong use."""
    for name in ("prepare", "pause"):
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--for", seconds])
        assert ended.value.code == 2
    assert "--for" in capsys.readouterr().err


def test_status_needs_no_engine_code(command: Command) -> None:
    """It starts in no time: nothing heavy comes with it."""
    del command  # only its folders
    script = (
        "import sys; from app import cli; cli.main(['status']);"
        "heavy = ('numpy', 'flask', 'requests', 'pynput', 'sounddevice', 'psutil', 'PySide6');"
        "print(*[name for name in heavy if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout == "\n"
