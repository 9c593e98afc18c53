"""Slot files on disk, as far as they can be seen from here: what they look like, whose they are, and their end."""

import enum
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from engine.client.view import readable

PATTERN = r"^zat-scs-[0-9a-f]{12}-[ab]\.bin$"


@dataclass(frozen=True, slots=True)
class Written:
    """What a slot file looks like on disk."""

    size: int
    stamp: tuple[int, int]
    digest: str


class Fate(enum.Enum):
    """What became of a file that was to be deleted; LEFT: it is there, or lies where nothing can be seen of it."""

    DELETED = "deleted"
    ABSENT = "absent"
    LEFT = "left"


def measure(path: Path) -> Written:
    """Return size, stamp and digest of a slot file. Raises OSError."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Written(status.st_size, stamp_of(status), digest)


def stamp_of(status: os.stat_result) -> tuple[int, int]:
    """Return what changes when a file is written anew."""
    return status.st_ino, status.st_mtime_ns


def look_at(folder: str, filename: str) -> os.stat_result | None:
    """Return what can be seen of a file; None: it is not there, or cannot be seen from here."""
    path = readable(folder, filename)
    try:
        return path.lstat() if path is not None else None
    except OSError:
        return None


def is_folder(folder: str) -> bool:
    """Tell whether the server's folder is one that can be seen from here."""
    path = readable(folder, "")
    try:
        return path is not None and path.is_dir()
    except OSError:
        return False


def make_private(path: Path) -> str | None:
    """Take a slot file away from others where we may; return a warning where others can read it."""
    try:
        path.chmod(0o600)
    except OSError:
        try:
            others_read = path.stat().st_mode & 0o044
        except OSError:
            return None
        return f"{path} can be read by other users of this machine" if others_read else None
    return None


def delete(filename: str, folder: str, *, seen: bool | None = None) -> Fate:
    """Delete a slot file. `seen`: it was seen from here, so that absence means gone; None: if its folder can be."""
    path = readable(folder, filename)
    if path is None:
        return Fate.LEFT
    try:
        path.unlink()
    except FileNotFoundError:
        # One that we never could see lies on another machine.
        return Fate.ABSENT if (is_folder(folder) if seen is None else seen) else Fate.LEFT
    except OSError:
        return Fate.LEFT
    return Fate.DELETED


def named_like_ours(folder: str) -> list[tuple[str, float]]:
    """Return the names of all slot files of ours in a folder, each with the Unix time of its last change."""
    if not Path(folder).is_absolute():
        return []
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.name, entry.stat(follow_symlinks=False).st_mtime)
                for entry in entries
                if re.fullmatch(PATTERN, entry.name) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return []
