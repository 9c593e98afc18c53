"""What a user's own outcomes add to the shipped weights: slowly, over days, and never much. Pure.

A moment with evidence is kept until what went on has ended, and then teaches: was it in a prompt, or in silence? Each
lesson moves the corrections a little along the gradient of the score's own loss, and all of them back towards the
shipped weights.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from engine.telemetry import weights

LABELLED = 60.0  # s after which a moment without a prompt has shown that none was near
SILENT = 5.0  # s without a moment: the last key or word is then 15 s old, and what went on has ended without a prompt
EVERY = 1.0  # s between two moments kept: neighbours look alike, and would count twice
STEP = 0.0002  # of one lesson, which comes once a second of writing: it takes days to change what a user notices
STEP_PLAIN = 0.00002  # the same where no window is known: there a larger one did harm on a first day
PULL = 0.02  # back to the shipped weights with each step: half of a correction is gone after weeks without errors
MOST = 1.0  # of one correction
REACH = 2.0  # of all of them together, on the scale of the score's logit
AFTER_REPLY = 3.0  # s; a prompt sooner after a reply is a program's, as in the machine's law
BIAS = "bias"


class Correction:
    """What is added to one set of weights. `names`: of the features, in the order of their values; `step`: see STEP."""

    def __init__(self, names: Iterable[str], step: float) -> None:
        self._step = step
        self._names = (*names, BIAS)
        self._added = [0.0] * len(self._names)
        self._bare = True  # nothing was learned yet, so there is nothing to add up

    def of(self, values: Sequence[float]) -> float:
        """Return what it adds to the logit, at most REACH either way. Shapes: (n,) → scalar."""
        if self._bare:
            return 0.0
        total: float = sum(map(mul, values, self._added)) + self._added[-1]
        return min(REACH, max(-REACH, total))

    def teach(self, values: Sequence[float], error: float) -> None:
        """Take one lesson; `error`: outcome, 0 or 1, less the score. Shapes: (n,), scalar."""
        keep, step = 1.0 - self._step * PULL, self._step * error
        self._added = [
            min(MOST, max(-MOST, added * keep + step * value))
            for added, value in zip(self._added, (*values, 1.0), strict=True)
        ]
        self._bare = False

    def as_dict(self) -> dict[str, float]:
        """Return what differs from nothing, by the names of features."""
        return {name: round(added, 7) for name, added in zip(self._names, self._added, strict=True) if round(added, 7)}

    def take(self, added: Mapping[str, float]) -> None:
        """Take over what was learned before; names that no weight bears any more are left out."""
        self._added = [min(MOST, max(-MOST, added.get(name, 0.0))) for name in self._names]
        self._bare = not any(self._added)


class Personal:
    """The corrections of one user: one set for where no window is known, one for where it is."""

    def __init__(self) -> None:
        self.plain = Correction(weights.PLAIN, STEP_PLAIN)
        self.with_window = Correction(weights.WITH_WINDOW, STEP)

    def fitting(self, values: Sequence[float]) -> Correction:
        """Return the set that belongs to these values."""
        return self.plain if len(values) == len(weights.PLAIN) else self.with_window


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float
    values: list[float]
    logit: float  # by the shipped weights


class Lessons:
    """Keeps moments until it is known what came of them, then learns from one a tick. Times are monotonic seconds.

    Nothing is kept while a prompt is in work: what is typed then belongs to no guess.
    """

    def __init__(self, personal: Personal) -> None:
        self._personal = personal
        self._open: deque[_Moment] = deque()
        self._known: deque[tuple[_Moment, float]] = deque()  # with what came of them
        self._kept = self._replied = float("-inf")
        self._working = False

    def keep(self, now: float, values: list[float], logit: float) -> None:
        """Keep this moment, unless one was kept just before."""
        if now - self._kept >= EVERY and not self._working:
            self._kept = now
            self._open.append(_Moment(now, values, logit))

    def pass_time(self, now: float) -> None:
        """Learn from one moment, if there is one."""
        self._close(now)
        if self._known:
            self._teach(*self._known.popleft())

    def prompted(self, now: float) -> None:
        """Take note of a prompt; one that follows a reply at once was sent by nobody, and teaches nothing."""
        self._close(now)
        if not self._working and now - self._replied > AFTER_REPLY:
            self._known.extend((moment, 1.0) for moment in self._open)
        self._open.clear()
        self._working = True

    def replied(self, now: float) -> None:
        """Begin to keep moments again."""
        self._working, self._replied = False, now

    def _close(self, now: float) -> None:
        """Let go of moments that no prompt followed."""
        silent = now - self._kept > SILENT
        while self._open and (silent or now - self._open[0].at > LABELLED):
            self._known.append((self._open.popleft(), 0.0))

    def _teach(self, moment: _Moment, outcome: float) -> None:
        correction = self._personal.fitting(moment.values)
        score = sigmoid(moment.logit + correction.of(moment.values))
        correction.teach(moment.values, outcome - score)


def sigmoid(value: float) -> float:
    """Return the share in (0, 1) that belongs to a logit."""
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, value))))
