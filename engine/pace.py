"""How long the loop waits between ticks, and which of them came late. Pure: time is an argument."""

from engine.telemetry.processor import LATE

REST = 1.0  # s between ticks while nothing is guessed and nothing is held: only a prompt matters then, and it wakes


class Pace:
    """A grid of ticks that stays where it is, so that lateness does not add up."""

    def __init__(self, hz: int, now: float) -> None:
        self.late = 0
        self.resting = False
        self._period = 1.0 / hz
        self._due = now
        self._last: float | None = None

    def count(self, now: float) -> None:
        """Take note of a tick at `now`."""
        if self._last is not None and now - self._last > LATE * self._period:
            self.late += 1
        self._last = now

    def set(self, hz: int, *, resting: bool) -> None:
        """Choose the distance to the next tick."""
        self.resting = resting
        self._period = REST if resting else 1.0 / hz

    def wait(self, now: float) -> float:
        """Return the seconds until the next tick; called once a tick."""
        # One missed tick is caught up with, not a whole night; and one that came early postpones none.
        self._due = min(max(self._due + self._period, now - self._period), now + self._period)
        return max(0.0, self._due - now)
