"""Senses that keys go down and of which kind they are. Which key it was dies in the callback and is kept nowhere."""

import contextlib
import logging
import os
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from engine.clock import Clock
from engine.errors import SensorUnavailable
from engine.telemetry import x_server
from engine.telemetry.evidence import KeyKind, KeyPress
from engine.telemetry.hook_process import HookProcess
from engine.telemetry.last_input import Witness, last_input, may_listen
from engine.telemetry.supervisor import SensorMissing, Supervisor

logger = logging.getLogger(__name__)

UNREAD = 512  # presses kept while nobody reads
HELD = 1.5  # s without a repeat: the release was missed; the first repeat comes after 0.66 s
MODIFIER_HELD = 10.0  # s; modifiers do not repeat on X11, and a lock screen swallows their release
DEAF_SIGHTINGS = 3  # of a key that is down, with no word from the listener
PATIENCE = 1.5  # s for a listener to start, or to end
_SALT = secrets.randbits(64)
_X_ALT = (0xFFE7, 0xFFE8)  # keysyms Meta_L, Meta_R: what Alt is called while Shift is down
_X_LEVELS = range(0xFE01, 0xFE14)  # ISO_Lock … ISO_Level5_Lock: AltGr on today's layouts is ISO_Level3_Shift
_X_FUNCTION = (range(0xFE20, 0xFE40), range(0xFF00, 0x10000), range(0x10080000, 0x10090000))  # Shift+Tab, media …
_NAMED = {"enter": KeyKind.ENTER, "backspace": KeyKind.DELETE, "delete": KeyKind.DELETE, "space": KeyKind.TEXT}


class KeyboardSensor:
    """Hears key presses anywhere on this desktop; of each it tells the kind and the time by `clock`.

    `apart`: the hook lives in a process of its own. Windows and macOS make each key wait for it; X11 does not.
    """

    def __init__(self, clock: Clock, *, apart: bool = sys.platform in ("win32", "darwin")) -> None:
        self._clock = clock
        self._apart = apart
        self._heard: deque[KeyPress] = deque(maxlen=UNREAD)
        self._supervisor = Supervisor("keyboard", self._open, clock)

    @property
    def state(self) -> str:
        """Exactly "on", "off" or "unavailable: reason"."""
        return self._supervisor.state

    def start(self) -> None:
        """Begin to listen; returns at once."""
        self._supervisor.start()

    def stop(self, *, wait: bool = True) -> None:
        """Listen no more and forget what was not read; takes two seconds at most."""
        self._supervisor.stop(wait=wait)
        self._heard.clear()

    def read(self) -> tuple[KeyPress, ...]:
        """Return the presses since the last read, oldest first."""
        return tuple(self._heard.popleft() for _ in range(len(self._heard)))

    def _open(self) -> "Ear":
        witness = last_input() if sys.platform in ("win32", "darwin") else _open_x_server()
        try:
            return Ear(self._listen, witness)
        except BaseException:
            if witness is not None:
                witness.close()
            raise

    def _listen(self) -> "Hearing":
        if self._apart:
            return HookProcess(self._clock, self._heard)
        return Listening(listener_type(), self._clock, self._heard)


class Hearing(Protocol):
    """One listener, here or in a process of its own. `heard` counts its reports."""

    heard: int

    @property
    def alive(self) -> bool:
        """It still runs."""

    def close(self) -> None:
        """End it."""


class Presses(Protocol):
    """Takes presses; its append() must be quick."""

    def append(self, press: KeyPress, /) -> object:
        """Take one."""


class Ear:
    """A listener, and a witness of the system's that tells whether the listener went deaf."""

    def __init__(self, listen: Callable[[], Hearing], witness: Witness | None) -> None:
        self._listen = listen
        self._witness = witness
        self._listening = listen()
        self._heard = self._sightings = 0
        self._patience = DEAF_SIGHTINGS

    def check(self) -> None:
        """Raise SensorUnavailable if the listener ended; replace it if it is deaf."""
        if not self._listening.alive:
            raise SensorUnavailable("the keyboard listener ended")
        if self._witness is not None and self._deaf(self._witness):
            logger.info("the keyboard listener hears nothing while keys are down; it is replaced")
            self._listening.close()
            self._listening = self._listen()
            self._heard = self._sightings = 0
            # A key that hangs looks the same: ask for more each time, so that it costs less and less.
            self._patience = min(2 * self._patience, 60)

    def close(self) -> None:
        """End the listener and dismiss the witness."""
        self._listening.close()
        if self._witness is not None:
            self._witness.close()

    def _deaf(self, witness: Witness) -> bool:
        if self._listening.heard != self._heard:
            self._heard = self._listening.heard
            self._sightings = 0
            self._patience = DEAF_SIGHTINGS
        elif witness.key_down():
            self._sightings += 1
        return self._sightings >= self._patience


class Listening:
    """One pynput listener; `listener_type` makes it. `heard` counts its reports."""

    def __init__(self, listener_type: Callable[..., Any], clock: Clock, presses: Presses) -> None:
        self.heard = 0
        self._clock = clock
        self._presses = presses
        self._closed = False
        self._listener = listener_type(on_press=self._pressed, on_release=self._released)
        self._sorter = KeySorter(self._listener.canonical)
        run = self._listener.run
        self._listener.run = lambda: _contained(run)
        self._listener.start()
        self._await_start()

    @property
    def alive(self) -> bool:
        """The listener still runs."""
        return bool(self._listener.is_alive())

    def close(self) -> None:
        """End the listener's thread; on X11 its own stop() would wait for the next key."""
        self._closed = True
        with contextlib.suppress(Exception):  # the server may be gone
            self._listener.stop()
        deadline = time.monotonic() + PATIENCE
        while self.alive and time.monotonic() < deadline:
            # Repeated, since a listener stopped right after its start enables its context only later.
            with contextlib.suppress(Exception):  # it may be closing these lines at this very moment
                self._listener._display_stop.record_disable_context(self._listener._context)  # noqa: SLF001 - no public way
                self._listener._display_stop.flush()  # noqa: SLF001 - as above
            threading.Thread.join(self._listener, 0.05)  # pynput's own join() may wait for a queue

    def _await_start(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._listener._ready:  # noqa: SLF001 - its public wait() has no time limit
            if not self.alive or time.monotonic() > deadline:
                self._closed = True
                raise SensorUnavailable("the keyboard listener did not start")
            time.sleep(0.005)
        if sys.platform == "darwin" and not (self._listener.IS_TRUSTED or may_listen()):
            self.close()
            raise SensorUnavailable("macOS does not let this program sense keys; allow it under Input Monitoring")

    def _pressed(self, key: Any) -> bool:
        if self._closed:
            return False  # ends a listener that close() could not end
        with contextlib.suppress(Exception):  # an exception would end the listener
            self.heard += 1
            now = self._clock.now()
            self._presses.append(KeyPress(now, self._sorter.press(key, now)))
        return True

    def _released(self, key: Any) -> bool:
        with contextlib.suppress(Exception):  # as above
            self.heard += 1
            self._sorter.release(key)
        return not self._closed


class KeySorter:
    """Tells the kind of a press. Of keys it remembers salted hashes, and only while they are down.

    `canonical` gives the same key for both cases of a letter, so that a release finds its press.
    """

    def __init__(self, canonical: Callable[[Any], Any]) -> None:
        self._canonical = canonical
        self._down: dict[int, float] = {}  # when it was last reported
        self._modifiers: dict[str, float] = {}  # family, since when

    def press(self, key: Any, now: float) -> KeyKind:
        """Return the kind of `key` going down at `now`."""
        self._down = {mark: at for mark, at in self._down.items() if now - at <= HELD}
        self._modifiers = {family: at for family, at in self._modifiers.items() if now - at <= MODIFIER_HELD}
        mark = self._mark(key)
        repeated = mark in self._down
        self._down[mark] = now
        if family := _family(key):
            self._modifiers[family] = now
        if repeated:
            return KeyKind.REPEAT
        return KeyKind.MODIFIER if family else self._kind(key)

    def release(self, key: Any) -> None:
        """Take note that `key` went up."""
        self._modifiers.pop(_family(key) or "", None)
        if self._down.pop(self._mark(key), None) is None:
            # Shift went up before it, so it goes up under another name: which of the keys it is, nobody knows.
            self._down.clear()

    def _mark(self, key: Any) -> int:
        return hash((_SALT, self._canonical(key)))

    def _kind(self, key: Any) -> KeyKind:
        # Windows reports AltGr as Ctrl and Alt.
        commands = set() if "level" in self._modifiers else self._modifiers.keys() & {"ctrl", "alt", "cmd"}
        name = getattr(key, "name", None)
        if commands:
            pastes = "alt" not in commands and getattr(self._canonical(key), "char", None) == "v"
            return KeyKind.PASTE if pastes else KeyKind.SHORTCUT
        if name == "insert" and "shift" in self._modifiers:
            return KeyKind.PASTE
        if name is not None:
            return _NAMED.get(name, KeyKind.NAVIGATION)
        if getattr(key, "char", None) is None and any(getattr(key, "vk", 0) in keys for keys in _X_FUNCTION):
            return KeyKind.NAVIGATION
        return KeyKind.TEXT


class XServer:
    """Our own line to the X server; asks only whether any key at all is down."""

    def __init__(self, display: Any) -> None:
        self._display = display
        modifiers = {code for codes in display.get_modifier_mapping() for code in codes}
        self._watched = [sum(1 << bit for bit in range(8) if 8 * row + bit not in modifiers) for row in range(32)]

    def key_down(self) -> bool:
        """Return whether a key that is no modifier is down; raises SensorUnavailable if the server is gone."""
        try:
            rows = self._display.query_keymap()
        except Exception as error:
            raise SensorUnavailable("the X server went away") from error
        return any(row & watched for row, watched in zip(rows, self._watched, strict=True))

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(Exception):  # the server may be gone
            self._display.close()


def _open_x_server() -> XServer:
    if os.environ.get("XDG_SESSION_TYPE") == "wayland" or os.environ.get("WAYLAND_DISPLAY"):
        raise SensorUnavailable("Wayland does not let a program sense keys in other windows")
    return XServer(x_server.connect())


def listener_type() -> Any:
    """Return pynput's listener; raises SensorUnavailable."""
    try:
        from pynput import keyboard  # noqa: PLC0415 - it connects to the desktop when imported
    except ImportError as error:
        raise SensorMissing("the library pynput is missing or does not work here") from error
    return keyboard.Listener


def _contained(run: Callable[[], None]) -> None:
    """Keep the trace of a dying listener off the terminal; the supervisor sees that it ended."""
    with contextlib.suppress(Exception):  # all that a lost X server can raise
        run()


def _family(key: Any) -> str | None:
    """Return which modifier `key` is, left and right the same; "level": the one that writes characters; else None."""
    name, code = getattr(key, "name", None), getattr(key, "vk", None)
    if name is None and getattr(key, "char", None) is None and code is not None:
        return "alt" if code in _X_ALT else "level" if code in _X_LEVELS else None
    stem = str(name).partition("_")[0]
    if name == "alt_gr" or (stem == "alt" and sys.platform == "darwin"):  # Option writes characters there
        return "level"
    return stem if stem in ("shift", "ctrl", "alt", "cmd", "caps") else None
