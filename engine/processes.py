"""The only door to psutil and /proc: what is known of a process, and the few things done to one. Decides nothing.

None and False mean "gone or not readable". Windows and macOS go through psutil, untested.
"""

import enum
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

LOWEST = 64 if sys.platform == "win32" else 19  # IDLE_PRIORITY_CLASS there
CARDS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD", "/dev/dxg")  # how the files of graphics cards begin


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process or thread of this boot, told apart from a later one with the same number.

    `start`: field 22 of /proc/PID/stat on Linux (clock ticks since boot), else hundredths of a Unix second.
    """

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Look:
    """What one reading showed. `state`: the kernel's letter (R, S, D, T, t, Z, …); `name` is cut at 15 characters."""

    process: ProcessId
    name: str
    state: str
    parent: int
    nice: int


class Outcome(enum.Enum):
    """What became of something done to a process."""

    DONE = "done"
    GONE = "gone"  # it ended, or another process has its number now
    DENIED = "denied"


def state(pid: int) -> str | None:
    """Return the kernel's letter for the state of a process, None if it is gone."""
    seen = look(pid)
    return seen.state if seen else None


def nice(pid: int) -> int | None:
    """Return the nice value (Windows: priority class) of a process or thread, None if it is gone."""
    seen = look(pid)
    return seen.nice if seen else None


def alive(process: ProcessId) -> bool:
    """Tell whether this very process is still there and not only waiting to be reaped."""
    seen = look(process.pid)
    return seen is not None and seen.process == process and seen.state not in "ZXx"


def stopped(process: ProcessId) -> bool:
    """Tell whether every thread of this very process stands still: a thread inside a driver stops late."""
    seen = [look(thread.pid) for thread in threads(process)]
    return bool(seen) and all(one is None or one.state in "TtZXx" for one in seen)


if sys.platform == "linux":
    import resource
    from collections.abc import Iterator

    def _read(path: str) -> bytes | None:
        with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - takes half as long as a Path
            return file.read()
        return None

    def _numbers(folder: str) -> list[int]:
        with suppress(OSError), os.scandir(folder) as entries:
            return [int(entry.name) for entry in entries if entry.name.isdigit()]
        return []

    def _open_files(pid: int) -> Iterator[str]:
        for number in _numbers(f"/proc/{pid}/fd"):
            with suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115 - may be no path of the disk

    def boot_id() -> str:
        """Return what tells this boot from all others."""
        return (_read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()

    def pids() -> list[int]:
        """List the processes that can be seen."""
        return _numbers("/proc")

    def look(pid: int) -> Look | None:
        """Read one process or thread; None if it is gone."""
        head, bracket, tail = (_read(f"/proc/{pid}/stat") or b"").rpartition(b")")
        if not bracket:
            return None
        fields = tail.split()
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return Look(ProcessId(pid, int(fields[19])), name, fields[0].decode(), int(fields[1]), int(fields[16]))

    def threads(process: ProcessId) -> tuple[ProcessId, ...]:
        """List the threads of this very process; on Linux each has a priority of its own."""
        seen = [look(number) for number in _numbers(f"/proc/{process.pid}/task")]
        return tuple(one.process for one in seen if one) if alive(process) else ()

    def age(process: ProcessId) -> float:
        """Return how many seconds ago it started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK")

    def command_line(pid: int) -> tuple[str, ...] | None:
        """Return the arguments a process was started with, empty for a kernel thread; None: not readable."""
        content = _read(f"/proc/{pid}/cmdline")
        if content is None:
            return None
        return tuple(os.fsdecode(part) for part in content.removesuffix(b"\0").split(b"\0") if content)

    def environment(pid: int) -> dict[str, str] | None:
        """Return the environment a process was started with; None: not readable."""
        content = _read(f"/proc/{pid}/environ")
        parts = (os.fsdecode(part).partition("=") for part in (content or b"").split(b"\0") if part)
        return None if content is None else {name: value for name, _, value in parts}

    def listener(port: int) -> int | None:
        """Return the process that listens on this TCP port of this machine, if it may be known."""
        sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening(table, port)}
        candidates = pids() if sockets else []
        return next((pid for pid in candidates if not sockets.isdisjoint(_open_files(pid))), None)

    def has_card(pid: int) -> bool:
        """Tell whether a process has a graphics card open; False also where that may not be known."""
        return any(name.startswith(CARDS) for name in _open_files(pid))

    def _listening(table: str, port: int) -> Iterator[str]:
        for line in (_read(f"/proc/net/{table}") or b"").decode("ascii", "replace").splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]

    def _signal(process: ProcessId, number: int) -> Outcome:
        """Open first, compare then: what is open cannot turn into another process."""
        try:
            descriptor = os.pidfd_open(process.pid)
            try:
                if not alive(process):
                    return Outcome.GONE
                signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        except ProcessLookupError:
            return Outcome.GONE
        except OSError:
            return Outcome.DENIED
        return Outcome.DONE

    def suspend(process: ProcessId) -> Outcome:
        """Stop this very process."""
        return _signal(process, signal.SIGSTOP)

    def resume(process: ProcessId) -> Outcome:
        """Let this very process go on; a stop still on its way is taken back, too."""
        return _signal(process, signal.SIGCONT)

    def may_suspend(process: ProcessId) -> bool:
        """Tell whether this user may stop it."""
        return _signal(process, 0) is Outcome.DONE

    def renice(process: ProcessId, value: int) -> Outcome:
        """Set the nice value of this very process or thread."""
        if not alive(process):  # a pidfd would not help: setpriority takes the number
            return Outcome.GONE
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, value)
        except ProcessLookupError:
            return Outcome.GONE
        except OSError:
            return Outcome.DENIED
        return Outcome.DONE

    def may_restore(process: ProcessId, value: int) -> bool:
        """Tell whether this user may set `value` again once the process has a lower priority."""
        try:
            limit = resource.prlimit(process.pid, resource.RLIMIT_NICE)[0]  # the kernel asks the target's limit
        except OSError:
            limit = 0
        return limit == resource.RLIM_INFINITY or 20 - value <= limit or _may_raise_any()

    def _may_raise_any() -> bool:
        """Try it on a short-lived thread: inside a container the capability may be there and mean nothing."""
        allowed = threading.Event()

        def attempt() -> None:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -20)
                allowed.set()

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
        return allowed.is_set()

else:
    from collections.abc import Callable

    import psutil

    _LETTERS = {psutil.STATUS_RUNNING: "R", psutil.STATUS_STOPPED: "T", psutil.STATUS_ZOMBIE: "Z"}
    _REFUSED = (psutil.Error, OSError)  # psutil passes on what Windows says and psutil does not know

    def _identity(one: psutil.Process) -> ProcessId:
        return ProcessId(one.pid, int(one.create_time() * 100))

    def boot_id() -> str:
        """Return nothing: `ProcessId.start` alone tells boots apart here."""
        return ""

    def pids() -> list[int]:
        """List the processes that can be seen."""
        return psutil.pids()

    def look(pid: int) -> Look | None:
        """Read one process; None if it is gone or closed to us."""
        with suppress(*_REFUSED), (one := psutil.Process(pid)).oneshot():
            letter = _LETTERS.get(one.status(), "S")
            return Look(_identity(one), one.name(), letter, one.ppid(), int(one.nice()))
        return None

    def threads(process: ProcessId) -> tuple[ProcessId, ...]:
        """Return the process alone: state and priority belong to the whole here."""
        return (process,) if alive(process) else ()

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
