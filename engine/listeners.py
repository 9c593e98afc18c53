"""Who sees each snapshot."""

import logging
from collections.abc import Callable

from engine.events import Snapshot

log = logging.getLogger(__name__)

Listener = Callable[[Snapshot], None]


class Listeners:
    """Called in the order in which they came; add() and what it returns may be called from any thread."""

    def __init__(self) -> None:
        self._all: list[Listener] = []

    def add(self, listener: Listener) -> Callable[[], None]:
        """Let `listener` see each snapshot; return how to end that."""
        self._all.append(listener)
        return lambda: self._drop(listener)

    def tell(self, snapshot: Snapshot) -> None:
        """Show a snapshot to all."""
        for listener in tuple(self._all):
            try:
                listener(snapshot)
            except Exception:
                # A broken view must not take the engine along, nor fill the log at 10 Hz.
                log.exception("a listener failed and is dropped")
                self._drop(listener)

    def _drop(self, listener: Listener) -> None:
        if listener in self._all:  # one that failed was dropped already
            self._all.remove(listener)
