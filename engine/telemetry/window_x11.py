"""The window in front on X11: asleep until the X server says that another one came, or that its title changed."""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, cast

from engine.clock import Clock
from engine.errors import SensorUnavailable
from engine.telemetry import x_server
from engine.telemetry.evidence import Window
from engine.telemetry.oblivion import ForgetfulLine, overwrite_freed

PATIENCE = 1.5  # s for the thread to end
CALM = 0.25  # s between two looks: a title with a clock or a spinner in it changes all the time
POLL = 1.0  # s between two looks where no window manager says what is in front
LONGEST = 256  # four bytes each, of a title or a name
DEEPEST = 16  # windows between the one with the focus and the one with the title
_ANY_TYPE = 0
_REPORTS = 1 << 22 | 1 << 17  # PropertyChangeMask, StructureNotifyMask
_DESTROYED = 17  # DestroyNotify
_ATOMS = ("_NET_ACTIVE_WINDOW", "_NET_WM_NAME", "WM_NAME", "WM_CLASS")
NONE = Window("", ())


class Watch:
    """Follows the window in front on a line and a thread of its own; the line is `display` of Xlib.

    `hashed` makes segments of a title; `tell` is given each window, None once nothing is known any more.
    `rest`: seconds between two looks at least, where that is more than usual.
    """

    def __init__(
        self,
        display: Any,
        clock: Clock,
        hashed: Callable[[str], tuple[str, ...]],
        tell: Callable[[Window | None], None],
        rest: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._display = display
        self._clock = clock
        self._hashed = hashed
        self._tell = tell
        self._rest = rest
        self._atoms = {display.intern_atom(name): name for name in _ATOMS}
        self._ids = {name: atom for atom, name in self._atoms.items()}
        self._root = display.screen().root
        display.display.socket = ForgetfulLine(display.display.socket)  # titles come through it
        self._front: Any = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="window watch", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise SensorUnavailable if the line to the X server broke."""
        if not self._thread.is_alive():
            raise SensorUnavailable("the X server went away")

    def close(self) -> None:
        """Break the line, which wakes the thread wherever it waits."""
        self._closing.set()
        with contextlib.suppress(OSError):  # it broke by itself
            self._display.display.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        # Suppressed: all that a lost X server can raise; check() tells.
        with contextlib.suppress(Exception):
            self._watch(self._root)
            while not self._closing.is_set():
                managed = self._look()
                overwrite_freed()
                self._closing.wait(max(CALM, self._rest()))
                self._await_change(None if managed else self._clock.now() + POLL - CALM)
        if not self._closing.is_set():
            self._tell(None)
        with contextlib.suppress(Exception):
            self._display.close()

    def _await_change(self, deadline: float | None) -> None:
        """Return when something changed that matters, or at `deadline`."""
        while not self._closing.is_set() and not self._changed():
            left = None if deadline is None else deadline - self._clock.now()
            if left is not None and left <= 0:
                return
            select.select([self._display.fileno()], [], [], left)

    def _changed(self) -> bool:
        events = [self._display.next_event() for _ in range(self._display.pending_events())]
        # Some window managers go on naming a window that was closed.
        return any(getattr(event, "atom", None) in self._atoms or event.type == _DESTROYED for event in events)

    def _look(self) -> bool:
        """Tell what is in front; False if no window manager says so."""
        active = self._property(self._root, "_NET_ACTIVE_WINDOW")
        try:
            front = self._focused() if active is None else self._window(active[0] if len(active) else 0)
            self._follow(front)
            window = NONE if front is None else Window(self._program(front), self._title(front))
        except _window_error():  # closed at this very moment: another one comes to the front
            window = NONE
        if not self._closing.is_set():
            self._tell(window)
        return active is not None

    def _window(self, number: int) -> Any:
        return self._display.create_resource_object("window", number) if number else None

    def _focused(self) -> Any:
        """Return the window with the focus that has a title, or None; the focus itself may lie deep inside it."""
        window = self._display.get_input_focus().focus
        for _ in range(DEEPEST):
            if isinstance(window, int) or window == self._root:  # an int: no window, or wherever the pointer is
                return None
            if self._property(window, "WM_CLASS") is not None or self._property(window, "WM_NAME") is not None:
                return window
            window = window.query_tree().parent
        return None

    def _follow(self, front: Any) -> None:
        """Let the server report when the title of `front` changes, and of no other window."""
        if front == self._front:
            return
        if self._front is not None:
            # It may be gone already; the error handler hears of it.
            self._front.change_attributes(event_mask=0)
        self._front = front
        if front is not None:
            self._watch(front)

    def _watch(self, window: Any) -> None:
        window.change_attributes(event_mask=_REPORTS)
        self._display.flush()

    def _program(self, window: Any) -> str:
        """Return the class of the program, such as "firefox"; it comes after the name of this very window."""
        value = self._property(window, "WM_CLASS")
        names = [] if value is None else bytes(value).decode("latin-1").split("\0")
        return names[1].lower() if len(names) > 1 else ""

    def _title(self, window: Any) -> tuple[str, ...]:
        for name, coding in (("_NET_WM_NAME", "utf-8"), ("WM_NAME", "latin-1")):
            value = self._property(window, name)
            if value is not None:
                return self._hashed(bytes(value).decode(coding, errors="replace"))
        return ()

    def _property(self, window: Any, name: str) -> Any:
        """Return the value: bytes, or an array of numbers; None if there is none."""
        answer = window.get_property(self._ids[name], _ANY_TYPE, 0, LONGEST)
        return None if answer is None else answer.value


def connect() -> Any:
    """Return a line to the X server of this session; raises SensorUnavailable with the reason."""
    if os.environ.get("XDG_SESSION_TYPE") == "wayland" or os.environ.get("WAYLAND_DISPLAY"):
        raise SensorUnavailable("Wayland does not tell which window is in front")
    line = x_server.connect()
    line.set_error_handler(lambda *_: None)  # Xlib would print it: a window was closed while it was looked at
    return line


def _window_error() -> type[Exception]:
    from Xlib import error  # noqa: PLC0415 - a machine without it runs on without this sensor

    return cast("type[Exception]", error.XError)
