"""The window sensor: what it makes of titles, and the window in front on real X servers; never a title in clear."""

import contextlib
import gc
import logging
import re
import signal
import socket
import stat
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.desktop import display, needs, running, xdotool
from helpers.wait import wait_until
from Xlib import X
from Xlib.display import Display

from engine.clock import SystemClock
from engine.telemetry import supervisor, window, window_x11
from engine.telemetry.evidence import Window
from engine.telemetry.window import WindowSensor, hashed, segments, window_key

KEY = b"k" * 32
CANARY = "zxqjzxqj"
NOTHING = Window("", ())
NEEDS_X = needs("Xvfb", "xdotool")


# ---- titles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("ChatGPT - Mozilla Firefox", ["ChatGPT", "Mozilla Firefox"]),
        ("Prices — Wiki | Example · Chromium", ["Prices", "Wiki", "Example", "Chromium"]),
        ("Pause – Player", ["Pause", "Player"]),  # noqa: RUF001 - a dash that programs use
        ("me@host: ~/work", ["me@host", "work"]),
        ("(3) Inbox (12+) - Mail", ["Inbox", "Mail"]),
        ("[7] Channel | Chat", ["Channel", "Chat"]),
        ("*notes.txt - Editor", ["notes.txt", "Editor"]),
        ("● main.py - project - Code", ["main.py", "project", "Code"]),
        ("⠙ building", ["building"]),
        ("draft ● - Editor", ["draft", "Editor"]),
        ("a - b - c - d - e - f", ["a", "b", "e", "f"]),
        ("well-known 12:30 a|b", ["well-known 12:30 a|b"]),
        ("日本語 - エディタ", ["日本語", "エディタ"]),
        (" -  - ", []),
        ("(2)", []),
        ("", []),
    ],
)
def test_titles_fall_into_segments(title: str, parts: list[str]) -> None:
    """At the marks that programs put between page and program; counters and marks of state are left out."""
    assert segments(title) == parts


def test_segments_are_hashed_with_the_key() -> None:
    """The same part has the same hash in any title, another key gives another, and none of it can be read."""
    first, second = hashed("ChatGPT - Firefox", KEY), hashed("(1) ChatGPT - Chromium", KEY)
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert first[0] != hashed("ChatGPT", b"j" * 32)[0]
    assert all(re.fullmatch("[0-9a-f]{16}", part) for part in first)
    assert hashed("broken \ud800 name", KEY)


# ---- the key ---------------------------------------------------------------------------------------------------------


def test_the_key_is_made_once_and_is_the_user_s_alone(tmp_path: Path) -> None:
    """32 random bytes, mode 0600, the same each time."""
    path = tmp_path / "data" / "window.key"
    key = window_key(path)
    assert len(key) == 32
    assert window_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert window_key(tmp_path / "window.key") != key


def test_a_broken_key_is_replaced(tmp_path: Path) -> None:
    """A file of another length holds no key."""
    path = tmp_path / "window.key"
    path.write_bytes(b"short")
    assert len(window_key(path)) == 32
    assert path.read_bytes() == window_key(path)


def test_a_key_that_cannot_be_kept_serves_one_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The sensor works, and the log says what is lost."""
    (tmp_path / "file").write_text("no folder")
    assert len(window_key(tmp_path / "file" / "window.key")) == 32
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# ---- where there is nothing to see -----------------------------------------------------------------------------------


@pytest.fixture
def sensor(monkeypatch: pytest.MonkeyPatch) -> Iterator[WindowSensor]:
    """Give a sensor that is not started, in an X session, with a supervisor that is quick."""
    monkeypatch.setattr(supervisor, "CHECK_EVERY", 0.01)
    for name in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    sensor = WindowSensor(SystemClock(), KEY)
    yield sensor
    sensor.stop()
    assert sensor.state == "off"
    assert sensor.read() is None
    assert not [thread for thread in threading.enumerate() if thread.name == "window watch"]


def reason(sensor: WindowSensor) -> str:
    """Start the sensor and return why it is not available."""
    sensor.start()
    wait_until(lambda: sensor.state != "unavailable: starting", what="an answer")
    assert sensor.read() is None
    return sensor.state


@pytest.mark.parametrize(("variable", "value"), [("XDG_SESSION_TYPE", "wayland"), ("WAYLAND_DISPLAY", "wayland-0")])
def test_wayland(sensor: WindowSensor, monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """XWayland would tell of X windows only, and that wrongly."""
    monkeypatch.setenv("DISPLAY", ":4321")
    monkeypatch.setenv(variable, value)
    assert reason(sensor) == "unavailable: Wayland does not tell which window is in front"


def test_no_screen(sensor: WindowSensor) -> None:
    """A machine without a desktop."""
    assert reason(sensor) == "unavailable: there is no screen here (DISPLAY is not set)"


def test_a_missing_library(sensor: WindowSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine runs on without it."""
    monkeypatch.setenv("DISPLAY", ":4321")
    monkeypatch.setitem(sys.modules, "Xlib", None)
    assert reason(sensor) == "unavailable: the library python-xlib is missing"


def test_a_display_that_hangs(sensor: WindowSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        name = f"127.0.0.1:{hanging.getsockname()[1] - 6000}"
        monkeypatch.setenv("DISPLAY", name)
        assert reason(sensor) == f"unavailable: no X server answers at {name}"


def test_macos(sensor: WindowSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs a library that is not among ours."""
    monkeypatch.setattr(window, "sys", types.SimpleNamespace(platform="darwin"))
    assert "PyObjC" in reason(sensor)


# ---- real windows on a real X server ---------------------------------------------------------------------------------


class Desk:
    """Windows of programs on a display."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = Display(name)
        self.root = self.line.screen().root

    def open(self, program: str, title: str) -> Any:
        """Open a window."""
        new = self.root.create_window(0, 0, 200, 100, 0, X.CopyFromParent, event_mask=X.StructureNotifyMask)
        new.set_wm_class(program.lower(), program)
        self.call(new, title)
        new.map()
        while self.line.next_event().type != X.MapNotify:
            pass
        return new

    def call(self, which: Any, title: str) -> None:
        """Give a window another title."""
        utf8, name = self.line.intern_atom("UTF8_STRING"), self.line.intern_atom("_NET_WM_NAME")
        which.change_property(name, utf8, 8, title.encode())
        self.line.sync()

    def focus(self, which: Any) -> None:
        """Give the keys to a window, without a window manager."""
        which.set_input_focus(X.RevertToParent, X.CurrentTime)
        self.line.sync()

    def announce(self, number: int) -> None:
        """Say which window is active, as a window manager does."""
        kind, name = self.line.intern_atom("WINDOW"), self.line.intern_atom("_NET_ACTIVE_WINDOW")
        self.root.change_property(name, kind, 32, [number])
        self.line.sync()

    def activate(self, which: Any) -> None:
        """Let the window manager bring a window to the front, once it looks after it."""
        wait_until(lambda: which.id in self._managed(), what="the window manager")
        xdotool(self.name, "windowactivate", "--sync", str(which.id))

    def _managed(self) -> list[int]:
        answer = self.root.get_property(self.line.intern_atom("_NET_CLIENT_LIST"), X.AnyPropertyType, 0, 9)
        return [] if answer is None else list(answer.value)

    def close(self, which: Any) -> None:
        """Close a window."""
        which.destroy()
        self.line.sync()


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, sensor: WindowSensor) -> Iterator[Desk]:
    """Give a desk on an X server without a window manager; the sensor is not started."""
    with display() as name:
        monkeypatch.setenv("DISPLAY", name)
        desk = Desk(name)
        yield desk
        sensor.stop()
        with contextlib.suppress(Exception):  # a test may have ended the server
            desk.line.close()


def await_front(sensor: WindowSensor, program: str, title: str) -> None:
    """Wait until the sensor tells that this window is in front."""
    expected = Window(program, hashed(title, KEY))
    wait_until(lambda: sensor.read() == expected, what=f"{program} in front")


@pytest.mark.real
@NEEDS_X
@needs("openbox")
def test_follows_focus_and_titles_under_a_window_manager(sensor: WindowSensor, desk: Desk) -> None:
    """Another window, another tab in it, back again, and at the end no window at all."""
    chat = desk.open("Firefox", "Chat - Mozilla Firefox")
    with running(["openbox", "--sm-disable"], {"DISPLAY": desk.name}):
        desk.activate(chat)
        sensor.start()
        await_front(sensor, "firefox", "Chat - Mozilla Firefox")
        editor = desk.open("Code", "● main.py — project")
        desk.activate(editor)
        await_front(sensor, "code", "main.py - project")
        desk.activate(chat)
        await_front(sensor, "firefox", "Chat - Mozilla Firefox")
        desk.call(chat, "Prices – Shop - Mozilla Firefox")  # noqa: RUF001 - a dash that programs use
        await_front(sensor, "firefox", "Prices - Shop - Mozilla Firefox")
        desk.close(chat)
        await_front(sensor, "code", "main.py - project")
        desk.close(editor)
        wait_until(lambda: sensor.read() == NOTHING, what="no window in front")


@pytest.mark.real
@NEEDS_X
def test_without_a_window_manager_the_focus_counts(sensor: WindowSensor, desk: Desk) -> None:
    """It may lie on a part of a window deep inside it; looked at once a second."""
    sensor.start()
    wait_until(lambda: sensor.read() == NOTHING, what="no window")
    chat, editor = desk.open("Chat", "Talk"), desk.open("Editor", "Text")
    part = chat.create_window(0, 0, 50, 50, 0, X.CopyFromParent).create_window(0, 0, 20, 20, 0, X.CopyFromParent)
    chat.map_sub_windows()
    part.query_tree().parent.map_sub_windows()
    desk.focus(part)
    await_front(sensor, "chat", "Talk")
    desk.focus(editor)
    await_front(sensor, "editor", "Text")
    desk.announce(chat.id)
    await_front(sensor, "chat", "Talk")


@pytest.mark.real
@NEEDS_X
def test_sleeps_until_something_changes(sensor: WindowSensor, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits without a time limit where a window manager tells; other changes wake it to no look."""
    limits: list[float | None] = []
    looks: list[Window | None] = []
    select = window_x11.select.select

    def noted(*words: Any) -> Any:
        if threading.current_thread().name == "window watch" and words[0] and isinstance(words[0][0], int):
            limits.append(words[3])
        return select(*words)

    monkeypatch.setattr(window_x11, "select", types.SimpleNamespace(select=noted))
    monkeypatch.setattr(sensor, "_take", looks.append)
    chat = desk.open("Chat", "Talk")
    desk.announce(chat.id)
    sensor.start()
    wait_until(lambda: limits == [None], what="sleep")
    chat.set_wm_icon_name("an icon")
    desk.line.sync()
    wait_until(lambda: limits == [None, None], what="sleep again")
    assert looks == [Window("chat", hashed("Talk", KEY))]


@pytest.mark.real
@NEEDS_X
def test_a_title_that_never_rests_costs_little(
    sensor: WindowSensor, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of many is told, after few looks."""
    looks = 0
    look = window_x11.Watch._look

    def counted(watch: window_x11.Watch) -> bool:
        nonlocal looks
        looks += 1
        return look(watch)

    monkeypatch.setattr(window_x11.Watch, "_look", counted)
    terminal = desk.open("Terminal", "run 0")
    desk.announce(terminal.id)
    sensor.start()
    await_front(sensor, "terminal", "run 0")
    for number in range(1, 301):
        desk.call(terminal, f"run {number}")
    await_front(sensor, "terminal", "run 300")
    assert looks < 100


@pytest.mark.real
@NEEDS_X
def test_while_it_rests_it_looks_at_its_leisure(
    sensor: WindowSensor, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A game that shows its figures in the title wakes it no more often than every few seconds."""
    waits: list[float | None] = []

    class Noted(threading.Event):
        """An event that notes how long it is waited for, and waits for no time."""

        def wait(self, timeout: float | None = None) -> bool:
            """Note it."""
            waits.append(timeout)
            return self.is_set()

    monkeypatch.setattr(window_x11, "threading", types.SimpleNamespace(Event=Noted, Thread=threading.Thread))
    sensor.resting = True
    game = desk.open("Game", "60 a second")
    desk.announce(game.id)
    sensor.start()
    await_front(sensor, "game", "60 a second")
    wait_until(lambda: waits, what="the wait after it")
    sensor.resting = False
    desk.call(game, "59 a second")
    await_front(sensor, "game", "59 a second")
    wait_until(lambda: len(waits) > 1, what="the next wait")
    assert (waits[0], waits[-1]) == (window.REST, window_x11.CALM)


@pytest.mark.real
@NEEDS_X
def test_windows_that_vanish_or_have_no_name(
    sensor: WindowSensor, desk: Desk, capfd: pytest.CaptureFixture[str]
) -> None:
    """One that was closed at this very moment, one without class or title, one with an old-fashioned title."""
    sensor.start()
    first, second = desk.open("First", "First"), desk.open("Second", "Second")
    desk.announce(first.id)
    await_front(sensor, "first", "First")
    desk.close(first)
    desk.announce(first.id)
    wait_until(lambda: sensor.read() == NOTHING, what="no window")
    desk.announce(second.id)
    await_front(sensor, "second", "Second")
    for name in ("WM_CLASS", "_NET_WM_NAME"):
        second.delete_property(desk.line.intern_atom(name))
    desk.line.sync()
    wait_until(lambda: sensor.read() == NOTHING, what="a window without a name")
    second.set_wm_name("Café - Menü")
    desk.line.sync()
    await_front(sensor, "", "Café - Menü")
    second.change_property(desk.line.intern_atom("_NET_WM_NAME"), X.AnyPropertyType + 31, 8, b"\xff\xfe broken")
    desk.line.sync()
    await_front(sensor, "", "broken")
    assert capfd.readouterr().err == ""


@pytest.mark.real
@NEEDS_X
def test_a_server_that_ends_or_hangs(sensor: WindowSensor, desk: Desk) -> None:
    """A hanging one does not hold up the stop; one that ended is unknown, not empty."""
    server = next(child for child in psutil.Process().children() if child.name() == "Xvfb")
    chat = desk.open("Chat", "Talk")
    sensor.start()
    wait_until(lambda: sensor.read() is not None, what="a window")
    server.send_signal(signal.SIGSTOP)
    try:
        sensor.stop()
        assert sensor.state == "off"
        wait_until(lambda: not [t for t in threading.enumerate() if t.name == "window watch"], timeout=2)
    finally:
        server.send_signal(signal.SIGCONT)
    sensor.start()
    desk.announce(chat.id)
    await_front(sensor, "chat", "Talk")
    server.terminate()
    wait_until(lambda: sensor.state.startswith("unavailable: "), what="the state to say so")
    assert sensor.read() is None


@pytest.mark.real
@NEEDS_X
def test_a_title_is_nowhere_in_clear(sensor: WindowSensor, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in an object of the sensor nor in a log, and its hash is not that of another key."""
    with caplog.at_level(logging.DEBUG):
        chat = desk.open("Chat", f"{CANARY} - Talk")
        desk.announce(chat.id)
        sensor.start()
        await_front(sensor, "chat", f"{CANARY} - Talk")
        desk.call(chat, f"{CANARY} once more")
        await_front(sensor, "chat", f"{CANARY} once more")
        watches = [thing for thing in gc.get_objects() if isinstance(thing, window_x11.Watch)]
        assert watches
        frames = [sys._current_frames()[t.ident or 0] for t in threading.enumerate() if "window" in t.name]
        texts = held_texts([sensor, *watches, *[frame.f_locals for frame in frames]])
        assert not [text for text in texts if CANARY in text]
        assert "chat" in texts
        sensor.stop()
    assert CANARY not in caplog.text


def held_texts(roots: list[Any]) -> set[str]:
    """Return all text that can be reached from these objects, but not through modules and classes."""
    seen: set[int] = set()
    texts: set[str] = set()
    todo = list(roots)
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, types.ModuleType | type | types.FrameType | types.CodeType):
            continue
        seen.add(id(thing))
        if isinstance(thing, str):
            texts.add(thing)
        elif isinstance(thing, bytes | bytearray | memoryview):
            texts.add(bytes(thing).decode("latin-1"))
        elif isinstance(thing, types.FunctionType):
            todo.extend(thing.__closure__ or ())  # its globals are the module's
        else:
            todo.extend(gc.get_referents(thing))
    return texts
