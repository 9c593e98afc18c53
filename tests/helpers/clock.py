"""A clock that tests move by hand, and what to allow for where real time is measured."""

import sys
from typing import Final

# s by which a wait may end early, and by which a clock may stand back: Windows counts both in steps of 15.6 ms.
STEP: Final = 0.0 if sys.platform != "win32" else 0.032


class FakeClock:
    """Monotonic time starts at 1000 s, wall time at a fixed day."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._slept = 0.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._now

    def slept(self) -> float:
        """Return the seconds of suspend."""
        return self._slept

    def wall(self) -> float:
        """Return Unix seconds."""
        return 1_796_000_000.0 + self._now + self._slept

    def advance(self, seconds: float) -> float:
        """Let time pass; return the new time."""
        self._now += seconds
        return self._now

    def suspend(self, seconds: float) -> None:
        """Let the machine be suspended for so long: monotonic time stands still meanwhile."""
        self._slept += seconds
