"""Fusion: from what the sensors heard in one tick to P(I_t). Pure: no clock, no thread, no log.

P(t) = clamp(P(t-1)·e^(-λ·dt) + w_key·f_c + w_aud·g_a, 0, 1)
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.config.settings import Settings
from engine.telemetry.evidence import AdaptiveEvidence, Evidence, Readings, SeedEvidence, clip

GAP = 5.0  # s; longer without a tick means suspend or a stopped process: what was sensed before says nothing
LATE = 1.5  # ticks; a later one uses the true dt


@dataclass(frozen=True, slots=True)
class Fused:
    """Result of one tick. `f_c` and `g_a` in [0, 1], None while their sensor is not there."""

    probability: float
    f_c: float | None
    g_a: float | None
    evidence_at: float | None
    sensing: bool


class Fusion:
    """Carries P(I_t) from tick to tick."""

    def __init__(self, settings: Settings) -> None:
        self.probability = 0.0
        self.evidence_at: float | None = None
        self._last: float | None = None
        self._settings = settings
        self._evidence = _evidence(settings)
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take over settings; P and its history stay unless the reading of evidence changes."""
        if settings.evidence != self._settings.evidence:
            self._evidence = _evidence(settings)
        self._settings = settings
        self._tick = 1.0 / settings.telemetry_hz
        self._decay = math.exp(-settings.lambda_decay * self._tick)

    def clear(self) -> None:
        """Forget all evidence, and P with it."""
        self.probability = 0.0
        self.evidence_at = None
        self._evidence = _evidence(self._settings)

    def prompted(self, now: float) -> None:
        """Take note that a prompt arrived."""
        self._evidence.prompted(now)

    def replied(self, now: float) -> None:
        """Take note that the server finished a reply."""
        self._evidence.replied(now)

    def step(self, now: float, readings: Readings) -> Fused:
        """Fuse one tick.

        Shapes: scalars. `now`: monotonic seconds, not before the last call's.
        """
        elapsed = self._tick if self._last is None else now - self._last
        self._last = now
        if elapsed > GAP:
            self.clear()
            readings = Readings(keyboard=readings.keyboard, microphone=readings.microphone)
        if self._evidence.hear(now, readings):
            self.evidence_at = now
        f_c = self._evidence.f_c(now) if readings.keyboard else None
        g_a = self._evidence.g_a(now) if readings.microphone and readings.db is not None else None
        decay = self._decay
        if elapsed > LATE * self._tick:
            decay = math.exp(-self._settings.lambda_decay * elapsed)
        gain = self._settings.weight_key * (f_c or 0.0) + self._settings.weight_aud * (g_a or 0.0)
        self.probability = clip(self.probability * decay + gain)
        return Fused(self.probability, f_c, g_a, self.evidence_at, readings.keyboard or readings.microphone)


def loudness(squares: Iterable[float]) -> float:
    """Return dBFS of the mean of `squares` (mean squares of blocks, full scale = 1); -inf for digital silence."""
    values = tuple(squares)
    mean = sum(values) / len(values)
    return 10 * math.log10(mean) if mean > 0 else -math.inf


def _evidence(settings: Settings) -> Evidence:
    return SeedEvidence() if settings.evidence == "seed" else AdaptiveEvidence()
