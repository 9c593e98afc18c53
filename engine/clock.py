"""The one place where time is read: everything else takes `now`, in monotonic seconds, as an argument."""

import time
from typing import Protocol


class Clock(Protocol):
    """What the shells need of a clock; tests pass one that they move by hand."""

    def now(self) -> float:
        """Return monotonic seconds; only differences mean anything."""

    def wall(self) -> float:
        """Return Unix seconds, for what people and files see."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Return Unix seconds."""
        return time.time()
