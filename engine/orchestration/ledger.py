"""The record of what is to be undone, whatever dies. Knows a few fixed verbs and no others.

The guardian loads this module and must stay small: no psutil on Linux, nothing that reads settings.
"""

import errno
import os
import stat
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from engine import processes
from engine.config.sharing import once_free
from engine.errors import LedgerError

_LARGEST = 1 << 20  # bytes; a job of a thousand threads stays below
_Pid = Annotated[int, msgspec.Meta(ge=2, le=1 << 31)]  # 0, 1 and negative numbers mean more than one process
_Name = Annotated[str, msgspec.Meta(max_length=255)]
_Address = Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]
_Path = Annotated[str, msgspec.Meta(max_length=4096)]
_Percent = Annotated[float, msgspec.Meta(ge=0.0, le=100.0)]


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="resume"):
    """A process that we stopped is to go on."""

    pid: _Pid
    start: int
    name: _Name


class Renice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="renice"):
    """A process or thread whose priority we changed from `previous` to `ours` is to get `previous` back.

    `since`: when, as `start` counts; what it has started later was born with ours and is to get `previous`, too.
    """

    pid: _Pid
    start: int
    name: _Name
    previous: int
    ours: int
    since: int = 0


class UnpauseFolding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="unpause_folding"):
    """A group of the Folding@home client at `url` that we paused is to fold again, or to go on finishing its units.

    The client writes a pause down, so it outlives a restart of the machine, and so does this entry.
    """

    url: _Address
    group: _Name
    finish: bool


class RestoreBoinc(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="restore_boinc"):
    """The BOINC client's GPU mode for a while is to end; it ends by itself, too, so it is of this boot only."""

    address: _Address
    password_file: _Path


class RestoreMps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="restore_mps"):
    """The MPS daemon's percentage that we changed from `previous` to `ours` is to be `previous` again."""

    pipe_directory: _Path
    previous: _Percent
    ours: _Percent


class RestoreGpuClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="restore_gpu_class"):
    """A process whose scheduling class of the card we changed on Windows from `previous` to `ours` gets it back."""

    pid: _Pid
    start: int
    name: _Name
    previous: int
    ours: int


Entry = Resume | Renice | UnpauseFolding | RestoreBoinc | RestoreMps | RestoreGpuClass


class Untrusted(LedgerError):  # noqa: N818 - named after what the file is
    """The file is there and is not to be believed, so it may be set aside; a disk in trouble is something else."""


class _Sheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    boot: str
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of one entry. `settled`: there is nothing left to undo; `sentence` says so for people."""

    entry: Entry
    settled: bool
    sentence: str


class Ledger:
    """The file itself. Every method may raise LedgerError, which names the path and what is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def record(self, entries: Collection[Entry]) -> None:
        """Add what is about to be done; on return it is on the disk, and will be believed."""
        known = self.read()
        content = self._sheet(list(dict.fromkeys((*known, *entries))))
        self._parse(content)  # now, and not when it has replaced what is believed
        self._write(content)
        if self._content() != content:
            raise LedgerError(f"{self.path}: does not keep what is written there")
        if any(persistent(entry) for entry in entries):
            self._see_to_login(needed=True)

    def clear(self, entries: Collection[Entry] | None = None) -> None:
        """Strike what is undone (None: all); without any entry left there is no file."""
        known = self.read()
        struck = set(known if entries is None else entries)
        left = [entry for entry in known if entry not in struck]
        if left:
            if len(left) < len(known):
                self._write(self._sheet(left))
        else:
            try:
                once_free(lambda: self.path.unlink(missing_ok=True))
            except OSError as error:
                raise LedgerError(f"{self.path}: cannot be deleted: {error.strerror}") from None
        self._see_to_login(needed=any(persistent(entry) for entry in left))

    def read(self) -> tuple[Entry, ...]:
        """Return what is to be undone; of a file from before a restart of the machine only what outlives one."""
        content = self._content()
        if content is None:
            return ()
        sheet = self._parse(content)
        same_boot = sheet.boot == self._boot()
        return tuple(entry for entry in sheet.entries if same_boot or persistent(entry))

    def set_aside(self) -> None:
        """Rename a file that was refused, so that work can go on and somebody can look at it."""
        try:
            once_free(lambda: self.path.replace(self.path.with_name(self.path.name + ".refused")))
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be set aside: {error.strerror}") from None

    def _sheet(self, entries: list[Entry]) -> bytes:
        return msgspec.json.encode(_Sheet(1, self._boot(), entries))

    def _parse(self, content: bytes) -> _Sheet:
        if len(content) > _LARGEST:
            raise self._refuse("it is too large")
        try:
            return msgspec.json.decode(content, type=_Sheet)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refuse(f"it is not a ledger: {error}") from None

    def _write(self, content: bytes) -> None:
        from engine.config.store import write_private  # noqa: PLC0415 - brings a TOML parser the guardian can spare

        try:
            write_private(self.path, content)
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _boot(self) -> str:
        boot = processes.boot_id()
        if not boot and sys.platform == "linux":  # then all entries would pass for those of an earlier one
            raise LedgerError(f"{self.path}: cannot be told from one of an earlier boot: /proc cannot be read")
        return boot

    def _see_to_login(self, *, needed: bool) -> None:
        from engine.orchestration import login  # noqa: PLC0415 - logs, which the guardian can spare until the end

        login.see_to(self.path, needed)

    def _content(self) -> bytes | None:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not block us
        try:
            descriptor = os.open(self.path, flags)
            try:
                self._check(os.fstat(descriptor))
                content = os.read(descriptor, _LARGEST + 1)
            finally:
                os.close(descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._refuse("it is a link") from None
            raise LedgerError(f"{self.path}: cannot be read: {error.strerror}") from None
        return content

    def _check(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise self._refuse("it is not a regular file")
        if found.st_nlink != 1:
            raise self._refuse("it has more than one link")
        if sys.platform == "win32":
            return
        if found.st_uid != os.geteuid():
            raise self._refuse("it belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise self._refuse("others may write it")

    def _refuse(self, reason: str) -> Untrusted:
        return Untrusted(f"{self.path}: refused and not acted on: {reason}")


def persistent(entry: Entry) -> bool:
    """Tell whether what was done outlives a restart of the machine."""
    return isinstance(entry, UnpauseFolding)
