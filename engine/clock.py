"""The one place where time is read: everything else takes `now`, in monotonic seconds, as an argument."""

import sys
import time
from typing import Protocol

STEP = time.get_clock_info("monotonic").resolution  # s between two values of now(): 16 ms on Windows until Python 3.13


class Clock(Protocol):
    """What the shells need of a clock; tests pass one that they move by hand."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything. Waits and timeouts go by these."""

    def slept(self) -> float:
        """Return how many seconds of suspend now() has left out; only differences mean anything."""

    def wall(self) -> float:
        """Return Unix seconds, for what people and files see."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def slept(self) -> float:
        """Return the seconds that this machine was suspended; 0 on Windows, whose monotonic clock goes on meanwhile."""
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
        if sys.platform == "darwin":
            return time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - time.clock_gettime(time.CLOCK_UPTIME_RAW)
        return 0.0

    def wall(self) -> float:
        """Return Unix seconds."""
        return time.time()


class Timeline:
    """Monotonic seconds that go on in suspend, as a user's time does. Belongs to one thread.

    Who decides goes by these, so that a night is seen as the gap it is; who waits, or measures how long others take,
    goes by the clock itself: waits stand still in suspend, too, and a call in flight did not take the night.
    """

    NOTICED = 1.0  # s; two clocks are never read at the same instant

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before = clock.slept()
        self._added = 0.0

    def look(self) -> bool:
        """Take in what was slept; tell whether that is more than at the last look."""
        slept = self._clock.slept() - self._before
        if slept - self._added < self.NOTICED:
            return False
        self._added = slept
        return True

    def at(self, moment: float) -> float:
        """Return where a moment of the clock, not before the last suspend, lies on this line."""
        return moment + self._added
