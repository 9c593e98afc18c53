"""Finds out how much work a pause has cost: the job goes back to where it last saved it, and does the rest again."""

from collections.abc import Mapping

LOOK = 10.0  # seconds between two looks at a job that goes on
_LOOKS = 6  # a core needs half a minute to start and to say where it is


class LostWork:
    """Compares the progress of each unit, 0 to 1, before a pause with the least that is seen after it."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}
        self._least: dict[str, float] = {}
        self._left = 0

    @property
    def open(self) -> bool:
        """The job goes on, and it is not yet known from where."""
        return self._left > 0

    def pausing(self, progress: Mapping[str, float]) -> None:
        """Note where each unit was when it was paused."""
        self._before |= {unit: at for unit, at in progress.items() if unit not in self._before}

    def going_on(self) -> None:
        """Note that the job was given back."""
        self._left = _LOOKS if self._before else 0

    def seen(self, progress: Mapping[str, float]) -> None:
        """Note where the units are that work again."""
        for unit, at in progress.items():
            if unit in self._before:
                self._least[unit] = min(at, self._least.get(unit, at))
        self._left -= 1

    def settle(self) -> float:
        """Return what was lost, in units of work, and forget it; a little too little, for work goes on meanwhile."""
        lost = sum(max(0.0, self._before[unit] - at) for unit, at in self._least.items())
        self._before.clear()
        self._least.clear()
        self._left = 0
        return lost
