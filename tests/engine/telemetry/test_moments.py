"""When not to guess: what the desktop tells, and what becomes of it."""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.bus_service import service
from helpers.clock import FakeClock
from helpers.desktop import display, needs, pactl, running, sound_server
from helpers.tray_host import connection, session_bus, window_manager
from helpers.wait import wait_until
from Xlib import X
from Xlib.error import BadWindow

from engine.config.settings import Settings
from engine.telemetry import moments
from engine.telemetry.moments import AnyMoment, Moments
from engine.telemetry.moments_linux import AGAIN, Line, LinuxDesktop
from engine.telemetry.moments_macos import MacDesktop
from engine.telemetry.moments_windows import WindowsDesktop


class FakeDesktop:
    """A desktop that answers what a test says, and counts the questions."""

    def __init__(self) -> None:
        self.covered: str | None = None
        self.battery = self.used = self.talking = self.closed = False
        self.questions: list[str] = []

    def obstacle(self) -> str | None:
        """Answer."""
        self.questions.append("obstacle")
        return self.covered

    def on_battery(self) -> bool:
        """Answer."""
        self.questions.append("battery")
        return self.battery

    def active(self) -> bool:
        """Answer."""
        self.questions.append("active")
        return self.used

    def call(self) -> bool:
        """Answer."""
        self.questions.append("call")
        return self.talking

    def close(self) -> None:
        """Take note."""
        self.closed = True


class Bench:
    """Moments on a fake desktop, looked at by hand. `running`: the listed program that runs."""

    def __init__(self, **settings: Any) -> None:
        self.clock, self.desktop = FakeClock(), FakeDesktop()
        self.running: str | None = None
        self.listed: list[str] = []
        self.moments = Moments(Settings(**settings), self.clock, lambda: self.desktop, self._lookout)

    def _lookout(self, listed: str) -> Callable[[], str | None]:
        self.listed.append(listed)
        return lambda: self.running

    def look(self, after: float = moments.SLOW) -> str | None:
        """Let time pass and look; return why not to guess."""
        self.clock.advance(after)
        self.moments.look()
        return self.moments.reason


def test_each_obstacle_has_its_words_and_passes() -> None:
    """Battery, listed program, what covers the screen; the last goes last, since a full-screen chat may overrule it."""
    bench = Bench(quiet_programs="obs")
    assert bench.look() is None
    bench.desktop.battery, bench.running = True, "obs"
    assert bench.look() == "on battery"
    bench.desktop.battery = False
    assert bench.look() == "obs is running"
    bench.desktop.covered = "full-screen program"
    assert bench.look() == "obs is running"
    bench.running = None
    assert bench.look() == "full-screen program"
    bench.desktop.covered = None
    assert bench.look() is None


def test_on_battery_it_guesses_if_it_is_told_to() -> None:
    """GUESS_ON_BATTERY: the battery is not even asked for."""
    bench = Bench(guess_on_battery=True)
    bench.desktop.battery = True
    assert bench.look() is None
    assert "battery" not in bench.desktop.questions


def test_new_settings_apply_at_once() -> None:
    """Also between two of the slow looks; the programs are listed anew only if they changed."""
    bench = Bench()
    bench.desktop.battery, bench.running = True, "obs"
    assert bench.look() == "on battery"
    bench.moments.configure(Settings(guess_on_battery=True, quiet_programs="obs"))
    assert bench.look(0.0) == "obs is running"
    bench.moments.configure(Settings(quiet_programs="obs", weight_key=0.5))
    assert bench.look(0.0) == "on battery"
    assert bench.listed == ["obs"]


def test_what_changes_rarely_is_asked_rarely() -> None:
    """Battery every 5 s, the screen at each look."""
    bench = Bench()
    for _ in range(5):
        bench.look(moments.LOOK)
    assert [bench.desktop.questions.count(name) for name in ("obstacle", "battery")] == [5, 3]


def test_a_call_is_asked_for_only_while_the_microphone_is_open() -> None:
    """Asking starts a program; when the call is over, it is over."""
    bench = Bench()
    bench.desktop.talking = True
    bench.look()
    assert "call" not in bench.desktop.questions
    bench.moments.listening = True
    bench.look()
    assert bench.moments.in_call
    bench.desktop.talking = False
    bench.look()
    assert not bench.moments.in_call


def test_somebody_who_is_seen_is_remembered_with_the_time() -> None:
    """Until then nobody was."""
    bench = Bench()
    bench.look()
    assert bench.moments.person_at is None
    bench.desktop.used = True
    bench.look()
    seen_at = bench.clock.now()
    bench.desktop.used = False
    bench.look()
    assert bench.moments.person_at == seen_at


def test_nobody_is_looked_for_where_the_keyboard_is_not_sensed() -> None:
    """As before the questions of the first start are answered."""
    bench = Bench(keyboard=False)
    bench.desktop.used = True
    bench.look()
    assert bench.moments.person_at is None
    assert "active" not in bench.desktop.questions


def test_the_thread_looks_at_once_survives_a_defect_and_hangs_up() -> None:
    """A desktop that answers what nobody foresaw is no obstacle."""
    bench = Bench()
    bench.desktop.covered = "screen locked"
    bench.moments.start()
    wait_until(lambda: bench.moments.reason == "screen locked", what="the first look")

    def defect() -> str:
        raise RuntimeError("nobody foresaw this")

    bench.desktop.obstacle = defect
    bench.moments.configure(Settings())
    wait_until(lambda: bench.moments.reason is None, what="the next look")
    bench.moments.close()
    assert bench.desktop.closed


def test_closing_what_never_started() -> None:
    """It is done at once."""
    Bench().moments.close()


def test_any_moment_is_one_to_guess() -> None:
    """For the demo and for tests."""
    always = AnyMoment()
    always.start()
    always.configure(Settings())
    assert (always.reason, always.person_at, always.in_call) == (None, None, False)
    always.close()


def test_this_system_has_a_desktop() -> None:
    """The one of the system that the tests run on."""
    with contextlib.closing(moments.desktop()) as desktop:
        assert type(desktop).__name__ == {"linux": "LinuxDesktop", "win32": "WindowsDesktop"}.get(
            sys.platform, "MacDesktop"
        )


# ---- Linux: batteries ------------------------------------------------------------------------------------------------

BATTERY = {"type": "Battery", "status": "Discharging"}


@pytest.mark.parametrize(
    ("supplies", "on_battery"),
    [
        ([], False),
        ([BATTERY], True),
        ([BATTERY, {"type": "Mains", "online": "0"}], True),
        ([BATTERY, {"type": "USB", "online": "1"}], False),  # a dock that gives less than is drawn
        ([{"type": "Battery", "status": "Charging"}, {"type": "Mains", "online": "1"}], False),
        ([{"type": "Battery", "status": "Full"}, BATTERY], True),  # two batteries, one after the other
        ([{**BATTERY, "scope": "Device"}], False),  # a mouse
        ([{"type": "UPS", "status": "Discharging"}], False),
        ([{"status": "Discharging"}], False),
    ],
)
def test_batteries(tmp_path: Path, supplies: list[dict[str, str]], on_battery: bool) -> None:
    """As the kernel shows them; a desktop has none."""
    for number, supply in enumerate(supplies):
        for name, value in supply.items():
            path = tmp_path / f"supply{number}" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(value + "\n", "utf-8")
    assert LinuxDesktop(power=tmp_path).on_battery() is on_battery


# ---- Linux: a line that fails ----------------------------------------------------------------------------------------


def test_a_line_that_fails_is_left_alone_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened when first needed, closed when it fails, not tried again in a row."""
    now, opened, closed = [0.0], [], []
    monkeypatch.setattr("engine.telemetry.moments_linux.time.monotonic", lambda: now[0])

    def opener() -> Any:
        opened.append(now[0])
        return SimpleNamespace(close=lambda: closed.append(now[0]))

    line = Line(opener)
    assert line.ask(lambda _: 1) == 1
    assert line.ask(lambda open_line: open_line.missing) is None
    assert (opened, closed) == ([0.0], [0.0])
    now[0] = AGAIN - 1
    assert line.ask(lambda _: 1) is None
    now[0] = AGAIN
    assert line.ask(lambda _: 1) == 1
    line.close()
    assert (opened, closed) == ([0.0, AGAIN], [0.0, AGAIN])


# ---- Linux: a real screen --------------------------------------------------------------------------------------------

WINDOW = """
import sys
from Xlib import X, Xatom, display
screen = display.Display()
root = screen.screen().root
window = root.create_window(0, 0, 200, 100, 0, X.CopyFromParent)
window.set_wm_name("a window of the tests")
window.set_wm_class(sys.argv[1], sys.argv[1])
state = screen.intern_atom("_NET_WM_STATE")
if sys.argv[2:]:
    window.change_property(state, Xatom.ATOM, 32, [screen.intern_atom("_NET_WM_STATE_FULLSCREEN")])
window.map()
screen.sync()
while True:
    screen.next_event()
"""


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lead to no screen and no bus."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def linux(system: str = "disabled:") -> Iterator[LinuxDesktop]:
    """Open the desktop that the environment leads to, without the bus of this machine."""
    with contextlib.closing(LinuxDesktop(system=system)) as desktop:
        yield desktop


@pytest.mark.usefixtures("nowhere")
def test_where_nothing_is_known_it_guesses() -> None:
    """No screen, no bus: no obstacle, and nobody seen."""
    with linux() as desktop:
        assert (desktop.obstacle(), desktop.active()) == (None, False)


@pytest.mark.real
@needs("Xvfb", "openbox")
@pytest.mark.usefixtures("nowhere")
def test_a_real_full_screen_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only while it is in front, and not if it is our own."""
    with display() as screen, window_manager(screen):
        monkeypatch.setenv("DISPLAY", screen)
        with linux() as desktop:
            assert desktop.obstacle() is None
            with _window("game", "full"):
                wait_until(lambda: desktop.obstacle() == "full-screen program", what="the window")
                with _window("editor"):
                    wait_until(lambda: desktop.obstacle() is None, what="another window in front")
                wait_until(lambda: desktop.obstacle() == "full-screen program", what="the first one in front again")
            wait_until(lambda: desktop.obstacle() is None, what="its end")
            with _window("zat-scs", "full"):
                wait_until(lambda: _in_front(screen) == "zat-scs", what="our own window")
                assert desktop.obstacle() is None


def _window(*words: str) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    return running([sys.executable, "-c", WINDOW, *words])


def _in_front(screen: str) -> str | None:
    with connection(screen) as seen, contextlib.suppress(BadWindow):
        found = seen.screen().root.get_full_property(seen.intern_atom("_NET_ACTIVE_WINDOW"), X.AnyPropertyType)
        if found and found.value[0]:
            return (seen.create_resource_object("window", found.value[0]).get_wm_class() or ("",))[0]
    return None


@pytest.mark.real
@needs("Xvfb")
@pytest.mark.usefixtures("nowhere")
def test_a_real_screen_saver_and_a_lost_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The X server's own saver; when the server is gone, nothing is known any more."""
    with display() as screen:
        monkeypatch.setenv("DISPLAY", screen)
        with connection(screen) as seen, linux() as desktop:
            assert desktop.obstacle() is None
            for mode, expected in ((X.ScreenSaverActive, "screen saver"), (X.ScreenSaverReset, None)):
                seen.force_screen_saver(mode)
                seen.sync()
                assert desktop.obstacle() == expected
            seen.force_screen_saver(X.ScreenSaverActive)
            seen.sync()
    assert desktop.obstacle() is None


# ---- Linux: a real bus -----------------------------------------------------------------------------------------------


@pytest.mark.real
@needs("dbus-daemon")
@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("name", ["org.gnome.ScreenSaver", "org.freedesktop.ScreenSaver", "org.freedesktop.login1"])
def test_a_locked_screen(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Whoever knows of it: the desktop's saver, or the login manager."""
    with session_bus() as address, service(address, name) as desk:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        with linux(system=address) as desktop:
            assert desktop.obstacle() is None
            desk.locked = True
            assert desktop.obstacle() == "screen locked"


@pytest.mark.real
@needs("dbus-daemon")
@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("wayland", [True, False])
def test_somebody_is_seen_on_wayland_alone(monkeypatch: pytest.MonkeyPatch, wayland: bool) -> None:
    """Elsewhere the sensors see more, so the idle monitor is not even asked."""
    with session_bus() as address, service(address, "org.gnome.Mutter.IdleMonitor") as desk:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
        if wayland:
            monkeypatch.setenv("XDG_SESSION_TYPE", "wayland")
        with linux() as desktop:
            seen = []
            for desk.idle in (5000, 7500, 20):
                seen.append(desktop.active())
        assert (seen, desk.asked > 0) == ([False, False, wayland], wayland)


# ---- Linux: a real sound server --------------------------------------------------------------------------------------


@pytest.mark.real
@needs("pulseaudio", "pactl", "parec")
def test_a_call_is_another_recording_from_the_default_microphone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one from elsewhere, not our own, and none once it ended."""
    with sound_server() as env:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        desktop = LinuxDesktop()
        assert desktop.call() is False
        with _recording("spk.monitor"):
            assert desktop.call() is False
        with _recording("mic") as recorder:
            assert desktop.call() is True
            with monkeypatch.context() as patch:
                patch.setattr(os, "getpid", lambda: recorder.pid)
                assert desktop.call() is False
        wait_until(lambda: not desktop.call(), what="its end")
        assert pactl(env, "info")


@pytest.mark.real
@needs("pulseaudio", "pactl", "parec")
def test_a_filter_that_passes_the_sound_on_is_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A noise filter records as long as it runs; a call beside it is one all the same."""
    with sound_server() as env:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        desktop = LinuxDesktop()
        for words in ("application.process.binary=pipewire", "application.name=EasyEffects"):
            with _recording("mic", f"--property={words}"):
                assert desktop.call() is False
                with _recording("mic"):
                    assert desktop.call() is True


@contextlib.contextmanager
def _recording(source: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Record from this source with a program of the sound server's own."""
    with running(["parec", f"--device={source}", *words]) as recorder:
        mark = f'application.process.id = "{recorder.pid}"'
        wait_until(lambda: mark in _outputs(), what=f"a recording of {source}")
        yield recorder


def _outputs() -> str:
    return subprocess.run(["pactl", "list", "source-outputs"], capture_output=True, text=True, check=False).stdout


def test_without_a_sound_server_there_is_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pactl, or nobody who answers it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("PULSE_SERVER", f"unix:{tmp_path}/nobody")
    assert LinuxDesktop().call() is False
    monkeypatch.setenv("PATH", str(tmp_path))
    assert LinuxDesktop().call() is False


# ---- Windows and macOS, by the shape of their answers ----------------------------------------------------------------


class FakeWindows:
    """The shape of ctypes.windll for what is asked of it; answers are put in by address, as the system does."""

    def __init__(self) -> None:
        self.desktop, self.state, self.failed, self.mains = 7, 5, 0, 1
        self.open = 0

        def opened(_flags: int, _inherit: bool, _access: int) -> int:
            self.open += bool(self.desktop)
            return self.desktop

        def closed(_desktop: object) -> None:
            self.open -= 1

        def told(address: Any) -> int:
            ctypes.cast(address, ctypes.POINTER(ctypes.c_int))[0] = self.state
            return self.failed

        def power(address: Any) -> int:
            ctypes.cast(address, ctypes.POINTER(ctypes.c_ubyte))[0] = self.mains
            return 1

        self.user32 = SimpleNamespace(OpenInputDesktop=opened, CloseDesktop=closed)
        self.shell32 = SimpleNamespace(SHQueryUserNotificationState=told)
        self.kernel32 = SimpleNamespace(GetSystemPowerStatus=power)


def test_windows() -> None:
    """Locked, full-screen, presenting, on battery; what failed or is unknown is no obstacle."""
    system = FakeWindows()
    with contextlib.closing(WindowsDesktop(system)) as desktop:
        seen = []
        for system.state in range(1, 8):
            seen.append(desktop.obstacle())
        full = "full-screen program"
        assert seen == ["screen locked", full, full, "presentation", None, None, None]
        system.state, system.failed = 2, -1
        assert desktop.obstacle() is None
        system.desktop = 0
        assert desktop.obstacle() == "screen locked"
        assert system.open == 0
        found = []
        for system.mains in (0, 1, 255):
            found.append(desktop.on_battery())
        assert found == [True, False, False]
        assert (desktop.active(), desktop.call()) == (False, False)


def test_macos() -> None:
    """Locked by the session's dictionary, battery by pmset, which is asked every half minute at most."""
    asked: list[str] = []

    def power() -> str:
        asked.append("power")
        return "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=1)\t90%; discharging"

    session: dict[str, Any] | None = {"CGSSessionScreenIsLocked": 1}
    with contextlib.closing(MacDesktop(lambda: session, power)) as desktop:
        assert desktop.obstacle() == "screen locked"
        assert [desktop.on_battery(), desktop.on_battery()] == [True, True]
        assert asked == ["power"]
        session = {}
        assert desktop.obstacle() is None
        session = None
        assert desktop.obstacle() is None
        assert (desktop.active(), desktop.call()) == (False, False)
    with contextlib.closing(MacDesktop(power=lambda: "Now drawing from 'AC Power'")) as elsewhere:
        assert (elsewhere.obstacle(), elsewhere.on_battery()) == (None, False)
