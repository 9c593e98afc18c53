"""When the system last saw a key: the witness against a hook that went deaf. Tried on stand-ins of its calls only."""

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from typing import Any

_KEY_DOWN = 10  # kCGEventKeyDown
_HARDWARE = 1  # kCGEventSourceStateHIDSystemState


class LastInput:
    """Compares what `ask` returns from one question to the next: the time of the last input, and where the mouse is.

    `slack`: so much two answers about the same input may differ by.
    """

    def __init__(self, ask: Callable[[], tuple[float, object]], slack: float = 0.0) -> None:
        self._ask = ask
        self._slack = slack
        self._last, self._mouse = ask()

    def key_down(self) -> bool:
        """Tell whether something was pressed since the last question, and it was not the mouse that moved."""
        last, mouse = self._ask()
        pressed = abs(last - self._last) > self._slack and mouse == self._mouse
        self._last, self._mouse = last, mouse
        return pressed

    def close(self) -> None:
        """Do nothing: there is no line to hang up."""


class _LastInputInfo(ctypes.Structure):
    """LASTINPUTINFO."""

    _fields_ = (("size", ctypes.c_uint), ("tick", ctypes.c_uint))


class _Point(ctypes.Structure):
    """POINT."""

    _fields_ = (("x", ctypes.c_long), ("y", ctypes.c_long))


def windows(user32: Any) -> LastInput:
    """Return the witness of Windows, which counts mouse and keys as one: hence the mouse's place."""

    def ask() -> tuple[float, object]:
        info, point = _LastInputInfo(ctypes.sizeof(_LastInputInfo), 0), _Point()
        user32.GetLastInputInfo(ctypes.byref(info))
        user32.GetCursorPos(ctypes.byref(point))
        return info.tick, (point.x, point.y)

    return LastInput(ask)


def macos(services: Any, now: Callable[[], float]) -> LastInput:
    """Return the witness of macOS, which counts keys alone."""
    services.CGEventSourceSecondsSinceLastEventType.restype = ctypes.c_double
    since = services.CGEventSourceSecondsSinceLastEventType
    return LastInput(lambda: (now() - since(_HARDWARE, _KEY_DOWN), None), slack=0.1)


def last_input() -> LastInput | None:
    """Return the witness of this system, None where there is none."""
    if sys.platform == "win32":
        return windows(ctypes.windll.user32)
    if sys.platform == "darwin":
        from time import monotonic  # noqa: PLC0415 - needed here alone

        path = ctypes.util.find_library("ApplicationServices")
        return macos(ctypes.CDLL(path), monotonic) if path else None
    return None
