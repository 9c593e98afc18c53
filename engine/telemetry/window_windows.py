"""The window in front on Windows, looked at twice a second: a hook for it would need a message loop of its own."""

import contextlib
import ctypes
import threading
from collections.abc import Callable
from pathlib import PureWindowsPath
from typing import Any, Protocol

from engine.errors import SensorUnavailable
from engine.telemetry.evidence import Window

POLL = 0.5  # s
PATIENCE = 1.5  # s for the thread to end
LONGEST = 1024  # characters of a title or a path
_QUERY_LIMITED = 0x1000  # PROCESS_QUERY_LIMITED_INFORMATION


class Desktop(Protocol):
    """What is asked of Windows. A window is a handle, 0: none."""

    def front(self) -> int:
        """Return the window in front."""

    def title(self, window: int) -> str:
        """Return its title, empty where there is none."""

    def path(self, window: int) -> str:
        """Return the path of its program, empty where Windows does not tell."""


class Watch:
    """Follows the window in front on a thread of its own.

    `hashed` makes segments of a title; `tell` is given each window, None once nothing is known any more.
    `rest`: seconds between two looks at least, where that is more than usual.
    """

    def __init__(
        self,
        desktop: Desktop,
        hashed: Callable[[str], tuple[str, ...]],
        tell: Callable[[Window | None], None],
        rest: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._desktop = desktop
        self._hashed = hashed
        self._tell = tell
        self._rest = rest
        self._handle = 0
        self._program = ""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="window watch", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise SensorUnavailable if Windows refused to answer."""
        if not self._thread.is_alive():
            raise SensorUnavailable("Windows does not tell which window is in front")

    def close(self) -> None:
        """End the thread."""
        self._closing.set()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # check() tells
            while not self._closing.is_set():
                self._tell(self._look())
                self._closing.wait(max(POLL, self._rest()))
            return
        self._tell(None)

    def _look(self) -> Window:
        handle = self._desktop.front()
        if not handle:  # the screen is locked, or the focus is on its way
            self._handle = 0
            return Window("", ())
        if handle != self._handle:
            self._handle, self._program = handle, PureWindowsPath(self._desktop.path(handle)).stem.lower()
        return Window(self._program, self._hashed(self._desktop.title(handle)))


class Calls:
    """Asks Windows itself."""

    def __init__(self) -> None:
        libraries: Any = vars(ctypes)["WinDLL"]  # there on Windows only
        self._user, self._kernel = libraries("user32"), libraries("kernel32")
        # Handles are as wide as pointers; ctypes would cut them to 32 bits.
        self._user.GetForegroundWindow.restype = ctypes.c_void_p
        self._user.InternalGetWindowText.argtypes = (ctypes.c_void_p, ctypes.c_wchar_p, ctypes.c_int)
        self._user.GetWindowThreadProcessId.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_ulong))
        self._kernel.OpenProcess.restype = ctypes.c_void_p
        self._kernel.OpenProcess.argtypes = (ctypes.c_ulong, ctypes.c_int, ctypes.c_ulong)
        self._kernel.QueryFullProcessImageNameW.argtypes = (
            ctypes.c_void_p,
            ctypes.c_ulong,
            ctypes.c_wchar_p,
            ctypes.POINTER(ctypes.c_ulong),
        )
        self._kernel.CloseHandle.argtypes = (ctypes.c_void_p,)

    def front(self) -> int:
        """Return the window in front, 0: none."""
        return int(self._user.GetForegroundWindow() or 0)

    def title(self, window: int) -> str:
        """Return its title, as Windows itself keeps it: a program that hangs could not hold this up."""
        text = ctypes.create_unicode_buffer(LONGEST)
        self._user.InternalGetWindowText(window, text, LONGEST)
        return text.value

    def path(self, window: int) -> str:
        """Return the path of its program; empty for programs of an administrator."""
        number = ctypes.c_ulong()
        self._user.GetWindowThreadProcessId(window, ctypes.byref(number))
        process = self._kernel.OpenProcess(_QUERY_LIMITED, 0, number.value)
        if not process:
            return ""
        text, length = ctypes.create_unicode_buffer(LONGEST), ctypes.c_ulong(LONGEST)
        try:
            found = self._kernel.QueryFullProcessImageNameW(process, 0, text, ctypes.byref(length))
        finally:
            self._kernel.CloseHandle(process)
        return text.value if found else ""
