"""Windows' scheduling class of the card for a process: lowered while it is held, and given back.

What it does to work under CUDA is unmeasured; it needs no rights for a process of the same user.
"""

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration.backends.grips import FOREIGN, LeftAlone
from engine.orchestration.ledger import Entry, RestoreGpuClass, Undone
from engine.processes import Outcome, ProcessId

IDLE = 0  # the lowest of D3DKMT_SCHEDULINGPRIORITYCLASS; 2 is normal, 5 real time


class Calls(Protocol):
    """The four calls of the system. A status of 0 means that it was done."""

    def open(self, pid: int) -> int:
        """Return a handle that may ask for and set the class, 0 if it is denied."""

    def close(self, handle: int) -> None:
        """Close it."""

    def get(self, handle: int) -> tuple[int, int]:
        """Return status and class."""

    def set(self, handle: int, value: int) -> int:
        """Set the class and return the status."""


class GpuClassGrip:
    """A grip beside the lowered priority. `record`: makes the ledger's entry of pid, start, name, previous and ours."""

    words = "in the lowest scheduling class of the card, the effect of which is unmeasured"

    def __init__(self, record: Callable[[int, int, str, int, int], Entry], calls: Calls | None = None) -> None:
        self._record = record
        self._calls = calls or system_calls()

    def check(self) -> None:
        """Accept: the same user may always set the class again."""

    def targets(self, worker: ProcessId) -> tuple[ProcessId, ...]:
        """Return the process: it has its class as a whole."""
        return (worker,)

    def plan(self, target: ProcessId, worker: ProcessId, held: Collection[Entry]) -> Entry | LeftAlone | None:
        """Leave alone what is in the lowest class by itself, or whose class cannot be read or set."""
        del worker, held
        seen = processes.look(target.pid)
        if seen is None or seen.process != target:
            return None
        previous = self._read(target)
        if previous is None:
            return LeftAlone("its scheduling class of the card cannot be read", free=True)
        if previous == IDLE:
            return LeftAlone("it was already in the lowest scheduling class of the card", free=False)
        if _set(self._calls, target, previous) is not Outcome.DONE:
            return LeftAlone(FOREIGN, free=True)
        return self._record(target.pid, target.start, seen.name, previous, IDLE)

    def act(self, target: ProcessId) -> Outcome:
        """Lower it."""
        return _set(self._calls, target, IDLE)

    def holds(self, target: ProcessId) -> bool:
        """Tell by reading the class back: a call may succeed and change nothing."""
        return self._read(target) == IDLE

    def _read(self, target: ProcessId) -> int | None:
        with _opened(self._calls, target) as handle:
            return _class_of(self._calls, handle) if handle else None


def restore(process: ProcessId, name: str, previous: int, ours: int, *, calls: Calls | None = None) -> tuple[bool, str]:
    """Give the class back if it is still ours; return whether nothing is left to undo, and a sentence for people."""
    if not processes.alive(process):
        return True, f"{name} ({process.pid}) had ended"
    calls = calls or system_calls()
    with _opened(calls, process) as handle:
        present = _class_of(calls, handle) if handle else None
        if present == previous:
            return True, f"{name} had its scheduling class of the card back"
        if present not in (ours, None):
            return True, f"{name} ({process.pid}) was given class {present} of the card by somebody else, and keeps it"
        if handle and calls.set(handle, previous) == 0 and _class_of(calls, handle) == previous:
            return True, f"{name} has its scheduling class of the card back"
    return False, f"{name} ({process.pid}) could not be given its scheduling class of the card back"


def undo(entry: RestoreGpuClass) -> Undone:
    """Give the class back that the ledger names."""
    return Undone(entry, *restore(ProcessId(entry.pid, entry.start), entry.name, entry.previous, entry.ours))


@contextmanager
def _opened(calls: Calls, process: ProcessId) -> Iterator[int]:
    """Open first, compare then: what is open cannot turn into another process. 0: denied or gone."""
    handle = calls.open(process.pid)
    try:
        yield handle if handle and processes.alive(process) else 0
    finally:
        if handle:
            calls.close(handle)


def _class_of(calls: Calls, handle: int) -> int | None:
    status, value = calls.get(handle)
    return value if status == 0 else None


def _set(calls: Calls, process: ProcessId, value: int) -> Outcome:
    with _opened(calls, process) as handle:
        if handle and calls.set(handle, value) == 0:
            return Outcome.DONE
    return Outcome.DENIED if processes.alive(process) else Outcome.GONE


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _RIGHTS = 0x0200 | 0x0400  # PROCESS_SET_INFORMATION, PROCESS_QUERY_INFORMATION

    class _Gdi:
        """The calls themselves. Untested: nobody has run this on Windows yet."""

        def __init__(self) -> None:
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
            self._kernel.OpenProcess.restype = wintypes.HANDLE
            self._kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
            gdi = ctypes.WinDLL("gdi32")
            self._get = gdi.D3DKMTGetProcessSchedulingPriorityClass
            self._get.argtypes = (wintypes.HANDLE, ctypes.POINTER(ctypes.c_int))
            self._set = gdi.D3DKMTSetProcessSchedulingPriorityClass
            self._set.argtypes = (wintypes.HANDLE, ctypes.c_int)
            self._get.restype = self._set.restype = ctypes.c_long  # NTSTATUS

        def open(self, pid: int) -> int:
            return int(self._kernel.OpenProcess(_RIGHTS, False, pid) or 0)

        def close(self, handle: int) -> None:
            self._kernel.CloseHandle(handle)

        def get(self, handle: int) -> tuple[int, int]:
            value = ctypes.c_int(-1)
            return self._get(handle, ctypes.byref(value)), value.value

        def set(self, handle: int, value: int) -> int:
            return int(self._set(handle, value))

    def system_calls() -> Calls:
        """Return the calls of this system. Raises BackendUnavailable where it is too old to have them."""
        try:
            return _Gdi()
        except (OSError, AttributeError) as error:
            raise BackendUnavailable(f"this Windows has no scheduling class of the card: {error}") from None

else:

    def system_calls() -> Calls:
        """Raise BackendUnavailable: only Windows has such a class."""
        raise BackendUnavailable("only Windows has a scheduling class of the card")
