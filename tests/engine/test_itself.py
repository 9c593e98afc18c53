"""How the program starts parts of itself: from source by the interpreter, in a bundle by the program itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.wait import wait_until

from engine import itself, processes

PART = "engine.orchestration.guardian"


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let this pass for a bundle; return its program."""
    program = tmp_path / "bundle" / "zat-scs"
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    return program


def test_a_part_is_started_by_the_interpreter() -> None:
    """Isolated from the folder that it is started in, and knowing where the source lies."""
    assert itself.command(PART, "a", "b") == [sys.executable, "-P", "-m", PART, "a", "b"]
    assert itself.environment()["PYTHONPATH"].split(os.pathsep)[0] == str(Path(itself.__file__).parents[1])


def test_a_part_is_started_by_the_bundle(bundle: Path) -> None:
    """With a first word that no user needs, and no word to an interpreter that is not there."""
    assert itself.command(PART, "a") == [str(bundle), "--part", PART, "a"]
    assert itself.environment() == dict(os.environ)


def test_a_part_runs_wherever_it_is_started(tmp_path: Path) -> None:
    """The guardian, from a folder that knows nothing of it."""
    words = itself.command(PART, str(tmp_path / "ledger.json"))
    answer = subprocess.run(words, env=itself.environment(), cwd=tmp_path, input=b"x", capture_output=True, check=True)
    assert answer.stdout == b"r"


def test_a_part_is_run_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own words reach it, and its exit code comes back."""
    taken: list[list[str]] = []
    monkeypatch.setattr(f"{PART}.main", lambda words: taken.append(words) or 7)
    assert itself.run([PART, "ledger", "more"]) == 7
    assert taken == [["ledger", "more"]]


@pytest.mark.parametrize("module", ["os", "app.cli", "enginex.y"])
def test_nothing_else_is_a_part(module: str) -> None:
    """The word is not a way to run any module."""
    with pytest.raises(SystemExit, match=f"--part {module}: there is no such part"):
        itself.run([module])


def test_what_a_user_would_type(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The interpreter with the module, the installed script where there is one, and the program of a bundle."""
    interpreter = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(interpreter))
    assert itself.told("release") == [str(interpreter), "-m", "app", "release"]
    script = tmp_path / "zat-scs"
    script.touch(mode=0o755)
    assert itself.told("release") == [str(script), "release"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert itself.told("release") == [str(interpreter), "release"]


def test_windows_has_a_silent_program(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two runs: the one with a console is asked for words, the other one starts on login."""
    monkeypatch.setattr(sys, "platform", "win32")
    assert itself.told("--autostart", silent=True) == [str(bundle.with_name("zat-scs-tray.exe")), "--autostart"]
    assert itself.told("stress") == [str(bundle.with_name("zat-scs.exe")), "stress"]
    assert itself.command(PART)[0] == str(bundle.with_name("zat-scs.exe"))


def test_from_source_windows_has_an_interpreter_without_a_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is used where nothing is to be read."""
    (tmp_path / "pythonw.exe").touch()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python.exe"))
    assert itself.told(silent=True) == [str(tmp_path / "pythonw.exe"), "-m", "app"]
    assert itself.told("stress")[0] == str(tmp_path / "python.exe")


def test_another_name_for_a_process(tmp_path: Path) -> None:
    """It is called so by the system, too."""
    program = itself.by_name(tmp_path, "zat-other-name")
    assert itself.by_name(tmp_path, "zat-other-name") == program
    with subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE) as process:
        wait_until(lambda: (seen := processes.look(process.pid)) and seen.name == "zat-other-name", what="the name")


def test_where_links_are_not_allowed_there_is_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows for most users."""

    def refused(*_: object) -> None:
        raise OSError("a required privilege is not held")

    monkeypatch.setattr(Path, "symlink_to", refused)
    program = itself.by_name(tmp_path, "zat-copy")
    assert program.read_bytes() == Path(sys.executable).resolve().read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="that variable is Linux's")
@pytest.mark.parametrize("before", [{}, {"LD_LIBRARY_PATH": "/opt/of/the/user"}])
def test_what_a_bundle_needs_to_start_stays_with_it(before: dict[str, str]) -> None:
    """Programs of others get the user's own variables, and a part starts as a program of its own."""
    kept = {"HOME": "/somewhere", **before}
    started = {**kept, "LD_LIBRARY_PATH": "/bundle", "_PYI_ARCHIVE_FILE": "/bundle/zat-scs"}
    if before:
        started["LD_LIBRARY_PATH_ORIG"] = before["LD_LIBRARY_PATH"]
    itself.tidy(started)
    assert started == kept


def test_without_a_console_words_go_nowhere(tmp_path: Path) -> None:
    """A Windows program without a console has neither stdout nor stderr; every command runs all the same."""
    script = (
        "import sys; sys.stdout = sys.stderr = None\n"
        "from app import cli\n"
        "code = cli.main(['settings']) + cli.main(['--set', 'NO_SUCH=1', 'status'])\n"
        "open(sys.argv[1], 'w').write(str(code))\n"
    )
    answer = tmp_path / "answer"
    subprocess.run([sys.executable, "-c", script, str(answer)], env=itself.environment(), check=True)
    assert answer.read_text() == "2"
