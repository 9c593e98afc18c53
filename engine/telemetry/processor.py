"""Fusion: from what the sensors heard in one tick to P(I_t). Pure: no clock, no thread, no log.

    P(t) = clamp(P(t-1)·e^(-λ·dt) + w_key·f_c + w_aud·g_a, 0, 1)

Two readings of evidence give f_c and g_a: `seed` takes the founding text literally, `adaptive` (the default) lets
evidence age, ignores held keys, modifiers and shortcuts, and follows the noise floor of the room.
"""

import enum
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.config.settings import Settings

GAP = 5.0  # s; longer without a tick means suspend or a stopped process: what was sensed before says nothing
LATE = 1.5  # ticks; a later one uses the true dt
WINDOW = 10  # presses remembered


class KeyKind(enum.Enum):
    """All that is ever known of a key press."""

    TEXT = "text"
    DELETE = "delete"
    MODIFIER = "modifier"
    ENTER = "enter"
    REPEAT = "repeat"
    NAVIGATION = "navigation"
    SHORTCUT = "shortcut"
    PASTE = "paste"


QUALIFYING = frozenset({KeyKind.TEXT, KeyKind.DELETE, KeyKind.ENTER})


@dataclass(frozen=True, slots=True)
class KeyPress:
    """A key went down at `at` (monotonic seconds)."""

    at: float
    kind: KeyKind


@dataclass(frozen=True, slots=True)
class Readings:
    """What the sensors heard since the last tick. `db`: loudness in dBFS, -inf digital silence, None unknown."""

    keys: tuple[KeyPress, ...] = ()
    keyboard: bool = True
    db: float | None = None
    microphone: bool = False


@dataclass(frozen=True, slots=True)
class Fused:
    """Result of one tick. `f_c` and `g_a` in [0, 1], None while their sensor is not there."""

    probability: float
    f_c: float | None
    g_a: float | None
    evidence_at: float | None
    sensing: bool


class Evidence(Protocol):
    """A reading of evidence: keeps what it must remember between ticks."""

    def hear(self, now: float, readings: Readings) -> bool:
        """Take in one tick; True if it held evidence of a person preparing a prompt."""

    def f_c(self, now: float) -> float:
        """Return the evidence of keys in [0, 1]."""

    def g_a(self, now: float) -> float:
        """Return the evidence of sound in [0, 1]."""


class SeedEvidence:
    """The founding text taken literally: ten timestamps that never age, mean interval; RMS."""

    AUDIBLE = 0.0185  # the least steady g_a that carries P over the default threshold

    def __init__(self) -> None:
        self._presses: deque[float] = deque(maxlen=WINDOW)
        self._rms = 0.0

    def hear(self, now: float, readings: Readings) -> bool:
        """Take in one tick: presses of any kind count."""
        del now
        self._presses.extend(press.at for press in readings.keys)
        self._rms = 0.0 if readings.db is None else min(1.0, 10 ** (readings.db / 20))
        return bool(readings.keys) or self._rms >= self.AUDIBLE

    def f_c(self, now: float) -> float:
        """Return presses a second over the last ten, at most 1."""
        del now
        if len(self._presses) < 2:
            return 0.0
        mean = (self._presses[-1] - self._presses[0]) / (len(self._presses) - 1)
        return min(1.0, 1.0 / mean) if mean > 0 else 1.0

    def g_a(self, now: float) -> float:
        """Return the RMS of the tick."""
        del now
        return self._rms


class AdaptiveEvidence:
    """Evidence that ages. Heights and times were picked on recorded typing, not on the days it is judged by."""

    KEY_HEIGHT = 0.12
    KEY_FULL = 4  # presses for full height
    KEY_BRISK = 0.25  # s; slower typing counts less
    KEY_STALE = 2.5  # s after the last press
    KEY_MEMORY = 10.0  # s
    SOUND_HEIGHT = 0.08
    SOUND_ABOVE = 6.0  # dB over the noise floor
    SOUND_RANGE = 18.0  # dB from there to full height
    SOUND_FOOT = 0.35
    FLOOR_START = -50.0  # dBFS
    FLOOR_FALL = 3.0  # dB a tick
    FLOOR_RISE = 0.1

    def __init__(self) -> None:
        self._presses: deque[float] = deque(maxlen=WINDOW)
        self._floor = self.FLOOR_START
        self._above: float | None = None

    def hear(self, now: float, readings: Readings) -> bool:
        """Take in one tick; Enter empties the window, since what follows is another prompt."""
        qualifying = [press for press in readings.keys if press.kind in QUALIFYING]
        for press in qualifying:
            if press.kind is KeyKind.ENTER:
                self._presses.clear()
            else:
                self._presses.append(press.at)
        while self._presses and now - self._presses[0] > self.KEY_MEMORY:
            self._presses.popleft()
        self._listen(readings.db)
        return bool(qualifying) or self._voice()

    def f_c(self, now: float) -> float:
        """Return the height of typing: more presses, brisk and recent, count more."""
        count = len(self._presses)
        if count < 2:
            return 0.0
        age = max(0.0, now - self._presses[-1])
        if age > self.KEY_STALE:
            return 0.0
        mean = (self._presses[-1] - self._presses[0]) / (count - 1)
        full = _clip((count - 1) / (self.KEY_FULL - 1))
        brisk = _clip(self.KEY_BRISK / max(mean, age, 1e-9))
        return self.KEY_HEIGHT * full * brisk

    def g_a(self, now: float) -> float:
        """Return the height of sound over the room's own noise."""
        del now
        if self._above is None or not self._voice():
            return 0.0
        return self.SOUND_HEIGHT * _clip((self._above - self.SOUND_ABOVE) / self.SOUND_RANGE + self.SOUND_FOOT)

    def _voice(self) -> bool:
        return self._above is not None and self._above >= self.SOUND_ABOVE

    def _listen(self, db: float | None) -> None:
        if db is None or math.isinf(db):
            # Digital silence is a muted or empty source: it says nothing about the room, so the floor stays.
            self._above = None
            return
        if db < self._floor:
            self._floor = max(db, self._floor - self.FLOOR_FALL)
        else:
            self._floor += min(self.FLOOR_RISE, db - self._floor)
        self._above = db - self._floor


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
        self.probability = _clip(self.probability * decay + gain)
        return Fused(self.probability, f_c, g_a, self.evidence_at, readings.keyboard or readings.microphone)


def loudness(squares: Iterable[float]) -> float:
    """Return dBFS of the mean of `squares` (mean squares of blocks, full scale = 1); -inf for digital silence."""
    values = tuple(squares)
    mean = sum(values) / len(values)
    return 10 * math.log10(mean) if mean > 0 else -math.inf


def _evidence(settings: Settings) -> Evidence:
    return SeedEvidence() if settings.evidence == "seed" else AdaptiveEvidence()


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))
