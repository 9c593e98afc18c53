"""Gives the priority back to what was born while its process was lowered: else it would keep ours for life.

A newcomer inherits the priority of what it came from, and the last second of them stands in no ledger. The guardian
loads this module and must stay small.
"""

import time
from collections.abc import Collection, Iterator

from engine import processes
from engine.orchestration.ledger import Renice
from engine.processes import Outcome, ProcessId

_ROUNDS = 10
_PAUSE = 0.02  # seconds between two: what is just being born has its priority already, and is not yet to be seen


def give_back(entries: Collection[Renice]) -> None:
    """Look again until there is none left. Raises OSError where it cannot look.

    What another user has started meanwhile is left as it is: it was left alone before, too.
    """
    dated = {entry.pid: entry for entry in entries if entry.since}
    known = {ProcessId(entry.pid, entry.start) for entry in entries}
    for number in range(_ROUNDS if dated else 0):
        found = [(heir, origin) for heir, origin in _heirs(dated) if heir not in known]
        if number and not found:
            return
        for heir, origin in found:
            if processes.renice(heir, origin.previous) is Outcome.DENIED and processes.find(heir):
                known.add(heir)
        time.sleep(_PAUSE)


def _heirs(dated: dict[int, Renice]) -> Iterator[tuple[ProcessId, Renice]]:
    """Yield the threads born later than the entry that show its priority, with the entry it came to them by."""
    for process, origin in _families(dated):
        for thread in processes.threads(process):
            if thread.start >= origin.since and processes.nice(thread.pid) == origin.ours:
                yield thread, origin


def _families(dated: dict[int, Renice]) -> Iterator[tuple[ProcessId, Renice]]:
    """Yield the processes of the entries and all their descendants, each with the nearest entry."""
    leaders = _leaders(dated)
    seen = {pid: look for pid in processes.around(leaders) if (look := processes.look(pid))}
    children: dict[int, list[ProcessId]] = {}
    for look in seen.values():
        children.setdefault(look.parent, []).append(look.process)
    waiting = [(seen[pid].process, entry) for pid, entry in leaders.items() if pid in seen]
    done: set[int] = set()
    while waiting:
        process, origin = waiting.pop()
        if process.pid not in done:
            done.add(process.pid)
            yield process, origin
            waiting += [(child, dated.get(child.pid, origin)) for child in children.get(process.pid, [])]


def _leaders(dated: dict[int, Renice]) -> dict[int, Renice]:
    """Return the processes that the entries are threads of, each with its own entry where it has one."""
    found: dict[int, Renice] = {}
    covered: set[int] = set()
    for pid, entry in dated.items():
        if pid not in covered:
            group = [thread.pid for thread in processes.threads(ProcessId(pid, entry.start))]
            covered.update(group)
            found |= {number: dated.get(number, entry) for number in group}
    return found
