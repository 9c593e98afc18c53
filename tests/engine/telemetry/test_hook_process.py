"""The keyboard hook in a process of its own: its words, its life, and real keys through a real child."""

import sys
import threading
from collections import deque
from collections.abc import Iterator

import pytest
from helpers.clock import FakeClock
from helpers.desktop import display, focused_window, needs, type_keys, xdotool
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.errors import SensorUnavailable
from engine.telemetry.evidence import KeyKind, KeyPress
from engine.telemetry.hook_process import HookProcess, understood
from engine.telemetry.keyboard import KeyboardSensor

CHILD = """
import sys
print({first!r}, flush=True)
for line in {lines!r}:
    print(line, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("line", "press"),
    [
        ("0.500 text\n", KeyPress(100.5, KeyKind.TEXT)),
        ("9.000 enter\n", KeyPress(103.0, KeyKind.ENTER)),  # no press lies in the future
        ("0.500 secret\n", None),
        ("nan text\n", None),
        ("inf text\n", None),
        ("text\n", None),
        ("\n", None),
    ],
)
def test_the_words_of_the_child(line: str, press: KeyPress | None) -> None:
    """Seconds since it was ready and a kind; anything else is no press."""
    assert understood(line, 100.0, 103.0) == press


def child(first: str, *lines: str) -> tuple[str, ...]:
    """Return the command of a child that says this and then waits for the end of its input."""
    return (sys.executable, "-c", CHILD.format(first=first, lines=lines))


def hooks() -> list[threading.Thread]:
    """Return the threads that read a child's lines."""
    return [thread for thread in threading.enumerate() if thread.name == "keyboard hook"]


def test_presses_arrive_until_it_is_closed() -> None:
    """They are counted; lines without sense are left out; closing ends the child by the end of its input."""
    presses: deque[KeyPress] = deque()
    hook = HookProcess(FakeClock(), presses, child("ready", "0.0 text", "nonsense", "0.0 enter"))
    wait_until(lambda: hook.heard == 2, what="two presses")
    assert [press.kind for press in presses] == [KeyKind.TEXT, KeyKind.ENTER]
    assert hook.alive
    hook.close()
    assert not hook.alive
    assert hook._child.returncode == 0
    assert not hooks()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (child("unavailable macOS does not let it"), "macOS does not let it"),
        (child("hello"), "the keyboard hook's process did not start"),
        ((sys.executable, "-c", ""), "the keyboard hook's process did not start"),
        (("/nowhere/python",), "cannot be started: No such file"),
    ],
)
def test_a_child_that_cannot_hear_is_a_reason(command: tuple[str, ...], reason: str) -> None:
    """It says why, or it is said for it; nothing of it is left."""
    with pytest.raises(SensorUnavailable, match=reason):
        HookProcess(FakeClock(), deque(), command)
    assert not hooks()


def test_a_child_that_does_not_leave_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing takes a moment, not for ever."""
    monkeypatch.setattr("engine.telemetry.hook_process.LEAVING", 0.1)
    stays = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)"
    hook = HookProcess(FakeClock(), deque(), (sys.executable, "-c", stays))
    hook.close()
    assert hook._child.returncode not in (0, None)


# ---- a real child ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """Run an X server with a focused window."""
    with display() as screen, focused_window(screen):
        yield screen


@pytest.fixture
def sensor(screen: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyboardSensor]:
    """Give a sensor whose hook lives apart, open on that screen."""
    for name in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", screen)
    sensor = KeyboardSensor(SystemClock(), apart=True)
    sensor.start()
    wait_until(lambda: sensor.state == "on", what="the sensor to open")
    yield sensor
    sensor.stop()
    wait_until(lambda: not hooks(), what="its end")


@pytest.mark.real
@needs("Xvfb", "xdotool")
def test_real_keys_through_a_real_child(screen: str, sensor: KeyboardSensor) -> None:
    """Kinds and times as from a hook in this process, and no listener here."""
    before = SystemClock().now()
    type_keys(screen, "abc")
    xdotool(screen, "key", "ctrl+v", "Return")
    presses: list[KeyPress] = []
    wait_until(lambda: presses.extend(sensor.read()) or len(presses) >= 6, what="the keys")
    assert [press.kind.value for press in presses] == ["text", "text", "text", "modifier", "paste", "enter"]
    times = [before, *(press.at for press in presses), SystemClock().now()]
    assert times == sorted(times)
    assert [thread for thread in threading.enumerate() if type(thread).__module__.startswith("pynput")] == []


@pytest.mark.real
@needs("Xvfb", "xdotool")
def test_a_child_that_was_killed_is_replaced(screen: str, sensor: KeyboardSensor) -> None:
    """As a listener that died: the sensor says so and opens again."""
    ear = sensor._open()
    first = ear._listening._child
    first.kill()
    wait_until(lambda: not ear._listening.alive, what="its end")
    with pytest.raises(SensorUnavailable, match="the keyboard listener ended"):
        ear.check()
    ear.close()
    type_keys(screen, "a")
    wait_until(sensor.read, what="the other one to hear")


@pytest.mark.real
@needs("Xvfb", "xdotool")
@pytest.mark.usefixtures("sensor")
def test_without_a_screen_the_child_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reason comes through as if it had been opened here."""
    monkeypatch.setenv("DISPLAY", ":4321")
    with pytest.raises(SensorUnavailable, match="the library pynput is missing or does not work here"):
        HookProcess(SystemClock(), deque())
