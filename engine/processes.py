"""The only door to psutil and, with procfs.py, to /proc: what is known of a process, and the few things done to one.

Decides nothing. None and False mean "gone or not readable", but for find(), alive() and what is done: there the one is
never taken for the other. Windows and macOS go through psutil in processes_elsewhere.py, untested.
"""

import os
import signal
import sys
import time
from collections.abc import Collection
from contextlib import suppress

from engine.process_types import Look, Outcome, ProcessId

__all__ = ["Look", "Outcome", "ProcessId"]  # from here on others know them by this module, as what follows

LOWEST = 64 if sys.platform == "win32" else 19  # IDLE_PRIORITY_CLASS there
CARDS = ("/dev/nvidia", "/dev/kfd", "/dev/dri/renderD", "/dev/dxg")  # how the files of graphics cards begin


def state(pid: int) -> str | None:
    """Return the kernel's letter for the state of a process, None if it is gone."""
    seen = look(pid)
    return seen.state if seen else None


def nice(pid: int) -> int | None:
    """Return the nice value (Windows: priority class) of a process or thread, None if it is gone."""
    seen = look(pid)
    return seen.nice if seen else None


def look(pid: int) -> Look | None:
    """Read one process or thread; None if it is gone or cannot be read."""
    with suppress(OSError):
        return examine(pid)
    return None


def find(process: ProcessId) -> Look | None:
    """Look at this very process; None: it has ended. Raises OSError where that cannot be told just now.

    Out of descriptors or of memory nothing can be read, and yet whatever is held is still held.
    """
    try:
        seen = examine(process.pid)
    except PermissionError:
        if replaced(process):
            return None
        raise
    return seen if seen and seen.process == process and seen.state not in "ZXx" else None


def alive(process: ProcessId) -> bool:
    """Tell whether this very process is there and not only waiting to be reaped; True where it cannot be told."""
    try:
        return find(process) is not None
    except OSError:
        return True


def stopped(process: ProcessId) -> bool:
    """Tell whether every thread of this very process stands still: a thread inside a driver stops late."""
    try:
        seen = [examine(thread.pid) for thread in threads(process)]
    except OSError:
        return False
    return bool(seen) and all(one is None or one.state in "TtZXx" for one in seen)


if sys.platform == "linux":
    from engine import priorities, procfs

    def boot_id() -> str:
        """Return what tells this boot from all others."""
        return (procfs.read("/proc/sys/kernel/random/boot_id") or b"").decode().strip()

    def pids() -> list[int]:
        """List the processes that can be seen."""
        return procfs.numbers("/proc")

    def around(numbers: Collection[int]) -> list[int]:
        """List processes among which are these and all their descendants. Raises OSError where none can be listed."""
        del numbers  # all are read as quickly as some are told apart
        found = pids()
        if not found:
            raise OSError("the processes cannot be listed")
        return found

    def examine(pid: int) -> Look | None:
        """Read one process or thread; None if it is gone. Raises OSError where that cannot be told."""
        head, bracket, tail = procfs.stat(pid).rpartition(b")")
        if not bracket:
            return None
        fields = tail.split()
        name = head.partition(b"(")[2].decode("utf-8", "replace")
        return Look(ProcessId(pid, int(fields[19])), name, fields[0].decode(), int(fields[1]), int(fields[16]))

    def replaced(process: ProcessId) -> bool:
        """Tell whether its number is another's by now, where no more may be known of that; False: it may be its own."""
        del process  # what cannot be read here does not tell either when it started
        return False

    def under_job_control(pid: int) -> bool:
        """Tell whether a shell at a terminal looks after it; False where that cannot be told.

        In a session with a terminal the leader's own group is left to itself; the others are jobs of a shell. It is
        told of a stop of its own children, and what stands still in a group in the background dies with it.
        """
        with suppress(OSError, ValueError, IndexError):
            _, parent, group, session, terminal, front = procfs.stat(pid).rpartition(b")")[2].split()[:6]
            if terminal == b"0" or group == session:
                return False
            return front != group or procfs.stat(int(parent)).rpartition(b")")[2].split()[2] != group
        return False

    def threads(process: ProcessId) -> tuple[ProcessId, ...]:
        """List the threads of this very process; on Linux each has a priority of its own."""
        seen = [look(number) for number in procfs.numbers(f"/proc/{process.pid}/task")]
        return tuple(one.process for one in seen if one) if alive(process) else ()

    def now() -> int:
        """Return the time as `ProcessId.start` counts it."""
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))

    def age(process: ProcessId) -> float:
        """Return how many seconds ago it started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - process.start / os.sysconf("SC_CLK_TCK")

    def command_line(pid: int) -> tuple[str, ...] | None:
        """Return the arguments a process was started with, empty for a kernel thread; None: not readable."""
        content = procfs.read(f"/proc/{pid}/cmdline")
        if content is None:
            return None
        return tuple(os.fsdecode(part) for part in content.removesuffix(b"\0").split(b"\0") if content)

    def environment(pid: int) -> dict[str, str] | None:
        """Return the environment a process was started with; None: not readable."""
        content = procfs.read(f"/proc/{pid}/environ")
        parts = (os.fsdecode(part).partition("=") for part in (content or b"").split(b"\0") if part)
        return None if content is None else {name: value for name, _, value in parts}

    def working_folder(pid: int) -> str | None:
        """Return the folder from which the relative paths of a process count; None: not readable."""
        with suppress(OSError):
            return os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - as it is, and not from here
        return None

    def listener(port: int) -> int | None:
        """Return the process that listens on this TCP port of this machine, if it may be known."""
        sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in procfs.listening(table, port)}
        candidates = pids() if sockets else []
        return next((pid for pid in candidates if not sockets.isdisjoint(procfs.open_files(pid))), None)

    def has_card(pid: int) -> bool:
        """Tell whether a process has a graphics card open; False also where that may not be known."""
        return any(name.startswith(CARDS) for name in procfs.open_files(pid))

    def _signal(process: ProcessId, number: int) -> Outcome:
        """Open first, compare then: what is open cannot turn into another process."""
        try:
            descriptor = os.pidfd_open(process.pid)
            try:
                if find(process) is None:
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
        try:
            if find(process) is None:  # a pidfd would not help: setpriority takes the number
                return Outcome.GONE
            os.setpriority(os.PRIO_PROCESS, process.pid, value)
        except ProcessLookupError:
            return Outcome.GONE
        except OSError:
            return Outcome.DENIED
        return Outcome.DONE

    def may_restore(process: ProcessId, value: int) -> bool:
        """Tell whether this user may set `value` again once the process has a lower priority."""
        return priorities.may_raise(process.pid, value)

else:
    from engine.processes_elsewhere import *  # noqa: F403 - the same names; what they mean stands above
