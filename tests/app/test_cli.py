"""The `zat-scs` command as people call it: answers, exit codes, and where options may stand."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.engine_process import user_folders

from app import by_hand, cli
from diagnostics.mock_server import StandIn
from engine.config.store import load
from engine.config.table import markdown


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command with its files in `folder`."""
    return subprocess.run(
        [sys.executable, "-m", "app", *words],
        env={**os.environ, **user_folders(folder), **env},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "WEIGHT_KEY=2", "settings"],
        ["settings", "--set", "WEIGHT_KEY=2"],
        ["settings", "--set=WEIGHT_KEY=2"],
        ["engine", "--for", "1", "--set", "WEIGHT_KEY=2"],
    ],
)
def test_a_bad_setting_ends_with_2_and_one_sentence(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after the subcommand, the message names source, setting, value and range."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert cli.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "zat-scs: --set WEIGHT_KEY: WEIGHT_KEY = 2.0 is not allowed: expected a number from 0 to 1\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["settings", "--set"], "--set: expected NAME=VALUE after it"),
        (["settings", "--config"], "--config: expected a file after it"),
        (["settings", "--config", "/nowhere/at/all.toml"], "--config /nowhere/at/all.toml: there is no such file"),
        (["settings", "--set", "NOPE=1"], "NOPE"),
    ],
)
def test_wrong_use_of_the_common_options(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and what was expected."""
    assert cli.main(words) == 2
    assert expected in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_defect(tmp_path: Path) -> None:
    """As `zat-scs settings | head -1` would be: nothing is complained of."""
    reading, writing = os.pipe()
    os.close(reading)
    env = {**os.environ, **user_folders(tmp_path)}
    command = [sys.executable, "-m", "app", "settings"]
    ended = subprocess.run(command, env=env, check=False, stdout=writing, stderr=subprocess.PIPE, timeout=120)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and the list of commands."""
    for words in (["nonsense"], ["engine", "--for", "minus"], ["engine", "--for", "-1"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2
    assert "usage: zat-scs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["pause", "--for", "abc"], "argument --for: abc is not a number of seconds above 0, such as 90"),
        (["prepare", "--for", "86401"], "argument --for: 86401 is more than a day (86400 s)"),
        (["engine", "--for", "x"], "argument --for: x is not a number of seconds above 0, such as 90"),
        (["engine", "--for", "nan"], "argument --for: nan is not a number of seconds above 0, such as 90"),
        (["stats", "--days", "x"], "argument --days: x is not a number of days from 1 to 400"),
        (["benchmark", "--runs", "x"], "argument --runs: x is not allowed: expected 1 to 1000"),
        (["benchmark", "--restore-ms", "x"], "argument --restore-ms: x is not allowed: expected 0 to 600000 ms"),
        (["mock-server", "--port", "x"], "argument --port: x is not a port: expected 0 to 65535"),
        (["mock-server", "--restore-ms", "x"], "argument --restore-ms: x is not allowed: expected 0 to 600000 ms"),
    ],
)
def test_an_option_that_is_not_allowed_is_said_in_words(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it is, and what is expected; no name of the program's own parts."""
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {sentence}\n")


@pytest.mark.parametrize("command", ["mock-server", "benchmark", "stress"])
def test_a_command_with_options_of_its_own_is_called_as_it_was(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its usage can be typed as it is printed."""
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: zat-scs {command} [-h]")


def test_settings_lists_values_with_their_sources(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, environment and --set are told apart; a key is never shown."""
    settings = tmp_path / "mine.toml"
    settings.write_text('LAMBDA_DECAY = 0.2\nAPI_KEY = "hunter2"\n', "utf-8")
    monkeypatch.setenv("ZAT_SCS_WEIGHT_AUD", "0.3")
    assert cli.main(["settings", "--config", str(settings), "--set", "KEYBOARD=OFF"]) == 0
    out = capsys.readouterr().out
    for line in ("LAMBDA_DECAY = 0.2  # file", "WEIGHT_AUD = 0.3  # environment", "KEYBOARD = false  # --set"):
        assert line in out
    assert "hunter2" not in out
    assert "# API_KEY = (set)  # file" in out


def test_settings_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    """It is the README's table."""
    assert cli.main(["settings", "--markdown"]) == 0
    assert capsys.readouterr().out == markdown()


def test_words_behind_two_dashes_belong_to_the_server() -> None:
    """`serve -- llama-server --config X` must not be read as ours."""
    from engine.options import take_settings  # noqa: PLC0415 - beside what it shows

    loaded, rest = take_settings(["serve", "--set", "WEIGHT_KEY=0.1", "--", "llama-server", "--set", "x"])
    assert rest == ["serve", "--", "llama-server", "--set", "x"]
    assert loaded.settings.weight_key == 0.1


def test_the_installed_command_and_its_version(tmp_path: Path) -> None:
    """The console script exists and says its version."""
    answer = subprocess.run(
        [str(Path(sys.executable).with_name("zat-scs")), "--version"],
        env={**os.environ, **user_folders(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.stdout == "zat-scs 0.1.0\n"


def test_light_commands_import_no_sensor_and_no_server_code() -> None:
    """`settings` starts in no time: nothing heavy comes with it."""
    script = (
        "import sys; from app import cli; cli.main(['settings']);"
        "heavy = ('numpy', 'flask', 'requests', 'pynput', 'sounddevice', 'psutil');"
        "print(*[name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert answer.stderr == "\n"


def test_the_demo_shows_the_whole_loop(tmp_path: Path) -> None:
    """All four states, a job that is really suspended, and the ratio; exit 0; nothing of the user's is written."""
    answer = run(tmp_path, "demo", DISPLAY="")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stderr == ""
    for words in ("COLD_IDLE", "SPECULATIVE_PREPARED", "ACTIVE_INFERENCE", "DEGRADED", "job  10 %, suspended"):
        assert words in answer.stdout
    ratio = answer.stdout.split("ms: ")[1].split("\N{MULTIPLICATION SIGN}")[0]
    assert float(ratio) > 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_doctor_says_what_is_missing_and_the_flag_that_changes_it(tmp_path: Path) -> None:
    """JSON for tools, sentences for people."""
    with StandIn() as server:
        closed = {"FOLDING_URL": "ws://127.0.0.1:9/", "BOINC_URL": "127.0.0.1:9"}  # whatever runs on this machine
        values = {"SERVER_URL": server.url, "MICROPHONE": "off", **closed}
        words = ["doctor", *(word for name, value in values.items() for word in ("--set", f"{name}={value}"))]
        answer = run(tmp_path, *words, "--json", DISPLAY="")
        found = json.loads(answer.stdout)
        assert set(found) >= {"server", "background", "sensors", "benefit", "settings"}
        assert found["benefit"]["saving_per_prompt_s"] is None
        assert (found["server"]["state"], found["server"]["kind"]) == ("up", "llama_server")
        assert any("--slot-save-path" in sentence for sentence in found["server"]["advice"])
        assert found["background"]["chosen"] in ("process", "null")
        assert set(found["background"]["refused"]) >= {"mps", "folding", "boinc"}
        assert found["sensors"]["keyboard"].startswith("unavailable: ")
        assert found["sensors"]["microphone"] == "off"
        assert found["settings"] == str(load_path(tmp_path))
        text = run(tmp_path, *words, DISPLAY="")
    assert "→ its context is lost at restart and sleep: start it with --slot-save-path FOLDER" in text.stdout
    assert "JOB_WORTH is 0: guesses are not weighed" in text.stdout
    assert text.stderr == ""
    gone = run(tmp_path, *words, DISPLAY="")
    assert gone.returncode == 0
    assert "no llama-server answers" in gone.stdout


def load_path(folder: Path) -> Path:
    """Return where the settings of this user lie."""
    return load(Path(user_folders(folder)["XDG_CONFIG_HOME"]) / "zat-scs" / "settings.toml").path


def test_forget_deletes_what_was_saved(tmp_path: Path) -> None:
    """With nothing saved it says so; what lies elsewhere is named, and the exit code tells."""
    answer = run(tmp_path, "forget")
    assert (answer.returncode, answer.stdout) == (0, "Deleted 0 saved contexts.\n")


def test_forget_deletes_what_a_broken_list_does_not_name(tmp_path: Path) -> None:
    """What lies where `zat-scs serve` keeps it is a conversation all the same."""
    data = Path(user_folders(tmp_path)["XDG_DATA_HOME"]) / "zat-scs"
    slot = data / "slots" / "zat-scs-0123456789ab-a.bin"
    slot.parent.mkdir(parents=True)
    slot.write_bytes(b"x")
    (data / "contexts.json").write_bytes(b"{")
    answer = run(tmp_path, "forget")
    assert (answer.returncode, answer.stdout) == (0, "Deleted 1 saved context.\n")
    assert not slot.exists()


def test_forget_habits_deletes_what_was_learned(tmp_path: Path) -> None:
    """Without an engine by hand, and it says whether there was anything; contexts are another matter."""
    habits = Path(user_folders(tmp_path)["XDG_DATA_HOME"]) / "zat-scs" / "habits.json"
    habits.parent.mkdir(parents=True)
    habits.write_text("{}", "ascii")
    answer = run(tmp_path, "forget", "--habits")
    assert (answer.returncode, answer.stdout) == (0, "Forgotten. The next engine learns anew.\n")
    assert not habits.exists()
    answer = run(tmp_path, "forget", "--habits")
    assert (answer.returncode, answer.stdout) == (0, "Nothing was learned yet.\n")
    habits.mkdir()
    answer = run(tmp_path, "forget", "--habits")
    assert answer.returncode == 1
    assert f"{habits}: cannot be deleted" in answer.stderr


def test_serve_shows_what_it_adds_and_becomes_the_server(tmp_path: Path) -> None:
    """Unified memory is in the server's own environment, the missing flags on its command line, ours untouched."""
    server = tmp_path / "llama-server"
    server.write_text('#!/bin/sh\necho "$GGML_CUDA_ENABLE_UNIFIED_MEMORY" "$@"\nexit 7\n', "utf-8")
    server.chmod(0o755)
    answer = run(tmp_path, "serve", "--", str(server), "-m", "a model.gguf", "--metrics")
    slots = tmp_path / "data" / "zat-scs" / "slots"
    assert answer.returncode == 7
    assert answer.stdout == f"1 -m a model.gguf --metrics --slot-save-path {slots}/\n"
    assert answer.stderr == (
        f"GGML_CUDA_ENABLE_UNIFIED_MEMORY=1 {server} -m 'a model.gguf' --metrics --slot-save-path {slots}/\n"
    )
    assert slots.stat().st_mode & 0o777 == 0o700


def test_serve_without_a_server_is_wrong_use(tmp_path: Path) -> None:
    """Exit 2 and an example."""
    assert run(tmp_path, "serve").returncode == 2
    answer = run(tmp_path, "serve", "--", "no-such-llama-server")
    assert (answer.returncode, answer.stderr) == (2, "zat-scs: serve: there is no program no-such-llama-server\n")


def test_release_fails_as_long_as_something_stays_held(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A client that does not answer keeps its entry: exit 1, so that a script can try again."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(by_hand, "recover", lambda path: (f"{path.name}: nobody answers",))
    monkeypatch.setattr(by_hand, "held", lambda: True)
    assert by_hand.release() == 1
    assert "nobody answers" in capsys.readouterr().out
