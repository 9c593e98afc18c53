"""What helping has cost the background job so far. Frozen, so it may travel with a report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """Sums since the start. Only jobs that lose work by a pause are counted.

    `guesses`: pauses that no prompt had asked for when they began. `held`: seconds. `lost`: work done twice, in units
    of work (0.02: a fiftieth of one unit), as far as the job tells.
    """

    pauses: int = 0
    guesses: int = 0
    held: float = 0.0
    lost: float = 0.0


NOTHING = Account()
