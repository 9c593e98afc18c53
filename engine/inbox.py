"""What other threads tell the loop, and how it waits for the next tick."""

import queue
import threading
from collections.abc import Iterator

from engine.events import Event, Report


class Inbox:
    """Events in their order. put() and stop() may be called from any thread, the rest belongs to the loop's."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._woken = threading.Event()

    def put(self, event: Event) -> None:
        """Add an event. What only is to be shown wakes nobody."""
        self._events.put(event)
        if not isinstance(event, Report):
            self._woken.set()

    def stop(self) -> None:
        """Let the loop end."""
        self._stopped.set()
        self._woken.set()

    @property
    def stopped(self) -> bool:
        """The loop is to end."""
        return self._stopped.is_set()

    def take(self) -> Iterator[Event]:
        """Yield what lies here, oldest first."""
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def wait(self, seconds: float, *, early: bool) -> None:
        """Wait for so long, or until stop(); `early`: or until an event that is more than a report."""
        (self._woken if early and not self.stopped else self._stopped).wait(seconds)
        self._woken.clear()  # before the next tick takes the events, so that none is slept on
