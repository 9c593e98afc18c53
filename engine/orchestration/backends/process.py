"""Holds the background job by its processes: stops them, or gives them the lowest priority. Both can be undone.

Memory of the card stays taken, and the card itself takes no notice of priorities: this is said, not hidden.
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from engine import processes
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.grips import FOREIGN, Grip, LeftAlone, Lowering, Stopping
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Entry, Renice
from engine.orchestration.undoing import undo
from engine.processes import Outcome, ProcessId

_POLLS = 200  # of one millisecond: so long it may take until the kernel has stopped every thread
_ROUNDS = 3  # what is not stopped yet may start others while we act


@dataclass(frozen=True, slots=True)
class _Hold:
    """One process or thread in one grip."""

    grip: Grip
    target: ProcessId


class ProcessBackend:
    """Holds the working processes of the job. `job` is its name, for people.

    `besides`: further grips that go with a lowered priority, such as Windows' class of the card.
    """

    name = "process"
    costly = False

    def __init__(
        self, job: str, suspend: bool, finder: ProcessFinder, safeguard: Safeguard, besides: Sequence[Grip] = ()
    ) -> None:
        self._job = job
        self._grips: tuple[Grip, ...] = (Stopping(),) if suspend else (Lowering(), *besides)
        self._finder = finder
        self._safeguard = safeguard
        self._share = 100
        self._held: dict[_Hold, Entry] = {}
        self._seen_held: set[_Hold] = set()
        self._ended: dict[str, Renice] = {}  # by name: what those had that ended in our hands
        self._alone: dict[_Hold, LeftAlone] = {}

    def priority(self) -> int:
        """Return 10: it works with every job, but frees no memory. Raises BackendUnavailable."""
        for grip in self._grips:
            grip.check()
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
        self._forget_ended()
        for _ in range(_ROUNDS):
            if not self._take(self._finder.find()):
                break
        self._wait()
        self._let_go_changed()
        return self._in_force()

    def release(self) -> Applied:
        """Give everything back that is still as we left it."""
        self._share = 100
        sentences = self._safeguard.give_back()
        for known in (self._held, self._seen_held, self._ended, self._alone):
            known.clear()
        return Applied(100, None, "; ".join(sentences[:3]))

    def refresh(self) -> None:
        """Look for the job now, so that the next look has little to do."""
        self._finder.find()

    def _forget_ended(self) -> None:
        ended = {hold: entry for hold, entry in self._held.items() if not processes.alive(hold.target)}
        self._ended |= {entry.name: entry for entry in ended.values() if isinstance(entry, Renice)}
        self._strike(ended)
        self._alone = {hold: left for hold, left in self._alone.items() if processes.alive(hold.target)}

    def _take(self, workers: Collection[ProcessId]) -> bool:
        """Hold those that are not held yet; tell whether there were any."""
        plans = self._plan(workers)
        if not plans:
            return False
        self._safeguard.before_acting(plans.values())
        self._held |= plans
        outcomes = {hold: hold.grip.act(hold.target) for hold in plans}
        for hold, outcome in outcomes.items():
            if outcome is Outcome.DENIED:
                self._alone[hold] = LeftAlone(FOREIGN, free=True)
        self._strike([hold for hold, outcome in outcomes.items() if outcome is not Outcome.DONE])
        return True

    def _plan(self, workers: Collection[ProcessId]) -> dict[_Hold, Entry]:
        plans: dict[_Hold, Entry] = {}
        known = [*self._ended.values(), *self._held.values()]
        targets = [
            (grip, target, worker) for worker in workers for grip in self._grips for target in grip.targets(worker)
        ]
        for grip, target, worker in targets:
            hold = _Hold(grip, target)
            if hold in self._held or hold in self._alone:
                continue
            plan = grip.plan(target, worker, known)
            if isinstance(plan, LeftAlone):
                self._alone[hold] = plan
            elif plan:
                plans[hold] = plan
        return plans

    def _wait(self) -> None:
        """See each one held before it is called held: the kernel stops a thread when it leaves a driver."""
        for _ in range(_POLLS):
            waiting = self._held.keys() - self._seen_held
            self._seen_held |= {hold for hold in waiting if hold.grip.holds(hold.target)}
            if self._held.keys() <= self._seen_held:
                return
            time.sleep(0.001)

    def _let_go_changed(self) -> None:
        slipped = [hold for hold in self._held if hold in self._seen_held and not hold.grip.holds(hold.target)]
        changed = [hold for hold in slipped if processes.find(hold.target)]  # raises where that cannot be told
        # Undone as well, before it is forgotten: that it slipped may only have looked so, for want of descriptors.
        settled = {one.entry for one in undo([self._held[hold] for hold in changed]) if one.settled}
        let_go = [hold for hold in changed if self._held[hold] in settled]
        for hold in let_go:
            self._alone[hold] = LeftAlone("somebody else let it go on, and so do we", free=True)
        self._strike(let_go)

    def _strike(self, holds: Collection[_Hold]) -> None:
        if holds:
            entries = [self._held.pop(hold) for hold in holds]
            self._seen_held -= set(holds)
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
        words = dict.fromkeys(f"{self._job}: {hold.grip.words}" for hold in self._held)
        return Applied(self._share, not free and not pending, "; ".join((*words, *reasons)))
