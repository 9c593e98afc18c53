"""The headless engine as a program: its lines, its signals, and a job that is never left held, whatever dies."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_process import EngineProcess, engine_process, user_folders
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from diagnostics.mock_server import StandIn
from engine import daemon
from engine.daemon import as_dict, transition
from engine.events import Moved, Snapshot, State, Why

CONTRACT = {
    "at", "state", "paused", "probability", "threshold", "f_c", "g_a", "background_share", "background_verified",
    "backend", "server", "context", "hits", "false_positives", "false_negatives", "sensors",
}  # fmt: skip
real = pytest.mark.real


@pytest.fixture
def server() -> Iterator[StandIn]:
    """Return a stand-in whose replies take long enough to be killed in."""
    with StandIn(restore_ms=500, token_ms=20) as server:
        yield server


@contextlib.contextmanager
def engine_on(folder: Path, server: StandIn, job: str, **settings: object) -> Iterator[EngineProcess]:
    """Run an engine that suspends this job for the prompts of this server; no sensors."""
    values = {
        "SERVER_URL": server.url,
        "BACKGROUND_PROCESS_NAME": job,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "KEYBOARD": "off",
        "MICROPHONE": "off",
        **settings,
    }
    with engine_process(folder, values) as engine:
        engine.wait_snapshot("server and job", lambda seen: seen["server"] == "up" and seen["backend"] == "process")
        yield engine


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


def held(job: Job) -> bool:
    """Tell whether the job stands still."""
    return set(job.states) == {"T"}


def free(job: Job) -> bool:
    """Tell whether the job runs."""
    return "T" not in job.states


def test_json_lines_are_what_readers_rely_on(tmp_path: Path, server: StandIn) -> None:
    """A snapshot at once, then one a second, the last after give-back; logs on stderr; exit 0 on SIGTERM."""
    name = unique_name()
    with background_job(name) as job, engine_on(tmp_path, server, name) as engine:
        with prompting(server):
            engine.wait_move("ACTIVE_INFERENCE", "prompt")
            wait_until(lambda: held(job), what="the job to be held")
            engine.wait_snapshot("the share", lambda seen: seen["background_share"] == 0)
            assert engine.end(signal.SIGTERM) == 0
        assert free(job)
    for seen in engine.snapshots:
        assert set(seen) >= CONTRACT
        assert (seen["f_c"], seen["g_a"]) == (None, None)
        assert seen["sensors"] == {**seen["sensors"], "keyboard": "off", "microphone": "off"}
    last = engine.lines[-1]
    assert (last["state"], last["background_share"]) == ("COLD_IDLE", 100)
    assert engine.moves == [("ACTIVE_INFERENCE", "prompt"), ("COLD_IDLE", "closing")]
    moment = next(line for line in engine.lines if "transition" in line)
    assert set(moment) == {"at", "transition"}
    assert abs(moment["at"] - time.time()) < 600


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@real
def test_every_polite_end_gives_back(tmp_path: Path, server: StandIn, number: signal.Signals) -> None:
    """Ctrl+C, a service's stop, a closed terminal: the job runs, exit 0."""
    name = unique_name()
    with background_job(name) as job, engine_on(tmp_path, server, name) as engine, prompting(server):
        wait_until(lambda: held(job), what="the job to be held")
        assert engine.end(number) == 0
        assert free(job)


@real
def test_kill_9_gives_back(tmp_path: Path, server: StandIn) -> None:
    """The guardian sees the end of the engine and undoes what the ledger says."""
    name = unique_name()
    with background_job(name) as job, engine_on(tmp_path, server, name) as engine, prompting(server):
        wait_until(lambda: held(job), what="the job to be held")
        engine.end(signal.SIGKILL)
        wait_until(lambda: free(job), what="the job to run")


@real
def test_a_hung_engine_gives_back_and_takes_up_again(tmp_path: Path, server: StandIn) -> None:
    """Stopped in the middle of a prompt: the guardian misses its beat. Woken, the engine holds the job again."""
    name = unique_name()
    with background_job(name) as job, engine_on(tmp_path, server, name) as engine, prompting(server):
        wait_until(lambda: held(job), what="the job to be held")
        engine.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: free(job), what="the job to run")
        engine.process.send_signal(signal.SIGCONT)
        wait_until(lambda: held(job), what="the job to be held again")
        assert engine.end() == 0
        assert free(job)


@real
def test_an_engine_and_guardian_killed_together_are_made_up_for_at_the_next_start(
    tmp_path: Path, server: StandIn
) -> None:
    """Nobody is left to undo it, so the next engine does, before anything else; `release` does it by hand."""
    for way in ("release", "start"):
        name = unique_name()
        with background_job(name) as job:
            with engine_on(tmp_path, server, name) as engine, prompting(server):
                wait_until(lambda: held(job), what="the job to be held")
                guardian = _child(engine.process.pid)
                engine.process.send_signal(signal.SIGSTOP)  # else it may see the end of the guardian, and give back
                os.kill(guardian, signal.SIGKILL)
                engine.end(signal.SIGKILL)
            assert held(job)
            if way == "release":
                assert _run(tmp_path, "release").stdout == f"{name} ({job.pid}) goes on\n"
                assert _run(tmp_path, "release").stdout == "Nothing is held.\n"
            else:
                with engine_on(tmp_path, server, name) as engine:
                    wait_until(lambda: free(job), what="the job to run")
            assert free(job)


def test_a_second_engine_says_who_runs(tmp_path: Path, server: StandIn) -> None:
    """One engine a user: exit 1, one sentence with the process number."""
    with engine_process(tmp_path, {"SERVER_URL": server.url, "KEYBOARD": "off", "MICROPHONE": "off"}) as engine:
        engine.wait_snapshot("the first snapshot", bool)
        second = _run(tmp_path, "engine")
        assert second.returncode == 1
        assert second.stderr == f"zat-scs: an engine of yours is running already (process {engine.process.pid})\n"
        assert engine.end() == 0
    assert _run(tmp_path, "engine", "--for", "0.2", "--set", "KEYBOARD=off", "--set", "MICROPHONE=off").returncode == 0


def test_it_ends_by_itself_after_the_given_time(tmp_path: Path) -> None:
    """`--for` ends it as a signal would."""
    ended = _run(tmp_path, "engine", "--for", "1.5", "--json", "--set", "SERVER_URL=http://127.0.0.1:9", "--set",
                 "BACKGROUND_METHOD=off", DISPLAY="")  # fmt: skip
    assert ended.returncode == 0
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (last["state"], last["background_share"]) == ("COLD_IDLE", 100)


def test_a_server_that_is_not_there_and_a_missing_screen_do_not_matter(tmp_path: Path) -> None:
    """Both are said, and it ends as it should."""
    values = {"SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
    with engine_process(tmp_path, values, {"DISPLAY": ""}) as engine:
        engine.wait_move("DEGRADED", "server_lost")
        assert engine.end() == 0
    last = engine.snapshots[-1]
    assert (last["state"], last["background_share"], last["backend"], last["server"]) == (
        "COLD_IDLE",
        100,
        "null",
        "down",
    )
    assert last["sensors"]["keyboard"] == "off" or last["sensors"]["keyboard"].startswith("unavailable: ")


def test_a_mistake_in_the_file_is_said_and_the_engine_runs(tmp_path: Path) -> None:
    """One line in the log that names file, setting, value and range."""
    settings = tmp_path / "mine.toml"
    settings.write_text("WEIGHT_KEY = 7\nKEYBOARD = false\nMICROPHONE = false\n", "utf-8")
    ended = _run(tmp_path, "engine", "--for", "0.5", "--config", str(settings))
    assert ended.returncode == 0
    said = [line for line in ended.stderr.splitlines() if "WEIGHT_KEY" in line]
    assert len(said) == 1
    assert all(words in said[0] for words in (str(settings), "7", "from 0 to 1", "default"))


def test_a_reader_that_leaves_does_not_end_the_engine(tmp_path: Path, server: StandIn) -> None:
    """`zat-scs engine --json | head -1` closes the pipe; the engine goes on and ends cleanly."""
    values = {"SERVER_URL": server.url, "KEYBOARD": "off", "MICROPHONE": "off"}
    with engine_process(tmp_path, values) as engine:
        engine.wait_snapshot("a snapshot", bool)
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "engine", "--json", "--for", "3", *words]
    with subprocess.Popen(
        command, env={**os.environ, **user_folders(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0
        assert b"Traceback" not in process.stderr.read()


def test_names_and_values_of_a_line() -> None:
    """Unknown evidence is null, never zero; states by their names."""
    line = as_dict(Snapshot(at=1.0, state=State.DEGRADED))
    assert (line["state"], line["f_c"], line["g_a"], line["background_verified"]) == ("DEGRADED", None, None, None)
    move = transition(Moved(State.COLD_IDLE, State.DEGRADED, Why.SERVER_LOST))
    assert move == {"from": "COLD_IDLE", "to": "DEGRADED", "why": "server_lost"}


@pytest.mark.parametrize(
    ("share", "verified", "backend", "words"),
    [
        (100, None, "null", "free (null): why"),
        (0, True, "folding", "held (folding): why"),
        (10, False, "process", "held (process, not verified): why"),
        (30, True, "mps", "30 % left (mps): why"),
        (100, None, "mps", "free (mps): why"),
    ],
)
def test_the_log_names_a_share_only_where_there_is_one(
    caplog: pytest.LogCaptureFixture, share: int, verified: bool | None, backend: str, words: str
) -> None:
    """Most ways know all or nothing: ten percent of a suspended job would be none."""
    caplog.set_level(logging.INFO)
    daemon.Narrator()(
        Snapshot(
            at=1.0,
            state=State.COLD_IDLE,
            background_share=share,
            background_verified=verified,
            backend=backend,
            background_detail="why",
        )
    )
    assert f"background: {words}" in caplog.messages


def _child(pid: int) -> int:
    """Return the one child of a process: the guardian."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += (task / "children").read_text("ascii").split()
    return int(children[0])


def _run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "app", *words],
        env={**os.environ, **user_folders(folder), **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
