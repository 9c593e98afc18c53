"""Senses which window is in front. Its title is hashed where it is read: nothing else sees it in clear."""

import logging
import re
import secrets
import sys
from hashlib import blake2b
from pathlib import Path

from engine.clock import Clock
from engine.config.store import write_private
from engine.telemetry import window_windows, window_x11
from engine.telemetry.evidence import Window
from engine.telemetry.supervisor import ON, OpenSensor, SensorMissing, Supervisor

logger = logging.getLogger(__name__)

KEY_BYTES = 32
MOST_SEGMENTS = 4
REST = 2.5  # s between two looks at least, while it rests
_BETWEEN = re.compile(r"\s+[-–—|·]\s+|:\s+")  # noqa: RUF001 - the dashes that programs put into titles
_COUNTER = re.compile(r"\(\d+\+?\)|\[\d+\+?\]")  # unread messages
_MARK = re.compile(r"^[\W_]+|[\s*●•]+$")  # unsaved, busy, muted: stars, dots and spinners


class WindowSensor:
    """Watches the window in front on this desktop; `key` hashes the segments of its title."""

    def __init__(self, clock: Clock, key: bytes) -> None:
        self._clock = clock
        self._key = key
        self._front: Window | None = None
        self.resting = False  # looks no more often than every few seconds, whatever changes
        self._supervisor = Supervisor("window", self._open, clock)

    @property
    def state(self) -> str:
        """Exactly "on", "off" or "unavailable: reason"."""
        return self._supervisor.state

    def start(self) -> None:
        """Begin to watch; returns at once."""
        self._supervisor.start()

    def stop(self, *, wait: bool = True) -> None:
        """Watch no more and forget what was in front; takes two seconds at most."""
        self._supervisor.stop(wait=wait)
        self._front = None

    def read(self) -> Window | None:
        """Return the window in front, `Window("", ())` where there is none, None while it is unknown."""
        return self._front if self.state == ON else None

    def _open(self) -> OpenSensor:
        self._front = None  # of an earlier life
        if sys.platform == "darwin":
            raise SensorMissing("macOS tells its windows only to programs with PyObjC, which this one does without")
        if sys.platform == "win32":
            return window_windows.Watch(window_windows.Calls(), self._hashed, self._take, self._rest)
        return window_x11.Watch(window_x11.connect(), self._clock, self._hashed, self._take, self._rest)

    def _hashed(self, title: str) -> tuple[str, ...]:
        return hashed(title, self._key)

    def _rest(self) -> float:
        return REST if self.resting else 0.0

    def _take(self, front: Window | None) -> None:
        self._front = front


def hashed(title: str, key: bytes) -> tuple[str, ...]:
    """Return the segments of `title`, each as 16 hexadecimal digits that only `key` can make again."""
    return tuple(
        blake2b(segment.encode(errors="replace"), key=key, digest_size=8).hexdigest() for segment in segments(title)
    )


def segments(title: str) -> list[str]:
    """Cut a title into its parts (page, folder, site, program) without what changes by itself.

    Of more than four, the two at each end tell most.
    """
    parts = (_MARK.sub("", part) for part in _BETWEEN.split(_COUNTER.sub("", title)))
    kept = [part for part in parts if part]
    return kept if len(kept) <= MOST_SEGMENTS else kept[:2] + kept[-2:]


def window_key(path: Path) -> bytes:
    """Return the key that this user's titles are hashed by, kept in `path` (mode 0600); made at first use."""
    try:
        key = path.read_bytes()
        if len(key) == KEY_BYTES:
            return key
    except OSError:
        pass  # most likely the first use; what else it is, writing will tell
    key = secrets.token_bytes(KEY_BYTES)
    try:
        write_private(path, key)
    except OSError as error:
        logger.warning("%s cannot be written (%s): what is learned of windows ends with this run", path, error.strerror)
    return key
