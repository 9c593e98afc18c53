"""Undoes what an earlier run left behind, and tries again later where that could not be done."""

import logging
from pathlib import Path

from engine.errors import LedgerError
from engine.orchestration.ledger import Ledger, Untrusted
from engine.orchestration.undoing import undo

_log = logging.getLogger(__name__)

_EVERY = 15.0  # seconds: at the start of a desktop, the job may come up after this program


def recover(path: Path) -> tuple[str, ...]:
    """Undo and clear what an earlier run left behind; return sentences that say what was done.

    A file that cannot be trusted is set aside. What cannot be given back now stays in the ledger.
    """
    ledger = Ledger(path)
    try:
        undone = undo(ledger.read())
        ledger.clear([one.entry for one in undone if one.settled])
    except Untrusted as error:
        try:
            ledger.set_aside()
        except LedgerError as further:
            return (str(error), str(further))
        return (f"{error}; it was set aside as {path.name}.refused",)
    except LedgerError as error:
        return (str(error),)
    return tuple(dict.fromkeys(one.sentence for one in undone))


class Leftovers:
    """The ledger at `path`, as far as nothing in it is held right now. Each sentence is logged once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._said: set[str] = set()
        self._due: float | None = None

    def undo(self, now: float) -> None:
        """Undo all of it; `now`: monotonic seconds."""
        for sentence in recover(self._path):
            if sentence not in self._said:
                self._said.add(sentence)
                _log.warning("Left over: %s", sentence)
        self._due = now + _EVERY if self._path.exists() else None

    def due_in(self, now: float) -> float | None:
        """Return the seconds until it should be tried again, None if there is nothing left."""
        return None if self._due is None else max(0.0, self._due - now)
