"""The words in which processes.py speaks of processes."""

import enum
from dataclasses import dataclass


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
