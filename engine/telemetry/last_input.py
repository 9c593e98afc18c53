"""Whether the system saw a key: the witness against a hook that went deaf. Tried on stand-ins of its calls only."""

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from typing import Any, Protocol

_KEY_DOWN = 10  # kCGEventKeyDown
_HARDWARE = 1  # kCGEventSourceStateHIDSystemState
_KEYS = range(8, 255)  # virtual keys; those below are the buttons of a mouse
_PRESSED = 0x8001  # it is down, or went down since somebody asked last
_SLACK = 0.1  # s by which two answers of macOS about the same key may differ


class Witness(Protocol):
    """Tells whether a key goes down, and never which."""

    def key_down(self) -> bool:
        """Tell whether one is down, or went down since the last question."""

    def close(self) -> None:
        """Dismiss it."""


class LastKey:
    """The witness of macOS, which tells when a key was pressed last, whichever it was."""

    def __init__(self, services: Any, now: Callable[[], float]) -> None:
        self._since = services.CGEventSourceSecondsSinceLastEventType
        self._since.restype = ctypes.c_double
        self._now = now
        self._last = self._ask()

    def key_down(self) -> bool:
        """Tell whether one went down since the last question."""
        before, self._last = self._last, self._ask()
        return abs(self._last - before) > _SLACK

    def close(self) -> None:
        """Do nothing: there is no line to hang up."""

    def _ask(self) -> float:
        return self._now() - float(self._since(_HARDWARE, _KEY_DOWN))


class KeyStates:
    """The witness of Windows, which tells it of each key; the time of its last input counts wheel and clicks, too."""

    def __init__(self, user32: Any) -> None:
        self._state = user32.GetAsyncKeyState
        self._state.restype = ctypes.c_short
        self.key_down()  # what was pressed before nobody could have heard

    def key_down(self) -> bool:
        """Tell whether one is down, or went down since the last question; all are asked, so that none is left over."""
        return sum(bool(self._state(key) & _PRESSED) for key in _KEYS) > 0

    def close(self) -> None:
        """Do nothing, as above."""


def last_input() -> Witness | None:
    """Return the witness of this system, None where there is none."""
    if sys.platform == "win32":
        return KeyStates(ctypes.windll.user32)
    if sys.platform == "darwin":
        from time import monotonic  # noqa: PLC0415 - needed here alone

        services = _services()
        return LastKey(services, monotonic) if services else None
    return None


def may_listen() -> bool:
    """Tell whether macOS lets this program hear keys: Input Monitoring is enough for that."""
    services = _services()
    if services is None:
        return False
    services.CGPreflightListenEventAccess.restype = ctypes.c_bool
    return bool(services.CGPreflightListenEventAccess())


def _services() -> Any:
    path = ctypes.util.find_library("ApplicationServices")
    return ctypes.CDLL(path) if path else None
