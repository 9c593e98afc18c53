"""Holds Folding@home (client 8) by its own websocket: pauses the groups that have the card, which frees its memory.

The client keeps a pause over restarts, so each one stands in the ledger until it is taken back.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine import processes
from engine.config.address import is_local
from engine.errors import LedgerError
from engine.orchestration.accounts import LOOK, LostWork
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.folding_client import TRIES, FoldingClient, FoldingTrouble, NobodyListens, go_on
from engine.orchestration.backends.folding_state import Group
from engine.orchestration.ledger import Undone, UnpauseFolding
from engine.processes import ProcessId

if TYPE_CHECKING:  # the guardian loads this module to undo, and needs neither
    from engine.clock import Clock
    from engine.config.settings import Settings

BUDGET = 61.0  # seconds in which a core has to leave: then the client kills it
_SOON = 0.1  # seconds until the next look at a pause that is on its way
_LATER = 5.0  # seconds until the next try to reach a client that is gone
_ANSWER = 0.35  # seconds: half of all confirmations come in 0.3
_CORE = re.compile(r"fahcore_[0-9a-f]{2}.*", re.IGNORECASE)


@dataclass
class _Grip:
    """One group that we paused, or are pausing."""

    entry: UnpauseFolding
    since: float
    sent: int = 0  # times
    seen: bool = False  # paused, by the client's own word
    cores: set[ProcessId] = field(default_factory=set)


class FoldingBackend:
    """Holds the groups of the client at FOLDING_URL that fold on a card; where none is known to, all that fold."""

    name = "folding"
    costly = True

    def __init__(self, settings: "Settings", safeguard: Safeguard, clock: "Clock") -> None:
        self._url = settings.folding_url
        self._safeguard = safeguard
        self._clock = clock
        self._share = 100
        self._client: FoldingClient | None = None
        self._grips: dict[str, _Grip] = {}
        self._alone: set[str] = set()  # groups that somebody else let fold again
        self._work = LostWork()
        self._said = ""  # when it was given back

    def priority(self) -> int:
        """Return 40: it needs no rights and frees the memory. Raises BackendUnavailable."""
        FoldingClient(self._url).close()
        return 40

    def apply(self, share: int) -> Applied:
        """Pause it; 10 and 0 are the same here. 100 gives it back."""
        if share == 100:
            return self.release()
        if self._share == 100:
            self._alone.clear()
        for grip in self._grips.values():
            grip.sent = 0
        self._share = share
        return self.verify()

    def verify(self) -> Applied:
        """See what is in force; send what is due, and at most one command."""
        if self._share == 100:
            return self.release() if self._grips else self._look_back()
        lost = self._work.settle() if self._work.open else 0.0
        try:
            return self._hold(self._connected(), lost)
        except NobodyListens as reason:
            self._hang_up()
            return Applied(100, False if self._grips else None, self._gone(reason), lost=lost)
        except FoldingTrouble as reason:
            self._hang_up()
            return Applied(100, False, str(reason), lost=lost)

    def release(self) -> Applied:
        """Let every group that we paused go on as before; what was not yet sent is not sent.

        A client that is gone is asked later, by `verify`, or by whoever starts next. Raises LedgerError.
        """
        self._share = 100
        self._hang_up()
        try:
            sentences = self._safeguard.give_back()
        except LedgerError as error:
            if not self._is_gone():
                raise
            return Applied(100, False, str(error), _LATER)
        if any(grip.seen for grip in self._grips.values()):
            self._work.going_on()
        elif not self._work.open:
            self._work.settle()
        self._grips.clear()
        self._alone.clear()
        self._said = "; ".join(sentences[:3])
        return Applied(100, None, self._said, LOOK if self._work.open else None)

    def refresh(self) -> None:
        """Do nothing: a connection takes some milliseconds, and one that nobody listens to would block the client."""

    # ---- Holding -----------------------------------------------------------------------------------------------------

    def _connected(self) -> FoldingClient:
        if self._client is None:
            self._client = FoldingClient(self._url)
        self._client.pump()
        return self._client

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _hold(self, client: FoldingClient, lost: float) -> Applied:
        self._note(client.groups())
        if client.ready_in <= 0:
            name = self._due(client.groups())
            if name is not None:
                self._pause(client, client.groups()[name])
                client.wait(lambda: self._is_paused(client, name), _ANSWER)
                self._note(client.groups())
        applied = self._in_force(client.groups())
        return Applied(applied.share, applied.verified, applied.detail, applied.look_in, lost)

    def _note(self, groups: dict[str, Group]) -> None:
        """Note which pauses are confirmed, and let go of what somebody else has changed."""
        for name, grip in tuple(self._grips.items()):
            group = groups.get(name)
            if group and group.paused:
                grip.seen = True
                grip.cores |= self._cores(group)
            elif group is None or grip.seen:
                del self._grips[name]
                self._safeguard.strike([grip.entry])
                self._alone |= {name} if group else set()

    def _due(self, groups: dict[str, Group]) -> str | None:
        """Return the group that is to be paused next; a pause that was dropped without a word is sent again."""
        for group in _on_card(groups):
            grip = self._grips.get(group.name)
            if grip and not grip.seen and grip.sent < TRIES:
                return group.name
            if grip is None and group.working and group.name not in self._alone:
                return group.name
        return None

    def _pause(self, client: FoldingClient, group: Group) -> None:
        grip = self._grips.get(group.name)
        if grip is None:
            grip = _Grip(UnpauseFolding(self._url, group.name, group.finish), self._clock.now())
            self._safeguard.before_acting([grip.entry])
            self._grips[group.name] = grip
            self._work.pausing({unit.id: unit.progress for unit in group.units if unit.pid})
        grip.cores |= self._cores(group)
        grip.sent += 1
        client.pause(group.name)

    def _cores(self, group: Group) -> set[ProcessId]:
        """Return the processes of a group, unless they are of another machine, or of a container that counts anew."""
        if not is_local(self._url):
            return set()
        seen = [processes.look(unit.pid) for unit in group.units if unit.pid]
        return {one.process for one in seen if one and _CORE.fullmatch(one.name)}

    @staticmethod
    def _is_paused(client: FoldingClient, name: str) -> bool:
        group = client.groups().get(name)
        return group is None or group.paused

    def _in_force(self, groups: dict[str, Group]) -> Applied:
        free = sorted(name for name in self._alone if name in groups and groups[name].working)
        if free:
            return Applied(100, False, f"{_called(free[0])} was let fold by somebody else, and so do we")
        if not self._grips:
            waiting = [group for group in _on_card(groups) if group.working]
            if waiting:  # for the spacing
                return Applied(100, False, "Folding@home will be asked to pause in a moment", _SOON)
            return Applied(100, None, f"not needed: {_why_not(_on_card(groups))}")
        if not all(grip.seen for grip in self._grips.values()):
            obeys = any(grip.sent < TRIES for grip in self._grips.values() if not grip.seen)
            words = "was asked to pause and has not yet confirmed it" if obeys else "does not confirm that it pauses"
            return Applied(100, False, f"Folding@home {words}", _SOON if obeys else None)
        if self._due(groups) is not None:
            return Applied(100, False, "Folding@home is still pausing its other groups", _SOON)
        return self._yielded(groups)

    def _yielded(self, groups: dict[str, Group]) -> Applied:
        """Tell whether the cores have left: the client says so, and the machine, too."""
        held = [groups[name] for name in self._grips]
        leaving = any(unit.pid for group in held for unit in group.units) or any(
            processes.alive(core) for grip in self._grips.values() for core in grip.cores
        )
        if not leaving:
            return Applied(self._share, True, "Folding@home is paused and off the card")
        if self._clock.now() - min(grip.since for grip in self._grips.values()) < BUDGET:
            return Applied(self._share, False, "Folding@home is paused and still letting go of the card", _SOON)
        return Applied(self._share, False, f"Folding@home is paused and has not let go of the card in {BUDGET:g} s")

    # ---- Giving back -------------------------------------------------------------------------------------------------

    def _is_gone(self) -> bool:
        try:
            FoldingClient(self._url).close()
        except NobodyListens:
            return True
        except FoldingTrouble:
            return False
        return False

    def _gone(self, reason: FoldingTrouble) -> str:
        return f"{reason}; it was paused" if self._grips else f"not needed: {reason}"

    def _look_back(self) -> Applied:
        """See from where the units go on that were paused."""
        if not self._work.open:
            return Applied(100, None, self._said)
        try:
            with FoldingClient(self._url) as client:
                units = [unit for group in client.groups().values() for unit in group.units if unit.pid]
        except FoldingTrouble:
            units = []
        self._work.seen({unit.id: unit.progress for unit in units})
        if self._work.open:
            return Applied(100, None, self._said, LOOK)
        return Applied(100, None, self._said, lost=self._work.settle())


def _on_card(groups: dict[str, Group]) -> list[Group]:
    """Return the groups that have a GPU; where none says so, all of them."""
    return [group for group in groups.values() if group.on_card] or list(groups.values())


def _why_not(groups: Sequence[Group]) -> str:
    """Return why nothing folds."""
    if any(group.failed for group in groups):
        return "Folding@home has paused itself after units that failed"
    units = [unit for group in groups for unit in group.units]
    if groups and all(group.paused for group in groups):
        return "Folding@home is paused"
    if not units:
        return "Folding@home has no units"
    reasons = sorted({unit.reason for unit in units if unit.reason})
    return f"Folding@home says: {reasons[0]}" if reasons else "Folding@home has nothing on the card yet"


def _called(group: str) -> str:
    return f"Folding@home's group {group!r}" if group else "Folding@home"


# ---- Undoing: for the guardian, the next start, and `release` alike --------------------------------------------------


def undo(entry: UnpauseFolding) -> Undone:
    """Let one group fold again, or go on finishing, if it is still as we left it."""
    try:
        with FoldingClient(entry.url) as client:
            settled, sentence = go_on(client, entry.group, entry.finish)
    except FoldingTrouble as error:
        return Undone(entry, False, f"{_called(entry.group)} may still be paused by us: {error}")
    return Undone(entry, settled, f"{_called(entry.group)} {sentence}")
