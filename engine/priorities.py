"""Whether this user may raise a priority on Linux, for processes.py alone."""

import os
import resource
import sys
import threading
from contextlib import suppress

assert sys.platform == "linux"  # the rest has names that are nowhere else


def may_raise(pid: int, value: int) -> bool:
    """Tell whether the nice value of this process may be set to `value` from a higher one."""
    try:
        limit = resource.prlimit(pid, resource.RLIMIT_NICE)[0]  # the kernel asks the target's limit
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
