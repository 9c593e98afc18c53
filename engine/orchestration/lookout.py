"""Tells which of some listed programs is running, by the same names that the background program goes by."""

import sys
import time
from collections.abc import Callable

from engine import processes
from engine.orchestration.finder import Program, names_of

_YOUNG = 5.0  # s in which a new process may still turn into another program
_ALL_AGAIN = 60.0  # s after which all are looked at again: a number may be somebody else's by then


class Lookout:
    """Looks for the programs in `listed`, separated by commas. Only what is new costs something."""

    def __init__(self, listed: str, now: Callable[[], float] = time.monotonic) -> None:
        names = (name.strip() for name in listed.split(","))
        self._programs = {name: Program(name) for name in names if name}
        self._now = now
        self._known: dict[int, str | None] = {}  # process → the listed program that it is
        self._all_again = now() + _ALL_AGAIN

    def __call__(self) -> str | None:
        """Return the first listed program that runs, as it is listed; None if none does."""
        if not self._programs:
            return None
        if self._now() >= self._all_again:
            self._all_again = self._now() + _ALL_AGAIN
            self._known.clear()
        present = set(processes.pids())
        self._known = {pid: name for pid, name in self._known.items() if pid in present}
        running = set(self._known.values()) | {self._examine(pid) for pid in present - self._known.keys()}
        return next((name for name in self._programs if name in running), None)

    def _examine(self, pid: int) -> str | None:
        seen = processes.look(pid)
        if seen is None and sys.platform == "win32":  # it lets nobody look at some, and takes long to say so
            self._known[pid] = None
        if seen is None or seen.state in "ZXx":
            return None
        names = names_of(seen.name, processes.command_line(pid) or ())
        name = next((name for name, program in self._programs.items() if program.fits(names)), None)
        if processes.age(seen.process) > _YOUNG:
            self._known[pid] = name
        return name
