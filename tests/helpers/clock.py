"""A clock that tests move by hand."""


class FakeClock:
    """Monotonic time starts at 1000 s, wall time at a fixed day."""

    def __init__(self) -> None:
        self._now = 1000.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._now

    def wall(self) -> float:
        """Return Unix seconds."""
        return 1_796_000_000.0 + self._now

    def advance(self, seconds: float) -> float:
        """Let time pass; return the new time."""
        self._now += seconds
        return self._now
