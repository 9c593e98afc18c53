"""The learned reading of evidence: one number from all that was sensed, carried into P through the same equation. Pure.

A small logistic score says how likely it is that what goes on will end in a prompt. It enters through f_c (or g_a, if
speech was heard last): as much of it as lifts P to where the score says, and no more, so that the founding equation
stays.
"""

import math
from collections.abc import Mapping
from operator import mul

from engine.telemetry import weights
from engine.telemetry.evidence import Heard, Readings, RuledEvidence, clip
from engine.telemetry.features import Features, Rhythm
from engine.telemetry.habits import PROBABLE, Habits
from engine.telemetry.personal import Lessons, Personal, sigmoid
from engine.telemetry.reasons import LEAST, Ground, ground_of
from engine.telemetry.weights import Weights

EVEN = 0.5  # the score at which P reaches the threshold a user starts with
EVEN_PLAIN = 0.4  # the same where no window is known, and the score is more careful
THRESHOLD = 0.65
STEEP = 4.0  # how much sharper P is than the score around that point
EVIDENT = 0.35  # score that prolongs a preparation: it outlasts a pause for thought by some seconds
LIKE_KNOWN = 0.5  # score that stands for a window that prompts come from, where none is known
CHANCES = 1  # false positives until typing alone is no longer enough for somebody whose prompts were never seen
COLD = 600.0  # s after the start for which it is


class LearnedEvidence:
    """Implements Evidence. `habits`: where prompts came from; `personal`: what is added to the weights.

    Both are filled as prompts come. `hz`: ticks a second.
    """

    def __init__(
        self,
        habits: Habits | None = None,
        personal: Personal | None = None,
        fitted: Weights = weights.SHIPPED,
        hz: int = 10,
    ) -> None:
        self._weights = fitted
        self._plain, self._with_window = tuple(fitted.plain.values()), tuple(fitted.with_window.values())
        self.habits = habits or Habits()
        self._personal = personal or Personal()
        self._hz = hz
        self._rhythm = Rhythm()
        self._rules = RuledEvidence(hz)  # until a first prompt was seen, there is nothing to go by but typing itself
        self._chances = 0 if self.habits.prompts else CHANCES
        self._started: float | None = None
        self._begin()

    def hear(self, now: float, readings: Readings) -> Heard:
        """Take in one tick."""
        touched = self._features.hear(now, readings)
        self._lessons.pass_time(now)
        if touched:
            self._spoken = not readings.keys
        if self._cold(now):
            heard = self._rules.hear(now, readings)
            # Before a prompt was seen, speech that goes on is a meeting or a film to somebody who has keys.
            return Heard(heard.touched, heard.evident and not (self._spoken and readings.keyboard))
        if self._features.foregone(now):
            self._target, self.known_window = 0.0, False
            return Heard(touched, evident=False)
        score = self._score(now)
        placed = self._features.window is not None
        self.known_window = self._features.standing.share >= PROBABLE if placed else score >= LIKE_KNOWN
        return Heard(touched, evident=score >= EVIDENT)

    def prompted(self, now: float) -> None:
        """Take note of a prompt: from now on the score is trusted."""
        self._chances = 0
        self.habits.prompts += 1
        self._lessons.prompted(now)
        self._features.prompted(now)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._lessons.replied(now)
        self._features.replied(now)

    def disappointed(self) -> None:
        """Take note of a false positive."""
        self._chances -= 1

    def clear(self, *, gap: bool) -> None:
        """Forget what was sensed; that the user was seen to prompt, or not to, and turns until there is a gap, stay."""
        self._rules.clear(gap=gap)
        if gap:
            self._rhythm.lose_time()
        self._begin()

    def terms(self, now: float, carried: float, weight_key: float, weight_aud: float) -> tuple[float, float]:
        """Return f_c and g_a that lift P from `carried` to what the score says, as far as one tick can."""
        if self._cold(now):
            return self._rules.terms(now, carried, weight_key, weight_aud)
        missing = max(0.0, self._target - carried)
        if self._spoken:
            return 0.0, clip(missing / weight_aud) if weight_aud else 0.0
        return clip(missing / weight_key) if weight_key else 0.0, 0.0

    def grounds(self) -> Mapping[Ground, float] | None:
        """Return what each ground adds to the score's logit; None while the rules decide.

        The window's part is how much more the score says than it would without any window.
        """
        if not self._values:
            return None
        plain = self._values[: len(self._plain)]
        parts = dict.fromkeys(Ground, 0.0)
        for name, weight, value in zip(self._weights.plain, self._plain, plain, strict=True):
            if (ground := ground_of(name)) is not None:
                parts[ground] += weight * value
        heard_last = Ground.VOICE if self._spoken else Ground.TYPING
        parts[heard_last] = max(parts[heard_last], LEAST)  # without it there would be no guess
        if self.known_window and self._features.window is not None:
            whole = self._weights.bias + sum(map(mul, self._values, self._with_window))
            parts[Ground.WINDOW] = max(LEAST, whole - self._weights.plain_bias - sum(map(mul, plain, self._plain)))
        return parts

    def _begin(self) -> None:
        self._lessons = Lessons(self._personal)
        self._features = Features(self.habits, self._rhythm, self._hz)
        self._target = 0.0
        self._values: list[float] = []
        self._spoken = self.known_window = False

    def _cold(self, now: float) -> bool:
        if self._started is None:
            self._started = now
        return self._chances > 0 and now - self._started < COLD

    def _score(self, now: float) -> float:
        """Return the score in [0, 1], and set where P is to go."""
        values = self._values = self._features.values(now)
        if len(values) == len(self._plain):
            logit, even = self._weights.plain_bias + sum(map(mul, values, self._plain)), EVEN_PLAIN
        else:
            logit, even = self._weights.bias + sum(map(mul, values, self._with_window)), EVEN
        self._lessons.keep(now, values, logit)
        logit += self._personal.fitting(values).of(values)
        self._target = sigmoid(STEEP * (logit - _logit(even)) + _logit(THRESHOLD))
        return sigmoid(logit)


def _logit(share: float) -> float:
    return math.log(share / (1.0 - share))
