"""Undoes what an earlier run left behind, and tries again later where that could not be done."""

import logging
from pathlib import Path

from engine.orchestration.ledger import recover

_log = logging.getLogger(__name__)

_EVERY = 15.0  # seconds: at the start of a desktop, the job may come up after this program


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
