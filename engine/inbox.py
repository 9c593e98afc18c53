"""What other threads tell the loop, and how it waits for the next tick."""

import queue
import threading
import time
from collections.abc import Iterator

from engine.events import Event, Report


class Inbox:
    """Events in their order. put() and stop() may be called from any thread, the rest belongs to the loop's."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopping = False
        self._woken = threading.Event()

    def put(self, event: Event) -> None:
        """Add an event. What only is to be shown wakes nobody."""
        self._events.put(event)
        if not isinstance(event, Report):
            self._woken.set()

    def stop(self) -> None:
        """Let the loop end after the wait it is in, a second at most.

        It takes no lock: the handler of a signal runs on the loop's own thread, which may hold any of them just then.
        """
        self._stopping = True

    @property
    def stopped(self) -> bool:
        """The loop is to end."""
        return self._stopping

    def take(self) -> Iterator[Event]:
        """Yield what lies here, oldest first."""
        while not self._events.empty():  # only this thread takes; mostly there is nothing
            yield self._events.get_nowait()

    def wait(self, seconds: float, *, early: bool) -> None:
        """Wait for so long; `early`: or until an event that is more than a report."""
        if early and not self._stopping:
            self._woken.wait(seconds)
        elif not self._stopping:
            time.sleep(seconds)
        self._woken.clear()  # before the next tick takes the events, so that none is slept on
