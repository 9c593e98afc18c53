"""`zat-scs quit` against the real engine and the real tray, and a job that one of them holds."""

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from helpers.desktop import display, needs
from helpers.engine_process import EngineProcess, engine_process, user_folders
from helpers.job import Job, background_job, unique_name
from helpers.tray_host import window_manager
from helpers.tray_process import tray_process
from helpers.wait import wait_until

from app import by_hand, cli, ending
from diagnostics.mock_server import StandIn

pytestmark = [pytest.mark.real, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
OVER = "Nothing of yours runs any more; everything was given back.\n"
Command = Callable[[], tuple[int, str, str]]


@pytest.fixture
def quits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return what runs the command as the user of `tmp_path`: (exit code, stdout, stderr)."""
    for variable, folder in user_folders(tmp_path).items():
        monkeypatch.setenv(variable, folder)

    def run() -> tuple[int, str, str]:
        return cli.main(["quit"]), *capsys.readouterr()

    return run


@contextlib.contextmanager
def holding(folder: Path) -> Iterator[tuple[EngineProcess, Job]]:
    """Run an engine that holds a job."""
    name = unique_name()
    values = {
        "BACKGROUND_PROCESS_NAME": name,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "KEYBOARD": "off",
        "MICROPHONE": "off",
    }
    with contextlib.ExitStack() as stack:
        server, job = stack.enter_context(StandIn()), stack.enter_context(background_job(name))
        engine = stack.enter_context(engine_process(folder, {**values, "SERVER_URL": server.url}))
        engine.wait_snapshot("server and job", lambda seen: (seen["server"], seen["backend"]) == ("up", "process"))
        assert cli.main(["prepare", "--for", "120"]) == 0
        wait_until(lambda: job.stopped, what="the job to be held")
        yield engine, job


def test_an_engine_that_holds_a_job_gives_it_back_and_ends(tmp_path: Path, quits: Command) -> None:
    """When the command answers, the job runs, the engine is gone, and the ledger with it; again is as good."""
    with holding(tmp_path) as (engine, job):
        code, out, err = quits()
        assert (code, out.splitlines(keepends=True)[-1], err) == (0, OVER, "")
        assert engine.process.wait(30) == 0
        assert job.running
        assert not (tmp_path / "state" / "zat-scs" / "ledger.json").exists()
        assert quits() == (0, OVER, "")


def test_a_job_that_nobody_is_left_to_give_back_goes_on(tmp_path: Path, quits: Command) -> None:
    """Engine and guardian were killed together: the command undoes what they wrote down, and says so."""
    with holding(tmp_path) as (engine, job):
        (guardian,) = psutil.Process(engine.process.pid).children()
        engine.process.send_signal(signal.SIGSTOP)  # else it may see the end of the guardian, and give back by itself
        guardian.kill()
        engine.end(signal.SIGKILL)
        assert job.stopped
        code, out, err = quits()
        assert (code, out.splitlines(keepends=True)[-1], err) == (0, OVER, "")
        assert f"({job.pid}) goes on" in out
        assert job.running


def test_what_cannot_be_given_back_is_not_said_to_be(quits: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not answer keeps its entry: the command fails and says who."""
    monkeypatch.setattr(by_hand, "recover", lambda path: (f"{path.name}: nobody answers",))
    monkeypatch.setattr(by_hand, "held", lambda: True)
    assert quits() == (1, "ledger.json: nobody answers\n", "")


def test_where_nothing_ever_ran(tmp_path: Path, quits: Command) -> None:
    """It says so, and makes no folder."""
    assert quits() == (0, OVER, "")
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_stands_still_is_not_killed(
    tmp_path: Path, quits: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command fails and says what goes on; once the engine wakes, it can be ended."""
    quiet = {"KEYBOARD": "off", "MICROPHONE": "off", "SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
    with engine_process(tmp_path, quiet) as engine:
        engine.wait_snapshot("a first one", lambda seen: seen["server"] == "down")
        engine.process.send_signal(signal.SIGSTOP)
        with monkeypatch.context() as hurried:
            hurried.setattr(ending, "WITHIN", 0.0)
            assert quits() == (1, "", "zat-scs: the engine did not end; the engine has not answered for 2 s\n")
        assert engine.process.poll() is None
        engine.process.send_signal(signal.SIGCONT)
        assert quits() == (0, OVER, "")


@needs("Xvfb", "openbox")
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_tray_ends_and_the_engine_that_it_shows_too(tmp_path: Path, quits: Command, elsewhere: bool) -> None:
    """With an engine of its own, or with one of another process, after which it does not start its own."""
    quiet = {"KEYBOARD": "off", "MICROPHONE": "off", "SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
    with contextlib.ExitStack() as stack:
        screen = stack.enter_context(display())
        stack.enter_context(window_manager(screen))
        if elsewhere:
            engine = stack.enter_context(engine_process(tmp_path, quiet))
            engine.wait_snapshot("a first one", lambda seen: seen["server"] == "down")
        tray = stack.enter_context(tray_process(tmp_path, screen, quiet))
        tray.wait_log("it is shown here" if elsewhere else "background: ")
        assert quits() == (0, OVER, "")
        assert tray.wait()[0] == 0
        assert not elsewhere or engine.process.wait(30) == 0
