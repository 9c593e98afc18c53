"""Holds the background job by its processes: stops them, or gives them the lowest priority. Both can be undone.

Memory of the card stays taken, and the card itself takes no notice of priorities: this is said, not hidden.
"""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from engine import processes
from engine.errors import BackendUnavailable
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Entry, Renice, Resume
from engine.processes import LOWEST, Outcome, ProcessId

_POLLS = 200  # of one millisecond: so long it may take until the kernel has stopped every thread
_FOREIGN = "it belongs to another user"


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    """Why a process is not held by us. `free`: it works on, so the card is not yielded."""

    reason: str
    free: bool


class _Grip(Protocol):
    """How one process is held."""

    words: str

    def check(self) -> None:
        """Raise BackendUnavailable where this cannot be undone."""

    def targets(self, leaf: ProcessId) -> tuple[ProcessId, ...]:
        """Return what there is to hold of one process."""

    def plan(self, target: ProcessId, leaf: ProcessId, held: Mapping[ProcessId, Entry]) -> Entry | _LeftAlone | None:
        """Say what will have to be undone, or why it is left alone; None: it is gone."""

    def act(self, target: ProcessId) -> Outcome:
        """Hold it."""

    def holds(self, target: ProcessId) -> bool:
        """Tell whether it is seen to be held."""


class _Stopping:
    words = "stopped; memory of the card stays taken"

    def check(self) -> None:
        """Accept: a stop can always be undone."""

    def targets(self, leaf: ProcessId) -> tuple[ProcessId, ...]:
        return (leaf,)

    def plan(self, target: ProcessId, leaf: ProcessId, held: Mapping[ProcessId, Entry]) -> Entry | _LeftAlone | None:
        del leaf, held
        seen = processes.look(target.pid)
        if seen is None or seen.process != target:
            return None
        if seen.state in "Tt":
            return _LeftAlone("it was already stopped", free=False)
        if not processes.may_suspend(target):
            return _LeftAlone(_FOREIGN, free=True)
        return Resume(target.pid, target.start, seen.name)

    def act(self, target: ProcessId) -> Outcome:
        return processes.suspend(target)

    def holds(self, target: ProcessId) -> bool:
        return processes.stopped(target)


class _Lowering:
    words = "at the lowest priority, of which the card itself takes no notice"

    def check(self) -> None:
        ourselves = processes.look(os.getpid())
        if ourselves is None or not processes.may_restore(ourselves.process, 0):
            raise BackendUnavailable(
                "a priority, once lowered, could not be raised again by this user: "
                "set FALLBACK_TO_SUSPEND to stop the job instead"
            )

    def targets(self, leaf: ProcessId) -> tuple[ProcessId, ...]:
        return processes.threads(leaf)

    def plan(self, target: ProcessId, leaf: ProcessId, held: Mapping[ProcessId, Entry]) -> Entry | _LeftAlone | None:
        seen = processes.look(target.pid)
        if seen is None or seen.process != target:
            return None
        previous = seen.nice
        if previous == LOWEST:
            origin = _origin(leaf, held)
            if origin is None:
                return _LeftAlone("it was already at the lowest priority", free=False)
            previous = origin.previous  # born while we held what it came from
        if not processes.may_restore(target, previous):
            return _LeftAlone("its priority could not be raised again: set FALLBACK_TO_SUSPEND", free=True)
        if processes.renice(target, seen.nice) is Outcome.DENIED:
            return _LeftAlone(_FOREIGN, free=True)
        return Renice(target.pid, target.start, seen.name, previous, LOWEST)

    def act(self, target: ProcessId) -> Outcome:
        return processes.renice(target, LOWEST)

    def holds(self, target: ProcessId) -> bool:
        return processes.nice(target.pid) == LOWEST


def _origin(leaf: ProcessId, held: Mapping[ProcessId, Entry]) -> Renice | None:
    """Return what we hold of the process, or of its parent, from which a newcomer has its priority."""
    seen = processes.look(leaf.pid)
    by_pid = {entry.pid: entry for entry in held.values() if isinstance(entry, Renice)}
    return by_pid.get(leaf.pid) or (by_pid.get(seen.parent) if seen else None)


class ProcessBackend:
    """Holds the leaves among the job's processes. `job` is its name, for people."""

    name = "process"

    def __init__(self, job: str, suspend: bool, finder: ProcessFinder, safeguard: Safeguard) -> None:
        self._job = job
        self._grip: _Grip = _Stopping() if suspend else _Lowering()
        self._finder = finder
        self._safeguard = safeguard
        self._share = 100
        self._held: dict[ProcessId, Entry] = {}
        self._seen_held: set[ProcessId] = set()
        self._alone: dict[ProcessId, _LeftAlone] = {}

    def priority(self) -> int:
        """Return 10: it works with every job, but frees no memory. Raises BackendUnavailable."""
        self._grip.check()
        return 10

    def apply(self, share: int) -> Applied:
        """Hold the job; 10 and 0 are the same here. 100 gives it back."""
        if share == 100:
            return self.release()
        self._share = share
        return self.verify()

    def verify(self) -> Applied:
        """Hold newcomers, forget what ended, and see what is in force."""
        if self._share == 100:
            return Applied(100, None)
        leaves = self._finder.find()
        self._forget_ended()
        self._take(leaves)
        self._wait()
        self._let_go_changed()
        return self._in_force()

    def release(self) -> Applied:
        """Give everything back that is still as we left it."""
        self._share = 100
        sentences = self._safeguard.give_back()
        self._held.clear()
        self._seen_held.clear()
        self._alone.clear()
        return Applied(100, None, "; ".join(sentences[:3]))

    def refresh(self) -> None:
        """Look for the job now, so that the next look has little to do."""
        self._finder.find()

    def _forget_ended(self) -> None:
        self._strike([target for target in self._held if not processes.alive(target)])
        self._alone = {target: left for target, left in self._alone.items() if processes.alive(target)}

    def _take(self, leaves: Collection[ProcessId]) -> None:
        plans: dict[ProcessId, Entry] = {}
        for leaf in leaves:
            for target in self._grip.targets(leaf):
                if target in self._held or target in self._alone:
                    continue
                plan = self._grip.plan(target, leaf, self._held)
                if isinstance(plan, _LeftAlone):
                    self._alone[target] = plan
                elif plan:
                    plans[target] = plan
        if not plans:
            return
        self._safeguard.before_acting(plans.values())
        self._held |= plans
        outcomes = {target: self._grip.act(target) for target in plans}
        for target, outcome in outcomes.items():
            if outcome is Outcome.DENIED:
                self._alone[target] = _LeftAlone(_FOREIGN, free=True)
        self._strike([target for target, outcome in outcomes.items() if outcome is not Outcome.DONE])

    def _wait(self) -> None:
        """See each one held before it is called held: the kernel stops a thread when it leaves a driver."""
        for _ in range(_POLLS):
            waiting = self._held.keys() - self._seen_held
            self._seen_held |= {target for target in waiting if self._grip.holds(target)}
            if self._held.keys() <= self._seen_held:
                return
            time.sleep(0.001)

    def _let_go_changed(self) -> None:
        changed = [t for t in self._held if t in self._seen_held and not self._grip.holds(t) and processes.alive(t)]
        for target in changed:
            self._alone[target] = _LeftAlone("somebody else let it go on, and so do we", free=True)
        self._strike(changed)

    def _strike(self, targets: Collection[ProcessId]) -> None:
        if targets:
            entries = [self._held.pop(target) for target in targets]
            self._seen_held -= set(targets)
            self._safeguard.strike(entries)

    def _in_force(self) -> Applied:
        reasons = [f"{self._job}: {left.reason}" for left in dict.fromkeys(self._alone.values())]
        free = any(left.free for left in self._alone.values())
        if not self._held:
            detail = "; ".join(reasons) or f"no {self._job} is running"
            return Applied(100, False if free else None, detail)
        pending = len(self._held.keys() - self._seen_held)
        if pending:
            reasons.append(f"{self._job}: {pending} not yet seen to be held")
        detail = "; ".join((f"{self._job}: {self._grip.words}", *reasons))
        return Applied(self._share, not free and not pending, detail)
