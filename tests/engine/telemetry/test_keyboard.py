"""The keyboard sensor: kinds and times of presses, on a real X server and on fakes; never which key it was."""

import gc
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from helpers.desktop import display, focused_window, needs, type_keys, xdotool
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.errors import SensorUnavailable
from engine.telemetry import keyboard, supervisor
from engine.telemetry.evidence import KeyKind, KeyPress
from engine.telemetry.keyboard import Ear, KeyboardSensor, KeySorter, Listening, XServer

CANARY = "zxqjzxqj"
NEEDS_X = needs("Xvfb", "xdotool")


# ---- kinds, with keys of pynput's shape -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """The shape of pynput's Key."""

    name: str


@dataclass(frozen=True)
class Coded:
    """The shape of pynput's KeyCode."""

    char: str | None = None
    vk: int | None = None


def canonical(key: Any) -> Any:
    """Return what pynput's listener would: letters in lower case, left and right modifiers the same."""
    if isinstance(key, Coded):
        return replace(key, char=key.char and key.char.lower())
    return Named(key.name.removesuffix("_l").removesuffix("_r"))


def kinds(*steps: Any) -> list[str]:
    """Press keys one after the other, 0.1 s apart, and name the kinds; ("up", key) lets one go, a number waits."""
    sorter, now, result = KeySorter(canonical), 100.0, []
    for step in steps:
        if isinstance(step, float):
            now += step
        elif isinstance(step, tuple):
            sorter.release(step[1])
        else:
            now += 0.1
            result.append(sorter.press(step, now).value)
    return result


A, BIG_A, V = Coded("a", 97), Coded("A", 65), Coded("v", 118)
CTRL, SHIFT, ALT_GR = Named("ctrl_l"), Named("shift"), Named("alt_gr")


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (A, "text"),
        (Coded("ж", 1750), "text"),
        (Coded(None, 0), "text"),  # a character that the layout does not have
        (Named("space"), "text"),
        (Named("enter"), "enter"),
        (Named("backspace"), "delete"),
        (Named("delete"), "delete"),
        *((Named(name), "navigation") for name in ("left", "home", "page_up", "f5", "esc", "tab", "insert")),
        (Coded(None, 0xFE20), "navigation"),  # Shift+Tab on X11
        (Coded(None, 0x1008FF14), "navigation"),  # a media key
        *((Named(name), "modifier") for name in ("shift_r", "ctrl", "alt_l", "alt_gr", "cmd_r", "caps_lock")),
        (Coded(None, 0xFE03), "modifier"),  # AltGr on X11
        (Coded(None, 0xFFE7), "modifier"),  # Alt on X11 while Shift is down
    ],
)
def test_kinds_of_single_keys(key: Any, kind: str) -> None:
    """Each key alone has its kind."""
    assert kinds(key) == [kind]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ((CTRL, Coded("c", 99)), "shortcut"),
        ((Named("alt"), Named("f4")), "shortcut"),
        ((Named("cmd"), A), "shortcut"),
        ((CTRL, V), "paste"),
        ((CTRL, SHIFT, Coded("V", 86)), "paste"),
        ((Named("cmd"), V), "paste"),
        ((Named("alt"), V), "shortcut"),
        ((SHIFT, Named("insert")), "paste"),
        ((SHIFT, BIG_A), "text"),
        ((SHIFT, Named("enter")), "enter"),
        ((ALT_GR, Coded("@", 64)), "text"),
        ((CTRL, ALT_GR, Coded("@", 64)), "text"),  # Windows reports AltGr so
        ((Coded(None, 0xFE03), Coded("@", 64)), "text"),
        ((CTRL, ("up", CTRL), A), "text"),
        ((SHIFT, Coded(None, 0xFFE7), ("up", SHIFT), ("up", Named("alt_l")), A), "text"),
    ],
)
def test_kinds_of_combinations(steps: tuple[Any, ...], kind: str) -> None:
    """What is held decides what the last key means."""
    assert kinds(*steps)[-1] == kind


def test_a_held_key_repeats() -> None:
    """Only its first press is typing; after it went up, the next one is typing again."""
    assert kinds(A, A, A, ("up", A), A) == ["text", "repeat", "repeat", "text"]


def test_shift_let_go_first_does_not_turn_the_next_press_into_a_repeat() -> None:
    """The key goes up under another name than it went down with."""
    bang, one = Coded("!", 33), Coded("1", 49)
    assert kinds(SHIFT, bang, ("up", SHIFT), ("up", one), SHIFT, bang)[-1] == "text"
    assert kinds(SHIFT, BIG_A, ("up", SHIFT), ("up", A), A)[-1] == "text"


def test_a_missed_release_is_forgiven() -> None:
    """A key counts as held for 1.5 s after its last report, a modifier for 10 s: a lock screen swallows releases."""
    assert kinds(A, 1.6, A) == ["text", "text"]
    assert kinds(A, 0.6, A) == ["text", "repeat"]
    assert kinds(CTRL, 5.0, A) == ["modifier", "shortcut"]
    assert kinds(CTRL, 10.5, A) == ["modifier", "text"]


# ---- a listener of pynput's shape ------------------------------------------------------------------------------------


class FakeListener(threading.Thread):
    """The shape of pynput's listener: a thread that is ready after its start and may die or go deaf."""

    def __init__(self, on_press: Callable[[Any], bool], on_release: Callable[[Any], bool]) -> None:
        super().__init__(daemon=True)
        self.on_press = on_press
        self.on_release = on_release
        self.end = threading.Event()
        self._ready = False
        self.canonical = canonical

    def run(self) -> None:
        """Live until it is told to end."""
        self._ready = True
        self.end.wait()

    def stop(self) -> None:
        """End."""
        self.end.set()


class NeverReady(FakeListener):
    """A listener that dies while it starts, as one does that loses its display."""

    def run(self) -> None:
        """Die."""
        raise ConnectionError("display lost")


class FakeX11:
    """The shape of Xlib's Display, for what is asked of it: key codes 50 (Shift) and others that are down."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.closed = False

    def get_modifier_mapping(self) -> list[list[int]]:
        """Return eight rows of key codes."""
        return [[50, 62], *([0, 0] for _ in range(7))]

    def query_keymap(self) -> list[int]:
        """Return 32 bytes of bits."""
        return [sum(1 << code % 8 for code in self.down if code // 8 == row) for row in range(32)]

    def close(self) -> None:
        """Take note."""
        self.closed = True


class Bench:
    """An ear on fakes. `presses` is what it heard, `listeners` all that were made."""

    def __init__(self) -> None:
        self.x11 = FakeX11()
        self.presses: deque[KeyPress] = deque()
        self.listeners: list[FakeListener] = []
        self.ear = Ear(lambda: Listening(self._make, SystemClock(), self.presses), XServer(self.x11))

    def _make(self, **callbacks: Any) -> FakeListener:
        self.listeners.append(FakeListener(**callbacks))
        return self.listeners[-1]

    def looks(self, count: int) -> int:
        """Let the ear look after itself; return how many listeners were made so far."""
        for _ in range(count):
            self.ear.check()
        return len(self.listeners)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give an ear on fakes, closed at the end."""
    bench = Bench()
    yield bench
    bench.ear.close()
    assert not any(listener.is_alive() for listener in bench.listeners)
    assert bench.x11.closed


def test_a_listener_that_hears_nothing_while_keys_are_down_is_replaced(bench: Bench) -> None:
    """After three sightings, not before; the new one is heard."""
    bench.x11.down = {38}
    assert bench.looks(2) == 1
    assert bench.looks(1) == 2
    assert not bench.listeners[0].is_alive()
    bench.listeners[1].on_press(A)
    assert [press.kind for press in bench.presses] == [KeyKind.TEXT]


def test_modifiers_and_a_listener_that_reports_are_no_deafness(bench: Bench) -> None:
    """A held Shift does not repeat, and a report between the sightings is proof of hearing."""
    bench.x11.down = {50, 62}
    assert bench.looks(10) == 1
    bench.x11.down = {38}
    for _ in range(10):
        bench.listeners[0].on_press(A)
        assert bench.looks(2) == 1


def test_a_key_that_hangs_costs_less_and_less(bench: Bench) -> None:
    """It looks like deafness for ever: replaced after 3, 6, 12 … looks; a report makes it quick again."""
    bench.x11.down = {38}
    assert [bench.looks(3), bench.looks(5), bench.looks(1), bench.looks(11), bench.looks(1)] == [2, 2, 3, 3, 4]
    bench.listeners[-1].on_press(A)
    assert bench.looks(1) == 4
    assert bench.looks(3) == 5


def test_a_listener_that_ended_is_reported(bench: Bench) -> None:
    """The supervisor then opens a new one."""
    bench.listeners[0].stop()
    wait_until(lambda: not bench.listeners[0].is_alive())
    with pytest.raises(SensorUnavailable, match="the keyboard listener ended"):
        bench.ear.check()


def test_a_key_that_cannot_be_sorted_does_not_end_the_listener(bench: Bench) -> None:
    """Nothing leaves the callback: an exception in it would end pynput's thread."""
    assert bench.listeners[0].on_press(object()) is True
    assert bench.listeners[0].on_release(object()) is True


def test_a_listener_that_outlives_its_close_hears_nothing_and_is_told_to_end(bench: Bench) -> None:
    """Returning False ends pynput's thread at its next key."""
    bench.ear.close()
    assert bench.listeners[0].on_press(A) is False
    assert bench.listeners[0].on_release(A) is False
    assert not bench.presses


def test_a_listener_that_dies_at_its_start_is_a_reason() -> None:
    """Its trace stays off the terminal, and nobody waits for it for ever."""
    with pytest.raises(SensorUnavailable, match="did not start"):
        Listening(NeverReady, SystemClock(), deque())


# ---- where there is nothing to listen to -----------------------------------------------------------------------------


@pytest.fixture
def sensor(monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyboardSensor]:
    """Give a sensor that is not started, in an environment without any screen."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XDG_SESSION_TYPE"):
        monkeypatch.delenv(name, raising=False)
    sensor = KeyboardSensor(SystemClock())
    yield sensor
    sensor.stop()
    assert sensor.state == "off"
    wait_until(lambda: not listeners(), what="all listeners to end")


def listeners() -> list[Any]:
    """Return the pynput listeners that run in this process."""
    return [thread for thread in threading.enumerate() if type(thread).__module__.startswith("pynput")]


def reason(sensor: KeyboardSensor) -> str:
    """Start the sensor and return why it is not available."""
    sensor.start()
    wait_until(lambda: sensor.state != "unavailable: starting", what="an answer")
    assert sensor.read() == ()
    return sensor.state


def test_without_a_screen(sensor: KeyboardSensor) -> None:
    """No DISPLAY: the reason says so."""
    assert reason(sensor) == "unavailable: there is no screen here (DISPLAY is not set)"


@pytest.mark.parametrize("name", [":4321", "127.0.0.1:4321", "nonsense"])
def test_a_dead_display(sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A DISPLAY at which nobody answers, or that is none."""
    monkeypatch.setenv("DISPLAY", name)
    assert reason(sensor) == f"unavailable: no X server answers at {name}"


@pytest.mark.parametrize(("variable", "value"), [("XDG_SESSION_TYPE", "wayland"), ("WAYLAND_DISPLAY", "wayland-0")])
def test_wayland(sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """With an X server inside Wayland only some windows would be heard, without any error: better to say so."""
    monkeypatch.setenv("DISPLAY", ":4321")
    monkeypatch.setenv(variable, value)
    assert reason(sensor) == "unavailable: Wayland does not let a program sense keys in other windows"


def test_a_missing_x_library(sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine runs on without it."""
    monkeypatch.setenv("DISPLAY", ":4321")
    monkeypatch.setitem(sys.modules, "Xlib", None)
    assert reason(sensor) == "unavailable: the library python-xlib is missing"


def test_a_missing_library(sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch, x11: FakeX11) -> None:
    """The engine runs on without it, and the line to the X server is closed again."""
    monkeypatch.setattr(keyboard, "_open_x_server", lambda: XServer(x11))
    monkeypatch.setitem(sys.modules, "pynput", None)
    assert reason(sensor) == "unavailable: the library pynput is missing or does not work here"
    assert x11.closed


@pytest.fixture
def x11() -> FakeX11:
    """Give an X server on which no key is down."""
    return FakeX11()


def test_a_display_that_hangs(sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and never answers, where Xlib alone would wait for ever."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        name = f"127.0.0.1:{hanging.getsockname()[1] - 6000}"
        monkeypatch.setenv("DISPLAY", name)
        assert reason(sensor) == f"unavailable: no X server answers at {name}"


# ---- real keys on a real X server ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """Give an X server with a window that has the focus."""
    with display() as name, focused_window(name):
        yield name


@pytest.fixture
def desktop(screen: str, monkeypatch: pytest.MonkeyPatch, sensor: KeyboardSensor) -> str:
    """Give the X server's name, with the sensor started on it."""
    monkeypatch.setenv("DISPLAY", screen)
    sensor.start()
    wait_until(lambda: sensor.state == "on", what="the sensor")
    return screen


def heard(sensor: KeyboardSensor, count: int) -> list[str]:
    """Return the kinds of the next `count` presses."""
    presses: list[KeyPress] = []
    wait_until(lambda: presses.extend(sensor.read()) or len(presses) >= count, what=f"{count} presses")
    assert [press.at for press in presses] == sorted(press.at for press in presses)
    return [press.kind.value for press in presses]


@pytest.mark.real
@NEEDS_X
def test_real_keys_have_their_kinds(desktop: str, sensor: KeyboardSensor) -> None:
    """Typing, editing, moving, pasting and shortcuts, as an X server reports them."""
    type_keys(desktop, "ab C")
    assert heard(sensor, 5) == ["text", "text", "text", "modifier", "text"]
    xdotool(desktop, "key", "BackSpace", "Delete", "Return", "KP_Enter", "Left", "F5", "Tab", "Escape")
    assert heard(sensor, 8) == ["delete", "delete", "enter", "enter", *["navigation"] * 4]
    xdotool(desktop, "key", "ctrl+v", "shift+Insert", "ctrl+c", "alt+f", "ISO_Level3_Shift+q")
    assert heard(sensor, 10)[1::2] == ["paste", "paste", "shortcut", "shortcut", "text"]


@pytest.mark.real
@NEEDS_X
def test_a_real_held_key_is_one_press_and_repeats(desktop: str, sensor: KeyboardSensor) -> None:
    """The server repeats it by itself until it goes up."""
    xdotool(desktop, "keydown", "a")
    kinds = heard(sensor, 5)
    xdotool(desktop, "keyup", "a")
    xdotool(desktop, "key", "b")
    wait_until(lambda: kinds.extend(heard(sensor, 1)) or kinds[-1] == "text", what="the next key")
    assert kinds == ["text", *["repeat"] * (len(kinds) - 2), "text"]


@pytest.mark.real
@NEEDS_X
def test_stop_needs_no_further_key(desktop: str, sensor: KeyboardSensor) -> None:
    """Pynput's own stop leaves its thread waiting for one; ours ends, again and again, also right after the start."""
    for _ in range(5):
        sensor.stop()
        assert not listeners()
        sensor.start()
        wait_until(lambda: sensor.state == "on")
    sensor.stop()
    sensor.start()
    sensor.stop()
    assert not listeners()
    type_keys(desktop, "x")
    assert sensor.read() == ()


@pytest.mark.real
@NEEDS_X
def test_a_real_listener_that_dies_is_replaced(
    desktop: str, sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception inside pynput ends its thread without a word."""
    monkeypatch.setattr(supervisor, "CHECK_EVERY", 0.05)
    sensor.stop()
    sensor.start()
    wait_until(lambda: sensor.state == "on")
    [first] = listeners()
    first.on_press = None  # calling it raises
    type_keys(desktop, "x")
    wait_until(lambda: sensor.state == "unavailable: the keyboard listener ended")
    wait_until(lambda: sensor.state == "on")
    assert first not in listeners()
    type_keys(desktop, "x")
    assert heard(sensor, 1) == ["text"]


@pytest.mark.real
@NEEDS_X
def test_a_real_listener_that_is_deaf_is_replaced(desktop: str, sensor: KeyboardSensor) -> None:
    """The X server says that a key is down, the listener says nothing."""
    [first] = listeners()
    first.on_press = first.on_release = lambda *_: None
    xdotool(desktop, "keydown", "a")
    wait_until(lambda: listeners() and first not in listeners(), what="another listener")
    xdotool(desktop, "keyup", "a")
    wait_until(lambda: "text" in [press.kind.value for press in sensor.read()] or type_keys(desktop, "b"))
    assert sensor.state == "on"


@pytest.mark.real
@NEEDS_X
def test_a_lost_x_server_is_a_reason(
    sensor: KeyboardSensor, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The session ended: the state says so, nothing is written on the terminal, and stop is clean."""
    with display() as name:
        monkeypatch.setenv("DISPLAY", name)
        sensor.start()
        wait_until(lambda: sensor.state == "on")
    wait_until(lambda: sensor.state == f"unavailable: no X server answers at {name}")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.real
@NEEDS_X
def test_what_was_typed_leaves_no_trace(desktop: str, sensor: KeyboardSensor) -> None:
    """No key object outlives its callback; of ours, only kinds, times and (while a key is down) hashes remain."""
    from pynput.keyboard import KeyCode  # noqa: PLC0415 - needs an X server

    type_keys(desktop, CANARY)
    xdotool(desktop, "keydown", "z")
    wait_until(lambda: len(sensor._heard) > len(CANARY), what="the keys")
    gc.collect()
    assert not [key for key in gc.get_objects() if isinstance(key, KeyCode) and key.char and key.char in CANARY]
    parts = [part for part in gc.get_objects() if isinstance(part, KeyboardSensor | Ear | Listening | KeySorter)]
    leaves = {type(leaf) for part in parts for leaf in leaves_of(vars(part))}
    xdotool(desktop, "keyup", "z")
    assert {KeyboardSensor, Ear, Listening, KeySorter} <= {type(part) for part in parts}
    assert {str, bytes} & leaves == set()
    assert KeyKind in leaves


def leaves_of(value: Any) -> Iterator[Any]:
    """Walk through containers and records; the names of fields are not data."""
    if isinstance(value, KeyPress):
        yield from (value.at, value.kind)
    elif isinstance(value, dict):
        # The families of held modifiers are words of ours; the canary holds none.
        for inner in value.values():
            yield from leaves_of(inner)
    elif isinstance(value, list | tuple | set | deque):
        for inner in value:
            yield from leaves_of(inner)
    else:
        yield value
