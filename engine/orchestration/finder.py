"""Finds the processes of the background job by the program's name, quickly enough to be asked before each action.

It only looks. The language-model server, this program and whatever started it are never among them.
"""

import os
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass

from engine import processes
from engine.processes import Look, ProcessId

_YOUNG = 5.0  # seconds in which a new process may still turn into another program (exec)
_AGAIN = 30.0  # seconds after which all are looked at again: a program may rename itself at any time
_CARD_AGAIN = 5.0  # seconds for which it is taken as known whether a process has a graphics card open
_COMM = 15  # what the kernel keeps of a name
_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|nodejs|sh|bash|dash|zsh|ksh)[\d.]*")
_SUFFIX = re.compile(r"\.(exe|py|pl|rb|js|sh)$")
# Names that may be set, and names that then are running, both normalised. A program not listed has its own name only.
_ALIASES = (
    (r"fahclient|folding@home|foldingathome|fahcore\*?", r"fahclient|fahcore[0-9a-f]{2}.*"),
    (r"boinc|boincclient|boincmgr|boincmanager", r"boinc|boincclient"),
)
# Programs that start others for the work. They may look at a card, but stopped ones answer nobody, not even their user.
_MANAGERS = re.compile(r"fahclient|boinc|boincclient")


class ProcessFinder:
    """Looks for one program's processes; keeps what it has ruled out, so that asking again costs little.

    `now`: monotonic seconds. `spared`: further processes that are never among the found, such as the guardian.
    """

    def __init__(self, name: str, now: Callable[[], float], spared: Callable[[], Collection[int]] = tuple) -> None:
        self._wanted = Program(name)
        self._server = Program("llama-server")
        self._now = now
        self._spared = spared
        self._seen: dict[int, Look] = {}
        self._matches: set[int] = set()
        self._servers: set[int] = set()
        self._managers: set[int] = set()
        self._settled: set[int] = set()
        self._refused: set[int] = set()  # Windows lets nobody look at them, and takes long to say so
        self._kin: dict[int, ProcessId] = {}  # descendants at the last look: they stay so when their parent dies
        self._cards: dict[int, tuple[ProcessId, bool, float]] = {}  # who was asked, the answer, until when it holds
        self._all_again = now() + _AGAIN

    def find(self) -> tuple[ProcessId, ...]:
        """Return what works: those of the job's processes that have no child, and those that have a card open.

        A wrapper does no work on the card and dies badly when it is stopped; its last descendants do the work. But a
        program that computes by itself may have children that only bring the data.
        """
        family = self._look()
        parents = family & {self._seen[pid].parent for pid in family}
        holders = {pid for pid in parents - self._managers if self._has_card(pid)}
        return self._identities(family - parents | holders)

    def members(self) -> tuple[ProcessId, ...]:
        """Return all processes of the job, whether they do the work or only started what does."""
        return self._identities(self._look())

    def _identities(self, numbers: set[int]) -> tuple[ProcessId, ...]:
        return tuple(self._seen[pid].process for pid in sorted(numbers - self._untouchable()))

    def _look(self) -> set[int]:
        """Return the numbers of the job's processes; each was looked at just now."""
        self._forget()
        fresh: set[int] = set()
        self._examine([pid for pid in self._seen if pid not in self._settled], fresh)
        family = self._family()
        while stale := family - fresh:  # what was only remembered is looked at before anybody acts on it
            self._examine(stale, fresh)
            family = self._family()
        children = {pid for pid in family if self._seen[pid].parent in family}  # one just forked has its parent's name
        self._kin = {pid: self._seen[pid].process for pid in family - self._matches | children}
        return family

    def _forget(self) -> None:
        """Drop what is gone, note what is new, and take nothing for settled any more from time to time."""
        present = set(processes.pids())
        for pid in self._seen.keys() - present:
            self._drop(pid)
        if self._now() >= self._all_again:
            self._settled.clear()
            self._refused.clear()
            self._all_again = self._now() + _AGAIN
        self._refused &= present
        for pid in present - self._seen.keys() - self._refused:
            seen = processes.look(pid)
            if seen:
                self._seen[pid] = seen
            elif sys.platform == "win32":
                self._refused.add(pid)

    def _drop(self, pid: int) -> None:
        del self._seen[pid]
        self._cards.pop(pid, None)
        for known in (self._matches, self._servers, self._managers, self._settled):
            known.discard(pid)

    def _examine(self, numbers: Collection[int], fresh: set[int]) -> None:
        for pid in numbers:
            fresh.add(pid)
            before, seen = self._seen[pid], processes.look(pid)
            if seen is None or seen.state in "ZXx":
                self._drop(pid)
                continue
            self._seen[pid] = seen
            if pid in self._settled and (seen.process, seen.name) == (before.process, before.name):
                continue
            self._name(seen)
            (self._settled.add if processes.age(seen.process) > _YOUNG else self._settled.discard)(pid)

    def _name(self, seen: Look) -> None:
        pid = seen.process.pid
        names = names_of(seen.name, processes.command_line(pid) or ())
        is_server = self._server.fits(names)
        is_wanted = not is_server and self._wanted.fits(names)
        is_manager = any(_MANAGERS.fullmatch(name) for name in names.whole)
        (self._servers.add if is_server else self._servers.discard)(pid)
        (self._matches.add if is_wanted else self._matches.discard)(pid)
        (self._managers.add if is_manager else self._managers.discard)(pid)

    def _family(self) -> set[int]:
        """Return the matched, all their descendants, and who was one before its parent died."""
        children: dict[int, list[int]] = {}
        for pid, seen in self._seen.items():
            children.setdefault(seen.parent, []).append(pid)
        family: set[int] = set()
        kin = [pid for pid, process in self._kin.items() if pid in self._seen and self._seen[pid].process == process]
        waiting = [*self._matches, *kin]
        while waiting:
            pid = waiting.pop()
            if pid not in family:
                family.add(pid)
                waiting += [] if pid in self._servers else children.get(pid, [])
        return family

    def _has_card(self, pid: int) -> bool:
        process, now = self._seen[pid].process, self._now()
        asked, answer, until = self._cards.get(pid, (None, False, now))
        if asked != process or now >= until:
            answer = processes.has_card(pid)
            self._cards[pid] = (process, answer, now + _CARD_AGAIN)
        return answer

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


@dataclass(frozen=True, slots=True)
class Names:
    """What a process goes by, normalised. `cut`: the beginning of a name of which the kernel kept no more, or ""."""

    whole: frozenset[str]
    cut: str


class Program:
    """The program that was asked for, by any one of the names it goes by."""

    def __init__(self, name: str) -> None:
        self._name = normalised(name)
        aliases = (running for asked, running in _ALIASES if re.fullmatch(asked, self._name))
        self._running = re.compile(next(aliases, re.escape(self._name)))

    def fits(self, names: Names) -> bool:
        """Tell whether a process with these names is one of its own."""
        fits_whole = any(self._running.fullmatch(name) for name in names.whole)
        return fits_whole or (names.cut != "" and self._name.startswith(names.cut))


def names_of(comm: str, arguments: tuple[str, ...]) -> Names:
    """Return what a process goes by: its own name, its program's, and its script's."""
    program = re.split(r"[/\\]", arguments[0])[-1] if arguments else ""
    names = {normalised(program)}
    if _INTERPRETER.fullmatch(normalised(program)):
        names.add(normalised(_script(arguments[1:])))
    cut = ""
    if len(comm) < _COMM or not program.startswith(comm):  # else the command line has the whole of a cut name
        names.add(normalised(comm))
        cut = normalised(comm) if len(comm) == _COMM else ""
    return Names(frozenset(names - {""}), cut)


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
