"""Readings of evidence: from what was sensed to f_c and g_a in [0, 1]. Pure: no clock, no thread, no log.

Here are the founding text's own, and fixed rules: evidence ages, held keys, modifiers and shortcuts do not count, the
noise floor follows the room, a voice must last, and people take turns with the server. `learned.py` has the third.
"""

import enum
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from engine.telemetry.room import Room

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
class Window:
    """The window in front: name of its program, and its title as segments, each an opaque keyed hash."""

    app: str
    title: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sound:
    """What was heard since the last read: dBFS, -inf digital silence; probability of a voice, None: nobody can tell."""

    db: float
    voice: float | None


@dataclass(frozen=True, slots=True)
class Readings:
    """What the sensors heard since the last tick.

    `db`: loudness in dBFS, -inf digital silence, None unknown. `voice`: probability of a human voice in [0, 1], None
    where nobody can tell; then loudness stands in for it. `window`: the one in front, None unknown.
    """

    keys: tuple[KeyPress, ...] = ()
    keyboard: bool = True
    db: float | None = None
    microphone: bool = False
    voice: float | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Heard:
    """What one tick held. `touched`: somebody wrote or spoke; `evident`: that speaks for a prompt."""

    touched: bool
    evident: bool


class Evidence(Protocol):
    """A reading of evidence: keeps what it must remember between ticks. Times are monotonic seconds."""

    @property
    def known_window(self) -> bool:
        """Tell whether a window that prompts come from is in front."""

    def hear(self, now: float, readings: Readings) -> Heard:
        """Take in one tick."""

    def prompted(self, now: float) -> None:
        """Take note that a prompt arrived."""

    def replied(self, now: float) -> None:
        """Take note that the server finished a reply."""

    def disappointed(self) -> None:
        """Take note of a false positive."""

    def clear(self, *, gap: bool) -> None:
        """Forget what was sensed, and keep what is known of this user. `gap`: nobody knows how much time has passed."""

    def terms(self, now: float, carried: float, weight_key: float, weight_aud: float) -> tuple[float, float]:
        """Return f_c and g_a in [0, 1]; `carried`: what is left of P from the tick before."""


class SeedEvidence:
    """The founding text taken literally: ten timestamps that never age, mean interval; RMS. It knows no turns."""

    AUDIBLE = 0.0185  # the least steady g_a that carries P over the default threshold
    known_window = False

    def __init__(self) -> None:
        self._presses: deque[float] = deque(maxlen=WINDOW)
        self._rms = 0.0

    def hear(self, now: float, readings: Readings) -> Heard:
        """Take in one tick: presses of any kind count."""
        del now
        self._presses.extend(press.at for press in readings.keys)
        self._rms = 0.0 if readings.db is None else min(1.0, 10 ** (readings.db / 20))
        touched = bool(readings.keys) or self._rms >= self.AUDIBLE
        return Heard(touched, touched)

    def prompted(self, now: float) -> None:
        """Take no note."""

    def replied(self, now: float) -> None:
        """Take no note."""

    def disappointed(self) -> None:
        """Take no note."""

    def clear(self, *, gap: bool) -> None:
        """Forget all."""
        del gap
        self._presses.clear()
        self._rms = 0.0

    def terms(self, now: float, carried: float, weight_key: float, weight_aud: float) -> tuple[float, float]:
        """Return presses a second over the last ten, at most 1, and the RMS of the tick."""
        del now, carried, weight_key, weight_aud
        return self._pace(), self._rms

    def _pace(self) -> float:
        if len(self._presses) < 2:
            return 0.0
        mean = (self._presses[-1] - self._presses[0]) / (len(self._presses) - 1)
        return min(1.0, 1.0 / mean) if mean > 0 else 1.0


class Cadence:
    """Typing: its height in [0, 1] grows with the number of presses and their pace, and fades when they stop."""

    FULL = 4  # presses for full height
    BRISK = 0.25  # s between presses; slower typing counts less
    STALE = 2.5  # s after the last press
    MEMORY = 10.0  # s

    def __init__(self) -> None:
        self._presses: deque[float] = deque(maxlen=WINDOW)

    def take(self, now: float, presses: Iterable[KeyPress]) -> None:
        """Take in qualifying presses; Enter empties the window, since what follows is another prompt."""
        for press in presses:
            if press.kind is KeyKind.ENTER:
                self._presses.clear()
            else:
                self._presses.append(press.at)
        while self._presses and now - self._presses[0] > self.MEMORY:
            self._presses.popleft()

    def height(self, now: float) -> float:
        """Return how much this looks like writing."""
        count = len(self._presses)
        if count < 2:
            return 0.0
        age = max(0.0, now - self._presses[-1])
        if age > self.STALE:
            return 0.0
        mean = (self._presses[-1] - self._presses[0]) / (count - 1)
        return clip((count - 1) / (self.FULL - 1)) * clip(self.BRISK / max(mean, age, 1e-9))


class Turns:
    """Turn-taking: typing soon after a reply is likely the next prompt, Enters that brought none make it less so."""

    HALVING = 60.0  # s after a reply
    LEAST = 0.05
    MEMORY = 60.0  # s that an Enter without a prompt is held against what is typed
    ANSWERED = 3.0  # s within which a prompt must follow its Enter
    MOST = 6

    def __init__(self) -> None:
        self._enters: deque[float] = deque()
        self._prompted_at = -math.inf
        self._replied_at: float | None = None

    def take(self, now: float, presses: Iterable[KeyPress]) -> None:
        """Take in the presses of one tick. An Enter may be heard after its prompt was: the loop takes prompts first."""
        enters = (press.at for press in presses if press.kind is KeyKind.ENTER)
        self._enters.extend(at for at in enters if not 0 <= self._prompted_at - at <= self.ANSWERED)
        while self._enters and now - self._enters[0] > self.MEMORY:
            self._enters.popleft()

    def prompted(self, now: float) -> None:
        """Take note that the last Enters were answered by a prompt."""
        self._prompted_at = now
        while self._enters and now - self._enters[-1] <= self.ANSWERED:
            self._enters.pop()

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._replied_at = now

    def factor(self, now: float) -> float:
        """Return how much evidence counts now, in (0, 1]; before the first reply nothing is known of turns."""
        if self._replied_at is None:
            return 1.0
        missed = sum(now - at > self.ANSWERED for at in self._enters)
        fading = max(self.LEAST, 2 ** (-(now - self._replied_at) / self.HALVING))
        return float(fading * 0.5 ** min(missed, self.MOST))


class RuledEvidence:
    """Evidence that ages and takes turns, by fixed rules. It knows no windows. `hz`: ticks a second."""

    KEY_HEIGHT = 0.30
    SOUND_HEIGHT = 0.20
    known_window = False

    def __init__(self, hz: int = 10) -> None:
        self._hz = hz
        self._cadence, self._room, self._turns = Cadence(), Room(hz), Turns()

    def hear(self, now: float, readings: Readings) -> Heard:
        """Take in one tick."""
        qualifying = [press for press in readings.keys if press.kind in QUALIFYING]
        self._cadence.take(now, qualifying)
        self._turns.take(now, qualifying)
        self._room.take(readings.db, readings.voice)
        touched = bool(qualifying) or self._room.speech
        return Heard(touched, touched)

    def prompted(self, now: float) -> None:
        """Take note that a prompt arrived."""
        self._turns.prompted(now)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._turns.replied(now)

    def disappointed(self) -> None:
        """Take no note: the machine waits for quiet, and that is all."""

    def clear(self, *, gap: bool) -> None:
        """Forget what was sensed; turns are known until there is a gap."""
        self._cadence, self._room = Cadence(), Room(self._hz)
        if gap:
            self._turns = Turns()

    def terms(self, now: float, carried: float, weight_key: float, weight_aud: float) -> tuple[float, float]:
        """Return the heights of typing and of speech."""
        del carried, weight_key, weight_aud
        typing, speech = self._cadence.height(now), self._room.height()
        factor = self._turns.factor(now) if typing or speech else 0.0
        return self.KEY_HEIGHT * typing * factor, self.SOUND_HEIGHT * speech * factor


def clip(value: float) -> float:
    """Return the value, or the end of [0, 1] that it lies beyond."""
    return min(1.0, max(0.0, value))
