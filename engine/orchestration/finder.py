"""Finds the processes of the background job by the program's name, quickly enough to be asked before each action.

It only looks. The language-model server, this program and whatever started it are never among them.
"""

import os
import re
from collections.abc import Callable, Collection

from engine import processes
from engine.processes import Look, ProcessId

_YOUNG = 5.0  # seconds in which a new process may still turn into another program (exec)
_AGAIN = 30.0  # seconds after which all are looked at again: a program may rename itself at any time
_COMM = 15  # what the kernel keeps of a name
_SERVER = "llamaserver"
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|nodejs|sh|bash|dash|zsh|ksh)[\d.]*")
_SUFFIX = re.compile(r"\.(exe|py|pl|rb|js|sh)$")


class ProcessFinder:
    """Looks for one program's processes; keeps what it has ruled out, so that asking again costs little.

    `now`: monotonic seconds. `spared`: further processes that are never among the found, such as the guardian.
    """

    def __init__(self, name: str, now: Callable[[], float], spared: Callable[[], Collection[int]] = tuple) -> None:
        self._wanted = normalised(name)
        self._now = now
        self._spared = spared
        self._seen: dict[int, Look] = {}
        self._matches: set[int] = set()
        self._servers: set[int] = set()
        self._settled: set[int] = set()
        self._all_again = now() + _AGAIN

    def find(self) -> tuple[ProcessId, ...]:
        """Return the leaves: those of the program's processes and their descendants that have no child.

        A wrapper does no work on the card and dies badly when it is stopped; its last descendants do the work.
        """
        self._forget()
        fresh: set[int] = set()
        self._examine([pid for pid in self._seen if pid not in self._settled], fresh)
        family = self._family()
        while stale := family - fresh:  # what was only remembered is looked at before anybody acts on it
            self._examine(stale, fresh)
            family = self._family()
        self._settled -= family
        parents = {self._seen[pid].parent for pid in family}
        leaves = family - parents - self._untouchable()
        return tuple(self._seen[pid].process for pid in sorted(leaves))

    def _forget(self) -> None:
        """Drop what is gone, note what is new, and take nothing for settled any more from time to time."""
        present = set(processes.pids())
        for pid in self._seen.keys() - present:
            self._drop(pid)
        for pid in present - self._seen.keys():
            seen = processes.look(pid)
            if seen:
                self._seen[pid] = seen
        if self._now() >= self._all_again:
            self._settled.clear()
            self._all_again = self._now() + _AGAIN

    def _drop(self, pid: int) -> None:
        del self._seen[pid]
        self._matches.discard(pid)
        self._servers.discard(pid)
        self._settled.discard(pid)

    def _examine(self, numbers: Collection[int], fresh: set[int]) -> None:
        for pid in numbers:
            fresh.add(pid)
            seen = processes.look(pid)
            if seen is None or seen.state in "ZXx":
                self._drop(pid)
                continue
            self._seen[pid] = seen
            self._name(seen)
            if processes.age(seen.process) > _YOUNG:
                self._settled.add(pid)

    def _name(self, seen: Look) -> None:
        pid = seen.process.pid
        arguments = processes.command_line(pid) or ()
        is_server = goes_by(_SERVER, seen.name, arguments)
        is_wanted = not is_server and goes_by(self._wanted, seen.name, arguments)
        (self._servers.add if is_server else self._servers.discard)(pid)
        (self._matches.add if is_wanted else self._matches.discard)(pid)

    def _family(self) -> set[int]:
        """Return the matched and all their descendants, by what was last seen of each one's parent."""
        children: dict[int, list[int]] = {}
        for pid, seen in self._seen.items():
            children.setdefault(seen.parent, []).append(pid)
        family: set[int] = set()
        waiting = list(self._matches)
        while waiting:
            pid = waiting.pop()
            if pid not in family:
                family.add(pid)
                waiting += [] if pid in self._servers else children.get(pid, [])
        return family

    def _untouchable(self) -> set[int]:
        """Return ourselves, our ancestors, what is to be spared, and every language-model server."""
        chosen = {os.getpid(), *self._spared(), *self._servers}
        ancestor = self._seen.get(os.getpid())
        while ancestor and ancestor.parent not in chosen:
            chosen.add(ancestor.parent)
            ancestor = self._seen.get(ancestor.parent)
        return chosen


def normalised(name: str) -> str:
    """Return a program's name without folder, suffix, hyphens, underscores and capitals."""
    base = re.split(r"[/\\]", name)[-1].lower()
    return re.sub(r"[-_]", "", _SUFFIX.sub("", base))


def goes_by(wanted: str, comm: str, arguments: tuple[str, ...]) -> bool:
    """Tell whether a process has this normalised name: its own, its program's, or its script's."""
    program = re.split(r"[/\\]", arguments[0])[-1] if arguments else ""
    names = {normalised(program)}
    if _INTERPRETER.fullmatch(normalised(program)):
        names.add(normalised(_script(arguments[1:])))
    if len(comm) < _COMM or not program.startswith(comm):  # else the command line has the whole of a cut name
        names.add(normalised(comm))
        if len(comm) == _COMM and wanted.startswith(normalised(comm)):
            return True
    return wanted in names - {""}


def _script(arguments: tuple[str, ...]) -> str:
    """Return the script that an interpreter runs, "" if it runs none."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "-m":
            return next(rest, "")
        if argument in ("-W", "-X"):
            next(rest, "")
        elif argument in ("-c", "-e"):
            return ""
        elif not argument.startswith("-"):
            return argument
    return ""
