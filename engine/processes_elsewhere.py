"""The half of processes.py for Windows and macOS, through psutil; untested there. The same names mean the same."""

import os
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import psutil

from engine.process_types import Look, Outcome, ProcessId

_LETTERS = {psutil.STATUS_RUNNING: "R", psutil.STATUS_STOPPED: "T", psutil.STATUS_ZOMBIE: "Z"}
_REFUSED = (psutil.Error, OSError)  # psutil passes on what Windows says and psutil does not know


def _identity(one: psutil.Process) -> ProcessId:
    return ProcessId(one.pid, int(_start(one) * 100))


def _start(one: psutil.Process) -> float:
    """Return when it started. On a Mac psutil moves that along when the clock is set; what is held must stay itself."""
    if sys.platform == "darwin":
        with suppress(AttributeError, TypeError):  # an older psutil, which does not move it
            return float(one._proc.create_time(monotonic=True))  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    return one.create_time()


def boot_id() -> str:
    """Return nothing: `ProcessId.start` alone tells boots apart here."""
    return ""


def pids() -> list[int]:
    """List the processes that can be seen."""
    return psutil.pids()


def around(numbers: Collection[int]) -> list[int]:
    """List these and all their descendants: to read other processes would take long here."""
    found = dict.fromkeys(numbers)
    for pid in numbers:
        with suppress(*_REFUSED):
            found |= dict.fromkeys(child.pid for child in psutil.Process(pid).children(recursive=True))
    return list(found)


def examine(pid: int) -> Look | None:
    """Read one process; None if it is gone. Raises OSError where that cannot be told."""
    try:
        with (one := psutil.Process(pid)).oneshot():
            # Windows refuses this one at once, and the others of the same process only after a long search.
            priority = int(one.nice())
            letter = _LETTERS.get(one.status(), "S")
            return Look(_identity(one), one.name(), letter, one.ppid(), priority)
    except psutil.NoSuchProcess:
        return None
    except psutil.Error as error:
        raise PermissionError(str(error)) from None


def replaced(process: ProcessId) -> bool:
    """Tell whether its number is another's by now: when a process started may be known of any."""
    return not threads(process)


def under_job_control(pid: int) -> bool:
    """Tell whether a shell at a terminal looks after it; False where that cannot be told."""
    if sys.platform == "win32":
        return False
    with suppress(*_REFUSED):
        return psutil.Process(pid).terminal() is not None and os.getpgid(pid) != os.getsid(pid)
    return False


def threads(process: ProcessId) -> tuple[ProcessId, ...]:
    """Return the process alone: state and priority belong to the whole here."""
    with suppress(*_REFUSED):
        return (process,) if _identity(psutil.Process(process.pid)) == process else ()
    return ()


def now() -> int:
    """Return the time as `ProcessId.start` counts it."""
    return int(time.time() * 100)


def age(process: ProcessId) -> float:
    """Return how many seconds ago it started."""
    return time.time() - process.start / 100


def command_line(pid: int) -> tuple[str, ...] | None:
    """Return the arguments a process was started with; None: not readable."""
    with suppress(*_REFUSED):
        return tuple(psutil.Process(pid).cmdline())
    return None


def environment(pid: int) -> dict[str, str] | None:
    """Return the environment a process was started with; None: not readable."""
    with suppress(*_REFUSED):
        return psutil.Process(pid).environ()
    return None


def working_folder(pid: int) -> str | None:
    """Return the folder from which the relative paths of a process count; None: not readable."""
    with suppress(*_REFUSED):
        return psutil.Process(pid).cwd()
    return None


def listener(port: int) -> int | None:
    """Return the process that listens on this TCP port of this machine, if it may be known."""
    try:
        found = psutil.net_connections("tcp")
    except _REFUSED:
        return None
    matching = (one for one in found if getattr(one.laddr, "port", None) == port)
    return next((one.pid for one in matching if one.status == psutil.CONN_LISTEN), None)


def has_card(pid: int) -> bool:
    """Return False: there is nothing here that would tell."""
    del pid
    return False


def _act(process: ProcessId, action: Callable[[psutil.Process], object]) -> Outcome:
    try:
        one = psutil.Process(process.pid)
        if _identity(one) != process:
            return Outcome.GONE
        action(one)
    except psutil.NoSuchProcess:
        return Outcome.GONE
    except _REFUSED:
        return Outcome.DENIED
    return Outcome.DONE


def suspend(process: ProcessId) -> Outcome:
    """Stop this very process."""
    return _act(process, lambda one: one.suspend())


def resume(process: ProcessId) -> Outcome:
    """Let this very process go on."""
    return _act(process, lambda one: one.resume())


def may_suspend(process: ProcessId) -> bool:
    """Tell whether this user may stop it, judged by a question that asks for like rights."""
    return _act(process, lambda one: one.environ()) is Outcome.DONE


def renice(process: ProcessId, value: int) -> Outcome:
    """Set the nice value (Windows: priority class) of this very process."""
    return _act(process, lambda one: one.nice(value))


def may_restore(process: ProcessId, value: int) -> bool:
    """Tell whether this user may set `value` again: on Windows always, elsewhere as root."""
    del process, value
    return sys.platform == "win32" or os.geteuid() == 0
