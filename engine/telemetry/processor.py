"""Fusion: from what the sensors heard in one tick to P(I_t). Pure: no clock, no thread, no log.

P(t) = clamp(P(t-1)·e^(-λ·dt) + w_key·f_c + w_aud·g_a, 0, 1)
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.config.settings import Settings
from engine.events import Tick
from engine.telemetry.evidence import Evidence, Readings, RuledEvidence, SeedEvidence, Turns, clip
from engine.telemetry.habits import Habits
from engine.telemetry.learned import LearnedEvidence
from engine.telemetry.personal import Personal
from engine.telemetry.reasons import ASKED, Ground, in_words

GAP = 5.0  # s; longer without a tick means suspend or a stopped process: what was sensed before says nothing
LATE = 1.5  # ticks; a later one uses the true dt


@dataclass(frozen=True, slots=True)
class Fused:
    """Result of one tick. `f_c` and `g_a` in [0, 1], None while their sensor is not there.

    `touched_at`: when somebody last wrote or spoke; `evidence_at`: when that last spoke for a prompt.
    """

    probability: float
    f_c: float | None
    g_a: float | None
    evidence_at: float | None
    touched_at: float | None
    sensing: bool
    known_window: bool = False

    def as_tick(self) -> Tick:
        """Return what the machine sees of it."""
        return Tick(
            self.probability,
            self.evidence_at,
            self.touched_at,
            sensing=self.sensing,
            known_window=self.known_window,
        )


class Fusion:
    """Carries P(I_t) from tick to tick. `habits`, `personal`: what was learned of this user on earlier days."""

    def __init__(self, settings: Settings, habits: Habits | None = None, personal: Personal | None = None) -> None:
        self.probability = 0.0
        self.fused = Fused(0.0, None, None, None, None, sensing=False)  # the last tick's
        self.evidence_at: float | None = None
        self.touched_at: float | None = None
        self.habits = habits or Habits()
        self.personal = personal or Personal()
        self._last: float | None = None
        self._replied_at: float | None = None
        self._terms = 0.0, 0.0  # the newest that were above 0
        self._settings = settings
        self._evidence = self._reading(settings)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take over settings; P and its history stay unless the reading of evidence, or the pace of ticks, changes."""
        before, self._settings = self._settings, settings
        if any(getattr(settings, name) != getattr(before, name) for name in ("evidence", "learned", "telemetry_hz")):
            self._evidence = self._reading(settings)
        self._tick = 1.0 / settings.telemetry_hz
        self._decay = math.exp(-settings.lambda_decay * self._tick)

    def clear(self, *, gap: bool = False) -> None:
        """Forget all evidence, and P with it; what is known of the user stays. `gap`: nobody knows how long it was."""
        self.probability = 0.0
        self.evidence_at = self.touched_at = None
        self._evidence.clear(gap=gap)

    def forget(self) -> None:
        """Forget what was learned of this user, and all evidence with it."""
        self.habits, self.personal = Habits(), Personal()
        self.clear()
        self._evidence = self._reading(self._settings)

    def prompted(self, now: float) -> None:
        """Take note that a prompt arrived."""
        self._evidence.prompted(now)

    def replied(self, now: float) -> None:
        """Take note that the server finished a reply."""
        self._replied_at = now
        self._evidence.replied(now)

    def disappointed(self) -> None:
        """Take note of a false positive."""
        self._evidence.disappointed()

    def because(self, *, asked: bool) -> str:
        """Say what a preparation rests on, in a few words for people. `asked`: somebody asked for it."""
        if asked:
            return ASKED
        since = None if self._replied_at is None or self._last is None else self._last - self._replied_at
        evidence = self._evidence
        grounds = evidence.grounds() if isinstance(evidence, LearnedEvidence) else None
        if grounds is not None:
            return in_words(grounds, since)
        f_c, g_a = self._terms
        if isinstance(evidence, SeedEvidence):
            return in_words({Ground.TYPING: f_c, Ground.SOUND: g_a}, None, shown=True)
        turn = 0.0 if since is None or since > Turns.HALVING else 1.0
        return in_words({Ground.TYPING: f_c, Ground.VOICE: g_a, Ground.TURN: turn}, since, shown=True)

    def step(self, now: float, readings: Readings) -> Fused:
        """Fuse one tick.

        Shapes: scalars. `now`: monotonic seconds, not before the last call's.
        """
        elapsed = self._tick if self._last is None else now - self._last
        self._last = now
        if elapsed > GAP:
            self.clear(gap=True)
            readings = Readings(keyboard=readings.keyboard, microphone=readings.microphone, window=readings.window)
        heard = self._evidence.hear(now, readings)
        if heard.touched:
            self.touched_at = now
        if heard.evident:
            self.evidence_at = now
        late = elapsed > LATE * self._tick
        decay = math.exp(-self._settings.lambda_decay * elapsed) if late else self._decay
        return self._fuse(now, self.probability * decay, readings)

    def _fuse(self, now: float, carried: float, readings: Readings) -> Fused:
        keys, sound = readings.keyboard, readings.microphone and readings.db is not None
        w_key = self._settings.weight_key if keys else 0.0
        w_aud = self._settings.weight_aud if sound else 0.0
        f_c, g_a = self._evidence.terms(now, carried, w_key, w_aud)
        self.probability = clip(carried + w_key * f_c + w_aud * g_a)
        if f_c or g_a:
            self._terms = f_c, g_a
        self.fused = Fused(
            self.probability,
            f_c if keys else None,
            g_a if sound else None,
            self.evidence_at,
            self.touched_at,
            readings.keyboard or readings.microphone,
            self._evidence.known_window,
        )
        return self.fused

    def _reading(self, settings: Settings) -> Evidence:
        if settings.evidence == "seed":
            return SeedEvidence()
        hz = settings.telemetry_hz
        return LearnedEvidence(self.habits, self.personal, hz=hz) if settings.learned else RuledEvidence(hz)


def loudness(squares: Iterable[float]) -> float:
    """Return dBFS of the mean of `squares` (mean squares of blocks, full scale = 1); -inf for digital silence."""
    values = tuple(squares)
    mean = sum(values) / len(values)
    return 10 * math.log10(mean) if mean > 0 else -math.inf
