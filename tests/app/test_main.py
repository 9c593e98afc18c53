"""The tray as a program: one for each user, whatever engine runs; and whatever dies, no job is left held."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.desktop import display, focused_window, needs, press_until, type_keys
from helpers.engine_process import ROOT, engine_process
from helpers.job import Job, background_job, unique_name
from helpers.tray_host import Notifier, close_window, icon_place, panel, session_bus, window_manager, windows
from helpers.tray_process import TrayProcess, tray_process
from helpers.wait import wait_until

from app import screen as screens
from diagnostics.mock_server import StandIn

pytestmark = [pytest.mark.real, needs("Xvfb", "openbox", "tint2", "dbus-daemon", "xdotool")]
STATES = ("COLD_IDLE", "SPECULATIVE_PREPARED", "ACTIVE_INFERENCE", "DEGRADED")
QUIET = {"KEYBOARD": "off", "MICROPHONE": "off", "SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
_PROMPT = """
import sys, urllib.request as r
r.urlopen(r.Request(sys.argv[1] + "/completion", b'{"prompt": "hello", "n_predict": 100000}',
                    {"Content-Type": "application/json"})).read()
"""


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """Run an X server with a window manager."""
    with display() as number, window_manager(number):
        yield number


@pytest.fixture
def server() -> Iterator[StandIn]:
    """Return a stand-in whose replies take long enough to be killed in."""
    with StandIn(token_ms=20) as server:
        yield server


@contextlib.contextmanager
def prompting(server: StandIn) -> Iterator[None]:
    """Keep a prompt in work for as long as the block lasts."""
    with subprocess.Popen([sys.executable, "-c", _PROMPT, server.url], stderr=subprocess.DEVNULL) as client:
        try:
            yield
        finally:
            client.kill()


@contextlib.contextmanager
def tray_in(state: str, folder: Path, screen: str, server: StandIn) -> Iterator[tuple[TrayProcess, Job]]:
    """Run a tray with a job that it suspends, and bring it into a state; in two of the four the job is held."""
    name = unique_name()
    settings = {
        "SERVER_URL": server.url,
        "BACKGROUND_PROCESS_NAME": name,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "KEYBOARD": "off",
        "MICROPHONE": "off",
    }
    with background_job(name) as job, tray_process(folder, screen, settings) as tray, contextlib.ExitStack() as stack:
        tray.wait_snapshot("server and job", server="up", backend="process")
        if state == "SPECULATIVE_PREPARED":
            tray.ask("prepare", 120.0)
        elif state == "ACTIVE_INFERENCE":
            stack.enter_context(prompting(server))
        elif state == "DEGRADED":
            server.stop()
        tray.wait_snapshot("the state", state=state)
        if state in ("SPECULATIVE_PREPARED", "ACTIVE_INFERENCE"):
            wait_until(lambda: job.stopped, what="the job to be held")
        yield tray, job


@pytest.mark.parametrize("state", STATES)
def test_a_polite_end_gives_back(tmp_path: Path, screen: str, server: StandIn, state: str) -> None:
    """Exit 0, nothing on stderr, and the job runs, in whatever state the end comes."""
    with tray_in(state, tmp_path, screen, server) as (tray, job):
        assert tray.end(signal.SIGTERM) == (0, "")
        assert job.running
        assert "Traceback" not in tray.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_other_signals_are_as_polite(tmp_path: Path, screen: str, server: StandIn, number: signal.Signals) -> None:
    """Ctrl+C, and a terminal that is closed."""
    with tray_in("SPECULATIVE_PREPARED", tmp_path, screen, server) as (tray, job):
        assert tray.end(number) == (0, "")
        assert job.running


@pytest.mark.parametrize("state", STATES)
def test_a_killed_tray_leaves_no_job_held(tmp_path: Path, screen: str, server: StandIn, state: str) -> None:
    """The guardian gives back what the tray cannot any more."""
    with tray_in(state, tmp_path, screen, server) as (tray, job):
        tray.process.kill()
        wait_until(lambda: job.running, what="the job to run")


def test_a_session_that_breaks_off_leaves_no_job_held(tmp_path: Path, server: StandIn) -> None:
    """The X server is gone, and Qt ends the process on the spot."""
    with contextlib.ExitStack() as stack:
        session = contextlib.ExitStack()
        screen = session.enter_context(display())
        stack.callback(session.close)
        tray, job = stack.enter_context(tray_in("SPECULATIVE_PREPARED", tmp_path, screen, server))
        session.close()
        wait_until(lambda: tray.process.poll() is not None, what="the tray to end")
        wait_until(lambda: job.running, what="the job to run")


def test_the_key_prepares_from_any_window(tmp_path: Path, screen: str, server: StandIn) -> None:
    """The job is held though no window of ours has the focus, or is even there."""
    with tray_in("COLD_IDLE", tmp_path, screen, server) as (tray, job):
        prepared = lambda: tray.snapshot().get("state") == "SPECULATIVE_PREPARED"  # noqa: E731
        press_until(screen, "ctrl+alt+shift+p", prepared, what="the preparation")
        wait_until(lambda: job.stopped, what="the job to be held")
        assert tray.end() == (0, "")
        assert job.running


def test_real_keys_raise_the_curve(tmp_path: Path) -> None:
    """Typed into somebody else's window."""
    sets = {**QUIET, "KEYBOARD": "on", "WINDOW_FILTER": "off"}
    with display() as screen, focused_window(screen), tray_process(tmp_path, screen, sets) as tray:
        wait_until(lambda: tray.snapshot().get("sensors", {}).get("keyboard") == "on", what="the keyboard")
        before = tray.snapshot()["probability"]
        type_keys(screen, "the quick brown fox")
        wait_until(lambda: tray.snapshot()["probability"] > before + 0.1, what="P to rise")
        assert tray.end() == (0, "")


def test_the_control_channel_ends_it(tmp_path: Path, screen: str) -> None:
    """As any other engine."""
    with tray_process(tmp_path, screen, QUIET) as tray:
        tray.wait_snapshot("the engine", paused=False)
        assert tray.ask()["kind"] == "tray"
        tray.ask("quit")
        assert tray.wait() == (0, "")


def test_a_second_start_raises_the_first(tmp_path: Path, screen: str) -> None:
    """It shows the window of the first and ends; started by the login it does nothing at all."""
    with tray_process(tmp_path, screen, QUIET) as first:
        first.wait_snapshot("the engine", paused=False)
        with tray_process(tmp_path, screen, QUIET, "--autostart") as second:
            assert second.wait() == (0, "")
        assert windows(screen) == []
        with tray_process(tmp_path, screen, QUIET) as third:
            assert third.wait() == (0, "")
        wait_until(lambda: "ZAT-SCS" in windows(screen), what="the window")
        assert first.end() == (0, "")


def test_an_engine_that_runs_already_is_shown_and_steered(tmp_path: Path, screen: str) -> None:
    """It is not fought: the tray shows it, passes commands on, leaves it running, and takes over once it has ended."""
    with session_bus() as bus, engine_process(tmp_path, QUIET) as engine:
        engine.wait_snapshot("a snapshot", lambda seen: not seen["paused"])
        env = {"DBUS_SESSION_BUS_ADDRESS": bus}
        with Notifier(bus) as desktop, tray_process(tmp_path, screen, QUIET, env=env) as tray:
            wait_until(lambda: desktop.items, what="the icon")
            wait_until(lambda: any("held back" in label for label in desktop.menu()), what="the sentence")
            assert not desktop.menu()["Microphone"][1].get("enabled", True)
            desktop.click("Pause until resumed")
            engine.wait_snapshot("the pause", lambda seen: seen["paused"])
            wait_until(lambda: desktop.tooltip.startswith("ZAT-SCS: Paused"), what="the tooltip")
            with tray_process(tmp_path, screen, QUIET) as second:  # asks the engine, then the tray
                assert second.wait() == (0, "")
            wait_until(lambda: "ZAT-SCS" in windows(screen), what="the window")
            assert tray.end() == (0, "")
        assert engine.process.poll() is None
        with tray_process(tmp_path, screen, QUIET) as tray:
            wait_until(lambda: tray.log.count("it is shown here") == 2, what="the second tray to show it")
            assert engine.end() == 0
            wait_until(lambda: tray.snapshot() and tray.ask()["kind"] == "tray", what="an engine of its own")
            assert tray.end() == (0, "")


def test_the_login_opens_nothing_until_it_is_set_up(tmp_path: Path, screen: str) -> None:
    """It waits in the tray, senses nothing and keeps nothing, whatever the settings say."""
    sets = {**QUIET, "KEYBOARD": "on", "MICROPHONE": "on", "WINDOW_FILTER": "on", "KEEP_CONTEXT": "on"}
    with panel(screen, tmp_path), tray_process(tmp_path, screen, sets, "--autostart", answered=False) as tray:
        tray.wait_snapshot("the engine", paused=False)
        wait_until(lambda: icon_place(screen), what="the icon")
        sensors = tray.snapshot()["sensors"]
        assert sensors == {"keyboard": "off", "microphone": "off", "window": "off"}
        assert windows(screen) == []
        assert tray.end() == (0, "")


def test_a_first_start_by_hand_asks(tmp_path: Path, screen: str) -> None:
    """The dialog is there; closing it is no answer, and the tray stays."""
    with tray_process(tmp_path, screen, QUIET, answered=False) as tray:
        wait_until(lambda: "ZAT-SCS: before it starts" in windows(screen), what="the dialog")
        close_window(screen, "ZAT-SCS: before it starts")
        wait_until(lambda: windows(screen) == [], what="the dialog to close")
        tray.wait_snapshot("it goes on", paused=False)
        assert not (tmp_path / "data" / "zat-scs" / "consent-answered").exists()
        assert tray.end() == (0, "")


@pytest.mark.parametrize(
    ("variables", "words"),
    [({}, "neither DISPLAY nor"), ({"DISPLAY": ":65123"}, "cannot be opened: :65123")],
    ids=["none", "dead"],
)
def test_without_a_screen_it_says_so(tmp_path: Path, variables: dict[str, str], words: str) -> None:
    """One line and exit 1, where Qt would abort the process."""
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    command = [sys.executable, "-m", "app"]
    ended = subprocess.run(
        command, cwd=ROOT, env={**env, **variables}, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("zat-scs: no tray: ")
    assert ended.stderr.count("\n") == 1
    assert words in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_libraries_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, screen: str) -> None:
    """Qt would abort without them; the packages are named instead."""
    loads: Callable[[str], bool] = lambda library: "cursor" not in library  # noqa: E731
    monkeypatch.setattr(screens, "_loads", loads)
    assert "missing: libxcb-cursor0 (" in screens.problem({"DISPLAY": screen})
    assert screens.problem({"QT_QPA_PLATFORM": "offscreen"}) == ""
    assert screens.problem({"WAYLAND_DISPLAY": "wayland-0"}) == ""
