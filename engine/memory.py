"""What was learned of the user, kept in the data folder from day to day: keyed hashes, counts and small corrections."""

import logging
import threading
from pathlib import Path
from typing import Annotated

import msgspec

from engine.clock import Clock
from engine.config.store import write_private
from engine.telemetry.habits import Habits, Place
from engine.telemetry.personal import MOST, Personal

log = logging.getLogger(__name__)

VERSION = 2
PATIENCE = 2.0  # s for a writing that is under way
WITHOUT_CORRECTIONS = 1  # a version that is still read

_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Added = Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]


class _Place(msgspec.Struct, frozen=True, array_like=True):
    key: tuple[str, ...]
    prompts: _Count
    bouts: _Count
    enters: _Count
    recent: _Share


class _Memory(msgspec.Struct, frozen=True):
    version: int
    prompts: _Count
    places: list[_Place]
    plain: dict[str, _Added] = {}  # corrections by name of feature
    with_window: dict[str, _Added] = {}


def load(path: Path) -> tuple[Habits, Personal]:
    """Return what was learned; nothing where there is no file, and a warning where it cannot be believed."""
    habits, personal = Habits(), Personal()
    try:
        memory = msgspec.json.decode(path.read_bytes(), type=_Memory)
    except FileNotFoundError:
        return habits, personal
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s cannot be read, so habits are learned anew: %s", path, error)
        return habits, personal
    if memory.version not in (VERSION, WITHOUT_CORRECTIONS):
        log.warning("%s is of another version, so habits are learned anew", path)
        return habits, personal
    habits.prompts = memory.prompts
    for place in memory.places:
        habits.places[place.key] = Place(place.prompts, place.bouts, place.enters, place.recent)
    personal.plain.take(memory.plain)
    personal.with_window.take(memory.with_window)
    return habits, personal


def encode(habits: Habits, personal: Personal) -> bytes:
    """Return what is written. When a prompt came is left out: it means nothing on another day."""
    places = [
        _Place(key, place.prompts, place.bouts, place.enters, round(place.recent, 4))
        for key, place in habits.places.items()
    ]
    corrections = personal.plain.as_dict(), personal.with_window.as_dict()
    return msgspec.json.encode(_Memory(VERSION, habits.prompts, places, *corrections))


class Memory:
    """Keeps what is learned from day to day. `path`: the file, None: only while the engine runs.

    Belongs to the loop's thread; while that runs, the file is written on another.
    """

    EVERY = 600.0  # s between two writings

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._written_at = clock.now()
        self._wanted: bytes | None = b""  # what the file is to hold; None: there is to be none
        self._done: bytes | None = b""
        self._writing = threading.Lock()

    def recall(self) -> tuple[Habits, Personal]:
        """Return what was learned on earlier days."""
        return load(self._path) if self._path else (Habits(), Personal())

    def refresh(self, habits: Habits, personal: Personal) -> None:
        """Write it down if the last time is long ago; blocks nobody."""
        if self._path and self._clock.now() - self._written_at >= self.EVERY:
            self._written_at = self._clock.now()
            self._want(encode(habits, personal))

    def forget(self) -> None:
        """Delete the file; blocks nobody."""
        self._want(None)

    def close(self, habits: Habits, personal: Personal) -> None:
        """Write it down now, unless nothing was ever learned or nothing has changed."""
        if habits.prompts:
            self._wanted = encode(habits, personal)
        self._write()

    def _want(self, content: bytes | None) -> None:
        self._wanted = content
        threading.Thread(target=self._write, name="memory", daemon=True).start()

    def _write(self) -> None:
        """Bring the file to what is wanted now, which may be newer than what this was called for."""
        if not self._writing.acquire(timeout=PATIENCE):  # the disk hangs
            return
        try:
            if self._path and self._wanted != self._done:
                self._done = self._wanted
                save(self._path, self._done)
        finally:
            self._writing.release()


def save(path: Path, content: bytes | None) -> None:
    """Write it, readable by this user only; None: delete it. A disk that refuses is said and does no harm."""
    try:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            write_private(path, content)
    except OSError as error:
        what = "deleted" if content is None else "written; what was learned today is forgotten"
        log.warning("%s cannot be %s: %s", path, what, error)
