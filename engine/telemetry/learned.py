"""The learned reading of evidence: one number from all that was sensed, carried into P through the same equation. Pure.

A small logistic score says how likely a prompt is within 15 s. It enters through f_c (or g_a, if it is speech that was
heard last): as much of it as lifts P to where the score says, and no more, so that the founding equation stays.
"""

import math
from operator import mul

from engine.telemetry import weights
from engine.telemetry.evidence import Heard, Readings, RuledEvidence, clip
from engine.telemetry.features import Features
from engine.telemetry.habits import PROBABLE, Habits

EVEN = 0.5  # the score at which P reaches the threshold a user starts with
EVEN_PLAIN = 0.4  # the same where no window is known, and the score is more careful
THRESHOLD = 0.65
STEEP = 4.0  # how much sharper P is than the score around that point
EVIDENT = 0.25  # score from which what is heard prolongs a preparation
CHANCES = 2  # false positives until typing alone is no longer enough for somebody whose prompts were never seen
COLD = 600.0  # s after the start for which it is

_PLAIN = tuple(weights.PLAIN.values())
_WITH_WINDOW = tuple(weights.WITH_WINDOW.values())


class LearnedEvidence:
    """Implements Evidence. `habits`: where prompts came from; filled as they come."""

    def __init__(self, habits: Habits | None = None) -> None:
        self.habits = habits or Habits()
        self._features = Features(self.habits)
        self._rules = RuledEvidence()  # until a first prompt was seen, there is nothing to go by but typing itself
        self._chances = 0 if self.habits.prompts else CHANCES
        self._started: float | None = None
        self._target = 0.0
        self._spoken = False
        self.known_window = False

    def hear(self, now: float, readings: Readings) -> Heard:
        """Take in one tick."""
        touched = self._features.hear(now, readings)
        if touched:
            self._spoken = not readings.keys
        if self._cold(now):
            return self._rules.hear(now, readings)
        if self._features.foregone(now):
            self._target, self.known_window = 0.0, False
            return Heard(touched, evident=False)
        score = self._score(now)
        self.known_window = self._features.standing.share >= PROBABLE
        return Heard(touched, evident=touched and score >= EVIDENT)

    def prompted(self, now: float) -> None:
        """Take note of a prompt: from now on the score is trusted."""
        self._chances = 0
        self.habits.prompts += 1
        self._features.prompted(now)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._features.replied(now)

    def disappointed(self) -> None:
        """Take note of a false positive."""
        self._chances -= 1

    def terms(self, now: float, carried: float, weight_key: float, weight_aud: float) -> tuple[float, float]:
        """Return f_c and g_a that lift P from `carried` to what the score says, as far as one tick can."""
        if self._cold(now):
            return self._rules.terms(now, carried, weight_key, weight_aud)
        missing = max(0.0, self._target - carried)
        if self._spoken:
            return 0.0, clip(missing / weight_aud) if weight_aud else 0.0
        return clip(missing / weight_key) if weight_key else 0.0, 0.0

    def _cold(self, now: float) -> bool:
        if self._started is None:
            self._started = now
        return self._chances > 0 and now - self._started < COLD

    def _score(self, now: float) -> float:
        """Return the score in [0, 1], and set where P is to go."""
        values = self._features.values(now)
        if len(values) == len(_PLAIN):
            logit, even = weights.PLAIN_BIAS + sum(map(mul, values, _PLAIN)), EVEN_PLAIN
        else:
            logit, even = weights.BIAS + sum(map(mul, values, _WITH_WINDOW)), EVEN
        self._target = _sigmoid(STEEP * (logit - _logit(even)) + _logit(THRESHOLD))
        return _sigmoid(logit)


def _sigmoid(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-40.0, min(40.0, value))))


def _logit(share: float) -> float:
    return math.log(share / (1.0 - share))
