"""What was learned of the user's habits, kept in the data folder from day to day. Keyed hashes and counts only."""

import logging
import threading
from pathlib import Path

import msgspec

from engine.clock import Clock
from engine.config.store import write_private
from engine.telemetry.habits import Habits, Place

log = logging.getLogger(__name__)

VERSION = 1


class _Place(msgspec.Struct, frozen=True, array_like=True):
    key: tuple[str, ...]
    prompts: int
    bouts: int
    enters: int
    recent: float


class _Memory(msgspec.Struct, frozen=True):
    version: int
    prompts: int
    places: list[_Place]


def load(path: Path) -> Habits:
    """Return what was learned; nothing where there is no file, and a warning where it cannot be read."""
    habits = Habits()
    try:
        memory = msgspec.json.decode(path.read_bytes(), type=_Memory)
    except FileNotFoundError:
        return habits
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s cannot be read, so habits are learned anew: %s", path, error)
        return habits
    if memory.version != VERSION:
        log.warning("%s is of another version, so habits are learned anew", path)
        return habits
    habits.prompts = memory.prompts
    for place in memory.places:
        habits.places[place.key] = Place(place.prompts, place.bouts, place.enters, place.recent)
    return habits


def encode(habits: Habits) -> bytes:
    """Return what is written. When a prompt came is left out: it means nothing on another day."""
    places = [
        _Place(key, place.prompts, place.bouts, place.enters, round(place.recent, 4))
        for key, place in habits.places.items()
    ]
    return msgspec.json.encode(_Memory(VERSION, habits.prompts, places))


class Memory:
    """Keeps what is learned from day to day. `path`: the file, None: only while the engine runs.

    Belongs to the loop's thread; while that runs, the file is written on another.
    """

    EVERY = 600.0  # s between two writings

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written_at = clock.now()
        self._written = b""

    def recall(self) -> Habits:
        """Return what was learned on earlier days."""
        return load(self._path) if self._path else Habits()

    def refresh(self, habits: Habits) -> None:
        """Write it down if the last time is long ago; blocks nobody."""
        if self._path and self._clock.now() - self._written_at >= self.EVERY:
            self._written_at, self._written = self._clock.now(), encode(habits)
            threading.Thread(target=save, args=(self._path, self._written), name="memory", daemon=True).start()

    def close(self, habits: Habits) -> None:
        """Write it down now, unless nothing was ever learned or nothing has changed."""
        content = encode(habits)
        if self._path and habits.prompts and content != self._written:
            save(self._path, content)


def save(path: Path, content: bytes) -> None:
    """Write it, readable by this user only. A disk that refuses is said and does no harm."""
    try:
        write_private(path, content)
    except OSError as error:
        log.warning("%s cannot be written; what was learned today is forgotten: %s", path, error)
