"""Undoes what the ledger names, one kind of entry by one function. Whoever gives back does it by `undo`.

The guardian loads this module and must stay small: no psutil on Linux, nothing that reads settings.
"""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from engine import processes
from engine.orchestration import heirs
from engine.orchestration.ledger import (
    Entry,
    Renice,
    RestoreBoinc,
    RestoreGpuClass,
    RestoreMps,
    Resume,
    Undone,
    UnpauseFolding,
)
from engine.processes import Outcome, ProcessId

_LOOKS, _BETWEEN = 10, 0.005  # how often, and seconds between two: a job that waits for its terminal stops at once


def undo(entries: Collection[Entry]) -> tuple[Undone, ...]:
    """Give back what the entries name, as far as it is still as we left it. Never raises.

    Processes come first: they take no time, the others may wait for an answer.
    """
    of_processes = [entry for entry in entries if isinstance(entry, Resume | Renice)]
    others = [entry for entry in entries if not isinstance(entry, Resume | Renice)]
    first = _with_terminals(_with_heirs([_undo(entry) for entry in of_processes]))
    return (*first, *(_undo(entry) for entry in others))


def _with_heirs(undone: list[Undone]) -> list[Undone]:
    """Give back what lowered processes have passed on; where nobody can look for it they stay owed."""
    try:
        heirs.give_back([one.entry for one in undone if isinstance(one.entry, Renice)])
    except Exception:  # noqa: BLE001 - as below
        return [_owing(one) if isinstance(one.entry, Renice) and one.entry.since else one for one in undone]
    return undone


def _with_terminals(undone: list[Undone]) -> list[Undone]:
    """Say of which their terminals have stopped them anew: jobs of a shell, now in the background, may not ask."""
    resumed = {one.entry: ProcessId(one.entry.pid, one.entry.start) for one in undone if isinstance(one.entry, Resume)}
    watched = {entry: who for entry, who in resumed.items() if processes.under_job_control(who.pid)}
    stopped: set[Entry] = set()
    for _ in range(_LOOKS):
        stopped |= {entry for entry, who in watched.items() if entry not in stopped and processes.stopped(who)}
        if len(stopped) == len(watched):
            break
        time.sleep(_BETWEEN)
    return [_asking(one) if one.settled and one.entry in stopped else one for one in undone]


def _asking(one: Undone) -> Undone:
    # Our stop is over; another go-on would end at the same question to the terminal.
    assert isinstance(one.entry, Resume)
    who = f"{one.entry.name} ({one.entry.pid})"
    return Undone(one.entry, True, f"{who} was told to go on, and its terminal has stopped it: type fg there")


def _owing(one: Undone) -> Undone:
    assert isinstance(one.entry, Renice)
    who = f"{one.entry.name} ({one.entry.pid})"
    return Undone(one.entry, False, f"what {who} has started could not be given its priority back")


def _undo(entry: Entry) -> Undone:
    try:
        return _means(entry)(entry)
    except Exception as error:  # noqa: BLE001 - one that fails must not keep the others from being given back
        return Undone(entry, False, f"{type(entry).__name__}: {error!r}")


def get_ready(entries: Collection[Entry]) -> None:
    """Load what undoing and striking these takes: by then the program's folder may be gone. Never raises."""
    for entry in entries:
        if isinstance(entry, Resume | Renice):  # undone by what is here, at the first try
            continue
        with suppress(Exception):
            _means(entry)
            from engine.config import store  # noqa: F401, PLC0415 - for _write()
            from engine.orchestration import login  # noqa: F401, PLC0415 - for _see_to_login()


def _means(entry: Entry) -> Callable[[Any], Undone]:
    """Return what undoes it; a backend is loaded here and not before, since the guardian must stay small."""
    match entry:
        case Resume():
            return _resume
        case Renice():
            return _renice
        case UnpauseFolding():
            from engine.orchestration.backends.folding import undo as unpause  # noqa: PLC0415 - as above

            return unpause
        case RestoreBoinc():
            from engine.orchestration.backends.boinc import undo as end_lease  # noqa: PLC0415 - as above

            return end_lease
        case RestoreMps():
            from engine.orchestration.backends.mps_control import undo as restore  # noqa: PLC0415 - as above

            return restore
        case RestoreGpuClass():
            from engine.orchestration.windows_gpu import undo as restore_class  # noqa: PLC0415 - as above

            return restore_class


def _resume(entry: Resume) -> Undone:
    who = f"{entry.name} ({entry.pid})"
    process = ProcessId(entry.pid, entry.start)
    outcome = processes.resume(process)
    if outcome is Outcome.DENIED:
        return Undone(entry, False, f"{who} could not be told to go on")
    if outcome is Outcome.GONE:
        return Undone(entry, True, f"{who} had ended")
    return Undone(entry, True, f"{who} goes on")


def _renice(entry: Renice) -> Undone:
    process = ProcessId(entry.pid, entry.start)
    seen = processes.find(process)
    if seen is None:
        return Undone(entry, True, f"{entry.name} ({entry.pid}) had ended")
    if seen.nice == entry.previous:
        return Undone(entry, True, f"{entry.name} had its priority back")
    if seen.nice != entry.ours:
        sentence = f"{entry.name} ({entry.pid}) was given priority {seen.nice} by somebody else, and keeps it"
        return Undone(entry, True, sentence)
    if processes.renice(process, entry.previous) is Outcome.DENIED:
        return Undone(entry, False, f"{entry.name} ({entry.pid}) could not be given its priority back")
    return Undone(entry, True, f"{entry.name} has its priority back")
