"""The file that lists saved contexts: its format, and how it is read and written. It judges nothing.

Beside it lies, while a context goes into the server, a note of which: a server can end over one, and we with it.
"""

import logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from engine.client.slot_files import PATTERN, named_like_ours
from engine.config.store import write_private

log = logging.getLogger(__name__)

FORMAT = 1
_FOLDER = re.compile(rb'"folder":("(?:[^"\\]|\\.)*")')

Name = Annotated[str, msgspec.Meta(pattern=PATTERN)]  # no other file is ever deleted


class SavedContext(msgspec.Struct, frozen=True, kw_only=True):
    """One saved context, as the server confirmed it.

    `model`: identity of the weights; `size` in bytes; `stamp`: the file's (inode, mtime in ns) when its `digest` was
    taken, None where the file cannot be read from here; `saved_at` in Unix seconds.
    """

    filename: Name
    folder: str
    slot: int
    tokens: int
    size: int
    stamp: tuple[int, int] | None
    digest: str | None
    server: str
    model: str
    build: str | None
    n_ctx: int | None
    total_slots: int | None
    cache_types: str
    saved_at: float
    format: int = FORMAT


class SlotFile(msgspec.Struct, frozen=True):
    """A file of ours that is not to be given back. `at`: Unix seconds from which its age counts."""

    filename: Name
    folder: str
    at: float


class Cost(msgspec.Struct, frozen=True):
    """What the last save of a model took: bytes, and seconds that it held the server. `at` in Unix seconds."""

    tokens: int
    size: int
    seconds: float
    at: float


class Index(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What the file holds.

    `begun`: files that were to be written, until it is known what became of them. `left`: those that could not be
    deleted. `useless`: restores in a row that gained nothing. `ended`: how often a restore from there ended the server,
    since one was answered. `distrusted`: where that were files that cannot be checked from here. `written`: bytes on
    the day `written_on`.
    """

    contexts: list[SavedContext] = []
    begun: list[SlotFile] = []
    left: list[SlotFile] = []
    useless: dict[str, int] = {}
    ended: dict[str, int] = {}
    distrusted: list[str] = []
    costs: dict[str, Cost] = {}
    written_on: str = ""
    written: int = 0


class IndexFile:
    """One small file of this user. `path`: where it lies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._aside = path.with_name(f"{path.name}.broken")
        self._note = path.with_name(f"{path.name}.restoring")
        self._broken = self._unwritable = False

    def read(self) -> Index:
        """Return what it holds; where it cannot be used, what lies in the folders that it names."""
        content = b""
        try:
            if self._path.is_file() or not self._path.exists():
                content = self._path.read_bytes()
                return msgspec.json.decode(content, type=Index)
            reason = "it is no file"  # a pipe would never end
        except FileNotFoundError:
            return Index()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error)
            self._broken = True
        log.warning("%s cannot be used, so no saved context is known: %s", self._path, reason)
        return Index(
            begun=[SlotFile(name, folder, at) for folder in _folders(content) for name, at in named_like_ours(folder)]
        )

    def write(self, index: Index) -> None:
        """Replace it; what could not be used is set aside first."""
        try:
            if self._broken:
                self._path.replace(self._aside)
                self._broken = False
                log.info("%s was kept as %s", self._path, self._aside.name)
            write_private(self._path, msgspec.json.encode(index))
        except OSError as error:
            if not self._unwritable:
                log.warning("%s cannot be written; contexts saved now are forgotten at the end: %s", self._path, error)
            self._unwritable = True

    def folders_beside(self) -> list[str]:
        """Return the folder of `zat-scs serve`, and those that a list which was set aside names."""
        own = str(self._path.absolute().with_name("slots"))
        try:
            return [own, *_folders(self._aside.read_bytes())]
        except OSError:
            return [own]

    def delete_broken(self) -> None:
        """Delete what was set aside."""
        with suppress(OSError):
            self._aside.unlink(missing_ok=True)

    def note(self, saved: SavedContext) -> None:
        """Note that this one goes into the server now.

        Not synced, for a person waits for the restore: it outlives the end of this program, not of the machine's power.
        """
        try:
            descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(SlotFile(saved.filename, saved.folder, saved.saved_at)))
        except OSError as error:
            log.debug("not noted what is restored: %s", error)

    def noted(self) -> SlotFile | None:
        """Return what went into the server when this program ended."""
        try:
            return msgspec.json.decode(self._note.read_bytes(), type=SlotFile)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def clear_note(self) -> None:
        """Note that the server has outlived it."""
        with suppress(OSError):
            self._note.unlink(missing_ok=True)


def _folders(content: bytes) -> list[str]:
    """Return the folders that an index names which cannot be decoded as a whole."""
    found: dict[str, None] = {}
    for match in _FOLDER.finditer(content):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found[msgspec.json.decode(match[1], type=str)] = None
    return list(found)
