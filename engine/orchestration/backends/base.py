"""What every way of holding the background job looks like, and the order that keeps the job from staying held."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from engine.errors import LedgerError
from engine.orchestration.ledger import Entry, Ledger
from engine.orchestration.undoing import undo


@dataclass(frozen=True, slots=True)
class Applied:
    """What is in force. `share`: percent left to the job, 100 = not held; `verified` and `detail` as in ShareReport.

    `look_in`: seconds after which another look is worth while, where that differs from the usual.
    `lost`: units of work that the job is seen to do twice since the last answer.
    """

    share: int
    verified: bool | None
    detail: str = ""
    look_in: float | None = None
    lost: float = 0.0


class Backend(Protocol):
    """One way to hold the background job. All calls come from one thread; they may take some milliseconds.

    Whatever was in force before comes back; what somebody else changed meanwhile is left alone and said.
    """

    @property
    def name(self) -> str:
        """Its name in settings and snapshots."""

    @property
    def costly(self) -> bool:
        """The job loses work by each pause, so guesses are to be spared and it is given back late after a reply."""

    def priority(self) -> int:
        """Return how well it fits here, the highest wins; raise BackendUnavailable with the reason if it does not."""

    def apply(self, share: int) -> Applied:
        """Leave `share` percent to the job; 100 gives it back, as `release` does."""

    def verify(self) -> Applied:
        """Look again, about once a second while the job is to be held; newcomers are held too."""

    def release(self) -> Applied:
        """Give everything back; harmless when nothing is held. Raises LedgerError if something could not be."""

    def refresh(self) -> None:
        """Do ahead what would cost time in the next `apply`."""


class Safeguard:
    """Keeps the order: ledger, guardian, act; then act, guardian, ledger.

    `arm` makes sure of the guardian or raises BackendUnavailable; `rest` is called when nothing is held by this one.
    Each backend has its own, over the one ledger.
    """

    def __init__(self, ledger: Ledger, arm: Callable[[], None], rest: Callable[[], None]) -> None:
        self._ledger = ledger
        self._arm = arm
        self._rest = rest
        self._entries: list[Entry] = []  # also kept here: the file may be lost

    @property
    def holds(self) -> bool:
        """Something is written down that has to be undone."""
        return bool(self._entries)

    def before_acting(self, entries: Collection[Entry]) -> None:
        """Write down what is about to be done and arm the guardian; only on return may it be done."""
        self._entries += entries
        self._ledger.record(self._entries)  # all of them: somebody may have deleted the file
        self._arm()

    def strike(self, entries: Collection[Entry]) -> None:
        """Forget what need not be undone any more: it was not done, ended, or somebody else has changed it.

        The guardian stays armed until everything is given back: newcomers may be held at any time. It is told, since it
        remembers what it has read.
        """
        struck = set(entries)
        self._entries = [entry for entry in self._entries if entry not in struck]
        self._ledger.clear(entries)
        self._arm()

    def give_back(self) -> tuple[str, ...]:
        """Undo all of it; return sentences. Raises LedgerError if something could not be undone: call again."""
        undone = undo(self._entries)
        left = [one for one in undone if not one.settled]
        self._entries = [one.entry for one in left]
        if not left:
            self._rest()
        self._ledger.clear([one.entry for one in undone if one.settled])
        if left:
            raise LedgerError("; ".join(one.sentence for one in left))
        return tuple(dict.fromkeys(one.sentence for one in undone))
