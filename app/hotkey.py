"""A key for "prepare now" that works in every window: X11 and Windows have such; elsewhere the desktop binds a command.

Only this one combination is asked for, and the system tells nothing of any other key.
"""

import contextlib
import logging
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from app import screen

log = logging.getLogger(__name__)

COMMAND = "zat-scs prepare"  # to be bound in the desktop's own settings
_JOIN = 2.0  # s


class _Grab(Protocol):
    """One system's way. `open` raises OSError with the reason; `serve` returns after `close`."""

    def open(self) -> None:
        """Ask for the key, on the thread that will serve."""

    def serve(self, pressed: Callable[[], None]) -> None:
        """Wait for presses."""

    def close(self) -> None:
        """Let serve() return; from any thread."""


class HotKey(QObject):
    """Emits `pressed` wherever the focus is. `state` is "on", or "unavailable: reason"."""

    pressed = Signal()
    settled = Signal()  # the state is known

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = "off"
        self._grab: _Grab | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Ask the system for the key, on a thread of its own."""
        self._grab = _of_this_system()
        if self._grab is None:
            self.state = "unavailable: this desktop has no such keys for programs"
            self.settled.emit()
            return
        self._thread = threading.Thread(target=self._work, args=(self._grab,), name="hot-key", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the key back and end the thread."""
        if self._thread is not None and self._grab is not None:
            self._grab.close()
            self._thread.join(_JOIN)
            self._thread = None

    def _work(self, grab: _Grab) -> None:
        try:
            grab.open()
        except OSError as error:
            self.state = f"unavailable: {error}"
            log.info("no key for preparing now: %s", error)
            self.settled.emit()
            return
        self.state = "on"
        self.settled.emit()
        try:
            grab.serve(self.pressed.emit)
        except OSError as error:
            self.state = f"unavailable: {error}"


def _of_this_system() -> _Grab | None:
    if sys.platform == "win32":
        return _WindowsGrab()
    wayland = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("XDG_SESSION_TYPE") == "wayland"
    if sys.platform == "darwin" or wayland or not os.environ.get("DISPLAY"):
        return None
    return _XGrab()


class _XGrab:
    """Ctrl+Alt+Shift+P by XGrabKey, whatever the locks of the keyboard are."""

    def __init__(self) -> None:
        self._display: Any = None
        self._reading, self._writing = socket.socketpair()

    def open(self) -> None:
        try:
            self._connect()
            self._take()
        except OSError:
            self._leave()
            raise

    def _connect(self) -> None:
        from Xlib import XK, X, display, error  # noqa: PLC0415 - only where there is an X server

        name = os.environ["DISPLAY"]
        reason = screen.unreachable(name)  # asked first, since Xlib leaves a socket behind when it fails
        if reason:
            raise OSError(reason)
        try:
            self._display = display.Display(name)
        except error.DisplayError as problem:
            raise OSError(f"no X server: {problem}") from None
        self._keysym = XK.string_to_keysym("p")
        self._mask = X.ControlMask | X.Mod1Mask | X.ShiftMask
        self._locks = (0, X.LockMask, X.Mod2Mask, X.LockMask | X.Mod2Mask)

    def serve(self, pressed: Callable[[], None]) -> None:
        from Xlib import X  # noqa: PLC0415

        try:
            while True:
                while self._display.pending_events():
                    event = self._display.next_event()
                    if event.type == X.KeyPress:
                        pressed()
                    elif event.type == X.MappingNotify:  # another layout: the key may have moved
                        self._display.refresh_keyboard_mapping(event)
                        self._display.screen().root.ungrab_key(X.AnyKey, X.AnyModifier)
                        self._take()
                if self._reading in select.select([self._display.fileno(), self._reading], [], [])[0]:
                    return
        finally:
            self._leave()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it may have ended by itself
            self._writing.send(b".")

    def _leave(self) -> None:
        if self._display is not None:
            self._display.close()
        self._reading.close()
        self._writing.close()

    def _take(self) -> None:
        from Xlib import X, error  # noqa: PLC0415

        root = self._display.screen().root
        code = self._display.keysym_to_keycode(self._keysym)
        taken = error.CatchError(error.BadAccess)
        for lock in self._locks:
            root.grab_key(code, self._mask | lock, True, X.GrabModeAsync, X.GrabModeAsync, onerror=taken)
        self._display.sync()
        if taken.get_error():
            raise OSError("another program has taken this key")


class _WindowsGrab:
    """Ctrl+Alt+Shift+P by RegisterHotKey, which belongs to the thread that asked."""

    def __init__(self) -> None:
        self._thread = 0

    def open(self) -> None:
        user, kernel = _windows()
        self._thread = kernel.GetCurrentThreadId()
        alt, control, shift, no_repeat = 0x1, 0x2, 0x4, 0x4000
        if not user.RegisterHotKey(None, 1, alt | control | shift | no_repeat, ord("P")):
            raise OSError("another program has taken this key")

    def serve(self, pressed: Callable[[], None]) -> None:
        import ctypes.wintypes  # noqa: PLC0415

        user, _ = _windows()
        message = ctypes.wintypes.MSG()
        while user.GetMessageW(ctypes.byref(message), None, 0, 0) > 0:
            if message.message == 0x0312:  # WM_HOTKEY
                pressed()
        user.UnregisterHotKey(None, 1)

    def close(self) -> None:
        user, _ = _windows()
        user.PostThreadMessageW(self._thread, 0x0012, 0, 0)  # WM_QUIT


def _windows() -> tuple[Any, Any]:
    """Return the two libraries of Windows; they exist nowhere else."""
    import ctypes  # noqa: PLC0415

    libraries: Any = vars(ctypes)["windll"]
    return libraries.user32, libraries.kernel32
