"""How one process is held: stopped, or at the lowest priority. A grip says beforehand what will have to be undone."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration.ledger import Entry, Renice, Resume
from engine.processes import LOWEST, Outcome, ProcessId

FOREIGN = "it belongs to another user"
OF_A_SHELL = "a shell at a terminal looks after it and would not let it go on: start it with setsid or tmux new -d"


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Why a process is not held by us. `free`: it works on, so the card is not yielded."""

    reason: str
    free: bool


class Grip(Protocol):
    """One way to hold a process. `words`: what a held job is, for people."""

    @property
    def words(self) -> str:
        """Say how a held job fares."""

    def check(self) -> None:
        """Raise BackendUnavailable where this cannot be undone."""

    def targets(self, worker: ProcessId) -> tuple[ProcessId, ...]:
        """Return what there is to hold of one process."""

    def plan(self, target: ProcessId, worker: ProcessId, held: Collection[Entry]) -> Entry | LeftAlone | None:
        """Say what will have to be undone, or why it is left alone; None: it is gone."""

    def act(self, target: ProcessId) -> Outcome:
        """Hold it."""

    def holds(self, target: ProcessId) -> bool:
        """Tell whether it is seen to be held."""


class Stopping:
    """Stops processes. One stop of ours and one go-on: on Windows the system counts both."""

    words = "stopped; memory of the card stays taken"

    def check(self) -> None:
        """Accept: a stop can always be undone."""

    def targets(self, worker: ProcessId) -> tuple[ProcessId, ...]:
        """Return the process: it is stopped as a whole."""
        return (worker,)

    def plan(self, target: ProcessId, worker: ProcessId, held: Collection[Entry]) -> Entry | LeftAlone | None:
        """Leave alone what somebody else stopped, and the job of a shell: a stop takes the terminal away from it.

        Told to go on, it is in the background, where it stops anew at the first question to its terminal. And if the
        shell ends meanwhile, the system ends what stands still, and not what runs.
        """
        del worker, held
        seen = processes.look(target.pid)
        if seen is None or seen.process != target:
            return None
        if seen.state in "Tt":
            return LeftAlone("it was already stopped", free=False)
        if not processes.may_suspend(target):
            return LeftAlone(FOREIGN, free=True)
        if processes.under_job_control(target.pid):
            return LeftAlone(OF_A_SHELL, free=True)
        return Resume(target.pid, target.start, seen.name)

    def act(self, target: ProcessId) -> Outcome:
        """Stop it."""
        return processes.suspend(target)

    def holds(self, target: ProcessId) -> bool:
        """Tell whether every thread of it stands still."""
        return processes.stopped(target)


class Lowering:
    """Gives the lowest priority (Windows: priority class) to threads and processes."""

    words = "at the lowest priority, of which the card itself takes no notice"

    def check(self) -> None:
        """Refuse a priority that this user could not raise again."""
        ourselves = processes.look(os.getpid())
        if ourselves is None or not processes.may_restore(ourselves.process, 0):
            raise BackendUnavailable(
                "a priority, once lowered, could not be raised again by this user: "
                "set FALLBACK_TO_SUSPEND to stop the job instead"
            )

    def targets(self, worker: ProcessId) -> tuple[ProcessId, ...]:
        """Return its threads: on Linux each has a priority of its own."""
        return processes.threads(worker)

    def plan(self, target: ProcessId, worker: ProcessId, held: Collection[Entry]) -> Entry | LeftAlone | None:
        """Leave alone what is at the lowest priority by itself, or could not come back from it."""
        seen = processes.look(target.pid)
        if seen is None or seen.process != target:
            return None
        previous = seen.nice
        if previous == LOWEST:
            origin = _origin(worker, held)
            if origin is None:
                return LeftAlone("it was already at the lowest priority", free=False)
            previous = origin.previous  # born while we held what it came from
        if not processes.may_restore(target, previous):
            return LeftAlone("its priority could not be raised again: set FALLBACK_TO_SUSPEND", free=True)
        if processes.renice(target, seen.nice) is Outcome.DENIED:
            return LeftAlone(FOREIGN, free=True)
        return Renice(target.pid, target.start, seen.name, previous, LOWEST, processes.now())

    def act(self, target: ProcessId) -> Outcome:
        """Lower it."""
        return processes.renice(target, LOWEST)

    def holds(self, target: ProcessId) -> bool:
        """Tell whether the system says so."""
        return processes.nice(target.pid) == LOWEST


def _origin(worker: ProcessId, held: Collection[Entry]) -> Renice | None:
    """Return what we hold of the process, or of its parent, from which a newcomer has its priority.

    The parent may have ended since, as that of a program which forks and leaves: then the name tells.
    """
    seen = processes.look(worker.pid)
    if seen is None:
        return None
    known = [entry for entry in held if isinstance(entry, Renice)]
    by_pid = {entry.pid: entry for entry in known}
    by_name = {entry.name: entry for entry in known if not processes.alive(ProcessId(entry.pid, entry.start))}
    return by_pid.get(worker.pid) or by_pid.get(seen.parent) or by_name.get(seen.name)
