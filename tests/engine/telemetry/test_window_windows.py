"""The window in front on Windows: looked at through calls of the same shape, on any system."""

import ctypes
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.wait import wait_until

from engine.errors import SensorUnavailable
from engine.telemetry import window_windows
from engine.telemetry.evidence import Window
from engine.telemetry.window_windows import Calls, Watch


class FakeDesktop:
    """A desktop on which windows are numbers."""

    def __init__(self) -> None:
        self.titles = {7: "Chat - Browser", 8: "main.py"}
        self.paths = {7: r"C:\Programs\Browser.EXE", 8: ""}
        self.now: int = 7
        self.broken = False
        self.asked: list[int] = []

    def front(self) -> int:
        """Return the window in front, or raise what a broken call raises."""
        if self.broken:
            raise OSError("access violation")
        return self.now

    def title(self, window: int) -> str:
        """Return its title."""
        return self.titles[window]

    def path(self, window: int) -> str:
        """Return the path of its program, and note the question."""
        self.asked.append(window)
        return self.paths[window]


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> FakeDesktop:
    """Give a desktop, and a watch that is quick."""
    monkeypatch.setattr(window_windows, "POLL", 0.01)
    return FakeDesktop()


@pytest.fixture
def told() -> list[Window | None]:
    """Give what was told."""
    return []


@pytest.fixture
def watch(desktop: FakeDesktop, told: list[Window | None]) -> Iterator[Watch]:
    """Give a watch of the desktop."""
    watch = Watch(desktop, lambda title: tuple(f"#{len(part)}" for part in title.split(" - ")), told.append)
    yield watch
    watch.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "window watch"]


def test_follows_windows_and_titles(watch: Watch, desktop: FakeDesktop, told: list[Window | None]) -> None:
    """The program is asked for once a window; an administrator's has no name; a locked screen has no window."""
    wait_until(lambda: told[-1:] == [Window("browser", ("#4", "#7"))])
    desktop.titles[7] = "Another - Browser"
    wait_until(lambda: told[-1] == Window("browser", ("#7", "#7")))
    desktop.now = 8
    wait_until(lambda: told[-1] == Window("", ("#7",)))
    desktop.now = 0
    wait_until(lambda: told[-1] == Window("", ()))
    desktop.now = 7
    wait_until(lambda: told[-1] == Window("browser", ("#7", "#7")))
    assert desktop.asked == [7, 8, 7]
    watch.check()


def test_calls_that_fail_end_the_watch(watch: Watch, desktop: FakeDesktop, told: list[Window | None]) -> None:
    """Then nothing is known, and the supervisor hears of it."""
    wait_until(lambda: told)
    desktop.broken = True
    wait_until(lambda: told[-1] is None)
    wait_until(lambda: not watch._thread.is_alive())
    with pytest.raises(SensorUnavailable):
        watch.check()


def test_while_it_rests_it_looks_at_its_leisure(monkeypatch: pytest.MonkeyPatch, desktop: FakeDesktop) -> None:
    """A wait is as long as it is told to rest, where that is more than usual."""
    waits: list[float | None] = []

    class Noted(threading.Event):
        """An event that notes how long it is waited for."""

        def wait(self, timeout: float | None = None) -> bool:
            """Note it, and wait a moment."""
            waits.append(timeout)
            return super().wait(0.01)

    monkeypatch.setattr(window_windows, "threading", SimpleNamespace(Event=Noted, Thread=threading.Thread))
    rests = [0.0, 30.0]
    watch = Watch(desktop, lambda title: (title,), lambda _: None, lambda: rests.pop(0) if rests else 0.0)
    wait_until(lambda: len(waits) >= 3, what="three waits")
    watch.close()
    assert waits[:3] == [window_windows.POLL, 30.0, window_windows.POLL]


# ---- the calls themselves, on libraries of the same shape ------------------------------------------------------------


class Call:
    """The shape of a function of a library."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *words: Any) -> Any:
        """Answer."""
        return self.answer(*words) if callable(self.answer) else self.answer


class Libraries:
    """The shape of user32 and kernel32 for one window, 2**40, of process 99."""

    def __init__(self) -> None:
        self.refused = False
        self.closed: list[int] = []
        self.GetForegroundWindow = Call(2**40)
        self.InternalGetWindowText = Call(self._title)
        self.GetWindowThreadProcessId = Call(self._process)
        self.OpenProcess = Call(lambda right, _inherit, number: None if self.refused else (right, number)[1] + 1)
        self.QueryFullProcessImageNameW = Call(self._path)
        self.CloseHandle = Call(self.closed.append)

    def _title(self, window: int, text: Any, size: int) -> None:
        assert (window, size) == (2**40, len(text))
        text.value = "Chat"

    def _process(self, _window: int, number: Any) -> None:
        number._obj.value = 99

    def _path(self, process: int, _flags: int, text: Any, size: Any) -> bool:
        assert (process, size._obj.value) == (100, len(text))
        text.value = r"C:\Programs\Browser.exe"
        return True


def test_the_calls_to_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles keep all their bits, a process is closed again, and one that may not be opened has no path."""
    libraries = Libraries()
    monkeypatch.setattr(ctypes, "WinDLL", lambda _: libraries, raising=False)
    calls = Calls()
    assert calls.front() == 2**40
    assert libraries.GetForegroundWindow.restype is ctypes.c_void_p
    assert calls.title(2**40) == "Chat"
    assert calls.path(2**40) == r"C:\Programs\Browser.exe"
    assert libraries.closed == [100]
    libraries.refused = True
    assert calls.path(2**40) == ""
    libraries.GetForegroundWindow.answer = None
    assert calls.front() == 0
