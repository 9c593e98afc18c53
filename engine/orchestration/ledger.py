"""The record of what is to be undone, whatever dies, and the undoing of it. Knows a few fixed verbs and no others.

The guardian loads this module and must stay small: no psutil on Linux, nothing that reads settings.
"""

import os
import stat
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from engine import processes
from engine.errors import LedgerError
from engine.processes import Outcome, ProcessId

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
    """A process or thread whose priority we changed from `previous` to `ours` is to get `previous` back."""

    pid: _Pid
    start: int
    name: _Name
    previous: int
    ours: int


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


class _Untrusted(LedgerError):  # noqa: N818 - named after what the file is
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
        """Add what is about to be done; on return it is on the disk."""
        known = self.read()
        self._write([*known, *(entry for entry in entries if entry not in known)])
        if any(persistent(entry) for entry in entries):
            self._see_to_login(needed=True)

    def clear(self, entries: Collection[Entry] | None = None) -> None:
        """Strike what is undone (None: all); without any entry left there is no file."""
        known = self.read()
        left = [entry for entry in known if entries is not None and entry not in entries]
        if left:
            if len(left) < len(known):
                self._write(left)
        else:
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:
                raise LedgerError(f"{self.path}: cannot be deleted: {error.strerror}") from None
        self._see_to_login(needed=any(persistent(entry) for entry in left))

    def read(self) -> tuple[Entry, ...]:
        """Return what is to be undone; of a file from before a restart of the machine only what outlives one."""
        content = self._content()
        if content is None:
            return ()
        try:
            sheet = msgspec.json.decode(content, type=_Sheet)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refuse(f"it is not a ledger: {error}") from None
        same_boot = sheet.boot == processes.boot_id()
        return tuple(entry for entry in sheet.entries if same_boot or persistent(entry))

    def set_aside(self) -> None:
        """Rename a file that was refused, so that work can go on and somebody can look at it."""
        try:
            self.path.replace(self.path.with_name(self.path.name + ".refused"))
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be set aside: {error.strerror}") from None

    def _write(self, entries: list[Entry]) -> None:
        from engine.config.store import write_private  # noqa: PLC0415 - brings a TOML parser the guardian can spare

        try:
            write_private(self.path, msgspec.json.encode(_Sheet(1, processes.boot_id(), entries)))
        except OSError as error:
            raise LedgerError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _see_to_login(self, *, needed: bool) -> None:
        from engine.orchestration import login  # noqa: PLC0415 - logs, which the guardian can spare until the end

        login.see_to(self.path, needed)

    def _content(self) -> bytes | None:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe must not block us
        try:
            descriptor = os.open(self.path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            if self.path.is_symlink():
                raise self._refuse("it is a link") from None
            raise LedgerError(f"{self.path}: cannot be read: {error.strerror}") from None
        try:
            self._check(os.fstat(descriptor))
            content = os.read(descriptor, _LARGEST + 1)
        finally:
            os.close(descriptor)
        if len(content) > _LARGEST:
            raise self._refuse("it is too large")
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

    def _refuse(self, reason: str) -> "_Untrusted":
        return _Untrusted(f"{self.path}: refused and not acted on: {reason}")


def persistent(entry: Entry) -> bool:
    """Tell whether what was done outlives a restart of the machine."""
    return isinstance(entry, UnpauseFolding)


def undo(entries: Collection[Entry]) -> tuple[Undone, ...]:
    """Give back what the entries name, as far as it is still as we left it. Never raises.

    Processes come first: they take no time, the others may wait for an answer.
    """
    return tuple(_undo(entry) for entry in sorted(entries, key=lambda entry: not isinstance(entry, Resume | Renice)))


def _undo(entry: Entry) -> Undone:
    try:
        return _means(entry)(entry)
    except Exception as error:  # noqa: BLE001 - one that fails must not keep the others from being given back
        return Undone(entry, False, f"{type(entry).__name__}: {error!r}")


def get_ready(entries: Collection[Entry]) -> None:
    """Load what undoing and striking these takes: by then the program's folder may be gone. Never raises."""
    for entry in entries:
        if isinstance(entry, Resume | Renice):  # undone by what is here, at the first try
            continue
        with suppress(Exception):
            _means(entry)
            from engine.config import store  # noqa: F401, PLC0415 - for _write()
            from engine.orchestration import login  # noqa: F401, PLC0415 - for _see_to_login()


def _means(entry: Entry) -> Callable[[Any], Undone]:
    """Return what undoes it; a backend is loaded here and not before, since the guardian must stay small."""
    match entry:
        case Resume():
            return _resume
        case Renice():
            return _renice
        case UnpauseFolding():
            from engine.orchestration.backends.folding import undo as unpause  # noqa: PLC0415 - as above

            return unpause
        case RestoreBoinc():
            from engine.orchestration.backends.boinc import undo as end_lease  # noqa: PLC0415 - as above

            return end_lease
        case RestoreMps():
            from engine.orchestration.backends.mps_control import undo as restore  # noqa: PLC0415 - as above

            return restore
        case RestoreGpuClass():
            from engine.orchestration.windows_gpu import undo as restore_class  # noqa: PLC0415 - as above

            return restore_class


def recover(path: Path) -> tuple[str, ...]:
    """Undo and clear what an earlier run left behind; return sentences that say what was done.

    A file that cannot be trusted is set aside. What cannot be given back now stays in the ledger.
    """
    ledger = Ledger(path)
    try:
        undone = undo(ledger.read())
        ledger.clear([one.entry for one in undone if one.settled])
    except _Untrusted as error:
        try:
            ledger.set_aside()
        except LedgerError as further:
            return (str(error), str(further))
        return (f"{error}; it was set aside as {path.name}.refused",)
    except LedgerError as error:
        return (str(error),)
    return tuple(dict.fromkeys(one.sentence for one in undone))


def _resume(entry: Resume) -> Undone:
    outcome = processes.resume(ProcessId(entry.pid, entry.start))
    sentence = {
        Outcome.DONE: f"{entry.name} ({entry.pid}) goes on",
        Outcome.GONE: f"{entry.name} ({entry.pid}) had ended",
        Outcome.DENIED: f"{entry.name} ({entry.pid}) could not be told to go on",
    }[outcome]
    return Undone(entry, outcome is not Outcome.DENIED, sentence)


def _renice(entry: Renice) -> Undone:
    process = ProcessId(entry.pid, entry.start)
    if not processes.alive(process):
        return Undone(entry, True, f"{entry.name} ({entry.pid}) had ended")
    present = processes.nice(entry.pid)
    if present == entry.previous:
        return Undone(entry, True, f"{entry.name} had its priority back")
    if present != entry.ours:
        sentence = f"{entry.name} ({entry.pid}) was given priority {present} by somebody else, and keeps it"
        return Undone(entry, True, sentence)
    if processes.renice(process, entry.previous) is Outcome.DENIED:
        return Undone(entry, False, f"{entry.name} ({entry.pid}) could not be given its priority back")
    return Undone(entry, True, f"{entry.name} has its priority back")
