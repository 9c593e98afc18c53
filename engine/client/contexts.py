"""Which contexts were saved, and which of them may be given back to this very server. Talks to no server.

A server checks almost nothing of a slot file: a short one ends it, another fine-tune's is taken silently, and a refused
one leaves the slot empty. So everything is checked here, before it is asked.
"""

import hashlib
import logging
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from engine.client.view import Facts, readable
from engine.config.store import write_private

log = logging.getLogger(__name__)

FORMAT = 1
DAILY_BYTES = 10_000_000_000  # written a day at most: slot files are large, and disks wear
GROWN_TOKENS = 256
GROWN_SHARE = 1.1
USELESS_AFTER = 2  # restores in a row after which the next prompt re-used nothing

Name = Annotated[str, msgspec.Meta(pattern=r"^zat-scs-[0-9a-f]{12}-[ab]\.bin$")]  # no other file is ever deleted


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


class _Begun(msgspec.Struct, frozen=True):
    """A file that was to be written, until it is known what became of it."""

    filename: Name
    folder: str
    at: float


class _Index(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    contexts: list[SavedContext] = []
    begun: list[_Begun] = []
    useless: dict[str, int] = {}
    written_on: str = ""
    written: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """What a slot file looks like on disk."""

    size: int
    stamp: tuple[int, int]
    digest: str


class Contexts:
    """The index of saved contexts: one small file of this user. `path`: where it lies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritable = False
        self._index = self._read()

    def best(self, facts: Facts, server: str) -> SavedContext | None:
        """Return the newest context of this server's model; whether it fits is another question."""
        return next(iter(self._all_of(facts, server)), None)

    def fitting(self, facts: Facts, server: str) -> tuple[SavedContext | None, str]:
        """Return the newest context that fits, or None and why not."""
        reasons = []
        for saved in self._all_of(facts, server):
            reason = misfit(saved, facts)
            if reason is None:
                return saved, ""
            reasons.append(reason)
        return None, f"the saved context does not fit: {reasons[0]}" if reasons else "nothing was saved yet"

    def next_name(self, facts: Facts, server: str) -> str:
        """Return the name to save under: never that of the newest that fits, so that a good one always remains."""
        stem = f"zat-scs-{hashlib.blake2b(f'{server} {model_key(facts)}'.encode(), digest_size=6).hexdigest()}"
        good, _ = self.fitting(facts, server)
        return f"{stem}-b.bin" if good is not None and good.filename == f"{stem}-a.bin" else f"{stem}-a.bin"

    def worth_saving(self, last: SavedContext | None, tokens: int, before: int | None) -> bool:
        """Tell whether a slot that holds `tokens` now, and held `before` a turn ago, is worth writing.

        A shorter one than the last save is another conversation, or a program's short call: it must last two turns.
        """
        if last is None:
            return tokens > 0
        if tokens < last.tokens:
            return before is not None and before < last.tokens and tokens > before
        return tokens >= last.tokens + GROWN_TOKENS or tokens >= last.tokens * GROWN_SHARE

    def may_write(self, size: int, wall: float) -> bool:
        """Tell whether `size` bytes are still within the day's budget."""
        written = self._index.written if self._index.written_on == _day(wall) else 0
        return written + size <= DAILY_BYTES

    def begin(self, filename: str, folder: str, wall: float) -> None:
        """Forget a name before its file is overwritten: if that fails half-way, nobody may trust the file."""
        self._forget_name(filename, folder)
        self._index.begun.append(_Begun(filename, folder, wall))
        self._write()

    def add(self, saved: SavedContext) -> None:
        """Take in a context that the server has written."""
        self._forget_name(saved.filename, saved.folder)
        day = _day(saved.saved_at)
        if self._index.written_on != day:
            self._index.written_on, self._index.written = day, 0
        self._index.written += saved.size
        self._index.contexts.append(saved)
        self._write()

    def discard(self, filename: str, folder: str) -> None:
        """Forget what was begun and is of no use, and delete its file."""
        self._forget_name(filename, folder)
        _delete(filename, folder)
        self._write()

    def drop(self, saved: SavedContext) -> None:
        """Forget a context that turned out not to be usable, and delete its file."""
        self.discard(saved.filename, saved.folder)

    def expire(self, before: float) -> int:
        """Delete the contexts saved before this Unix time; return how many."""
        old = [(saved.filename, saved.folder) for saved in self._index.contexts if saved.saved_at < before]
        unfinished = [(begun.filename, begun.folder) for begun in self._index.begun if begun.at < before]
        for filename, folder in (*old, *unfinished):
            self.discard(filename, folder)
        return len(old)

    def forget(self) -> tuple[int, tuple[str, ...]]:
        """Delete all; return how many, and the files that could not be deleted from here."""
        everything = list(self._index.contexts)
        left = tuple(
            str(Path(saved.folder, saved.filename))
            for saved in everything
            if not _delete(saved.filename, saved.folder, known=saved.stamp is not None)
        )
        for begun in self._index.begun:
            _delete(begun.filename, begun.folder)
        self._index = _Index(written_on=self._index.written_on, written=self._index.written)
        self._write()
        return len(everything) - len(left), left

    def judge(self, facts: Facts, *, useful: bool) -> bool:
        """Book whether the prompt after a restore re-used anything; return whether restoring has ended for it."""
        key = _useless_key(facts)
        count = 0 if useful else self._index.useless.get(key, 0) + 1
        if count != self._index.useless.get(key, 0):
            self._index.useless[key] = count
            self._write()
        return count >= USELESS_AFTER

    def useless(self, facts: Facts) -> bool:
        """Tell whether restoring has ended for this model and build, since it gained nothing."""
        return self._index.useless.get(_useless_key(facts), 0) >= USELESS_AFTER

    def _all_of(self, facts: Facts, server: str) -> list[SavedContext]:
        """Return the contexts of this server's model, newest first: by their order, since clocks are set back."""
        key = model_key(facts)
        return [saved for saved in reversed(self._index.contexts) if saved.model == key and saved.server == server]

    def _forget_name(self, filename: str, folder: str) -> None:
        name, index = (filename, folder), self._index
        index.contexts = [saved for saved in index.contexts if (saved.filename, saved.folder) != name]
        index.begun = [begun for begun in index.begun if (begun.filename, begun.folder) != name]

    def _read(self) -> _Index:
        try:
            if self._path.is_file() or not self._path.exists():
                return msgspec.json.decode(self._path.read_bytes(), type=_Index)
            reason = "it is no file"  # a pipe would never end
        except FileNotFoundError:
            return _Index()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error)
        log.warning("%s cannot be read, so no saved context is known: %s", self._path, reason)
        return _Index()

    def _write(self) -> None:
        try:
            write_private(self._path, msgspec.json.encode(self._index))
        except OSError as error:
            if not self._unwritable:
                log.warning("%s cannot be written; contexts saved now are forgotten at the end: %s", self._path, error)
            self._unwritable = True


def misfit(saved: SavedContext, facts: Facts) -> str | None:
    """Say why this context must not be given to this server; None if it fits. Reads the file where it can."""
    checks = (
        (saved.format != FORMAT, "it was saved by another version of this program"),
        (saved.build != facts.build, "the server is another build now"),
        (saved.total_slots != facts.total_slots, "the server was started with another number of slots"),
        (saved.cache_types != facts.cache_types, "the server was started with other cache types"),
        (facts.n_ctx is not None and saved.tokens >= facts.n_ctx, "it is longer than the server's context now"),
        (saved.folder != (facts.save_path or ""), "the server keeps its slots in another folder now"),
    )
    return next((reason for wrong, reason in checks if wrong), None) or _damage(saved)


def _damage(saved: SavedContext) -> str | None:
    path = readable(saved.folder, saved.filename)
    if path is None:
        return None
    try:
        status = path.stat()
        if status.st_size != saved.size:
            return "its file is cut short or grew"
        if saved.stamp not in (None, _stamp(status)) and measure(path).digest != saved.digest:
            return "its file has changed"
    except OSError as error:
        # One that we never could see was measured by the server itself, and we did not overwrite it since.
        return None if saved.stamp is None else f"its file cannot be read: {error.strerror}"
    return None


def model_key(facts: Facts) -> str:
    """Return what tells one set of weights from another: path, and size and time where the file can be seen."""
    name = f"{facts.model or ''} {facts.model_path or ''}"
    try:
        status = Path(facts.model_path or "").stat()
    except OSError:
        return name
    return f"{name} {status.st_size} {status.st_mtime_ns}" if stat.S_ISREG(status.st_mode) else name


def measure(path: Path) -> Written:
    """Return size, stamp and digest of a slot file. Raises OSError."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    return Written(status.st_size, _stamp(status), digest)


def make_private(path: Path) -> str | None:
    """Take a slot file away from others where we may; return a warning where others can read it."""
    try:
        path.chmod(0o600)
    except OSError:
        try:
            readable = path.stat().st_mode & 0o044
        except OSError:
            return None
        return f"{path} can be read by other users of this machine" if readable else None
    return None


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_ino, status.st_mtime_ns


def _delete(filename: str, folder: str, *, known: bool = True) -> bool:
    """Delete a slot file; return whether it is gone. `known`: it was seen from here, so that absence means gone."""
    path = readable(folder, filename)
    try:
        if path is not None:
            path.unlink()
    except FileNotFoundError:
        return known  # one that we never could see lies on another machine
    except OSError:
        return False
    return path is not None


def _useless_key(facts: Facts) -> str:
    return f"{model_key(facts)} {facts.build}"


def _day(wall: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(wall))
