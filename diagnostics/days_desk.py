"""A simulated desk: one person's habits, and what a day's sensors and server would have shown."""

import bisect
import math
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine import trace
from engine.telemetry.evidence import KeyKind

HZ = 10
# Seconds at p10, p25, p50, p75, p90, p95 of people chatting with a language model, and of fast writers; published.
_SHARES = (0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
SLOW_INTERVAL = (0.12, 0.18, 0.29, 0.61, 1.27, 2.02)
FAST_INTERVAL = (0.06, 0.09, 0.14, 0.21, 0.40, 0.72)
KEYS_PER_PROMPT = (7, 16, 28, 40, 54, 65)
LAST_KEY_TO_SEND = (0.05, 0.9, 1.5, 2.3, 3.3, 4.4)
REPLY_TO_FIRST_KEY = (2.7, 5.7, 10.3, 19.6, 37.1, 53.1)


class Desk:
    """Collects events in any order; `events()` sorts them. `now`: where the person is, in seconds from the start."""

    def __init__(self, rng: random.Random, seconds: float, *, keyboard: bool, microphone: bool) -> None:
        self.rng = rng
        self.seconds = seconds
        self.now = 0.0
        self.keyboard, self.microphone = keyboard, microphone
        self.interval = rng.choice((SLOW_INTERVAL, FAST_INTERVAL))
        self.pace = rng.lognormvariate(0.0, 0.2)  # of this person, in typing and reading
        self.chat_in = rng.choice(("own program", "browser tab", "editor panel"))
        self.speaks = rng.choice((0.0, 0.2, 0.4)) if keyboard else 0.7  # share of prompts
        self.titles_itself = rng.random() < 0.3  # the chat asks the server for a title of each conversation
        self._events: list[trace.Event] = []
        self._names: dict[str, str] = {}
        self._noise = np.random.default_rng(rng.randrange(1 << 32))
        ticks = int(seconds * HZ)
        floor = rng.uniform(-80.0, -55.0)
        self._db: NDArray[np.float64] = floor + self._noise.normal(0.0, 1.5, ticks)
        self._voice: NDArray[np.float64] = self._noise.uniform(0.0, 8.0, ticks)
        self._floor = floor

    @property
    def over(self) -> bool:
        """Tell whether the day is over."""
        return self.now >= self.seconds

    def draw(self, table: Sequence[float]) -> float:
        """Draw from a table of p10 to p95; between its entries logarithmic, and a little beyond its ends."""
        share = self.rng.uniform(0.05, 0.98)
        right = min(max(bisect.bisect(_SHARES, share), 1), len(_SHARES) - 1)
        low, high = _SHARES[right - 1], _SHARES[right]
        a, b = math.log(table[right - 1]), math.log(table[right])
        return math.exp(a + (b - a) * (share - low) / (high - low))

    def opaque(self, words: str) -> str:
        """Return an opaque segment, the same for the same words of this day."""
        return self._names.setdefault(words, f"{self.rng.randrange(1 << 32):08x}")

    def fresh(self) -> str:
        """Return words for a title that was never seen before: a new page, file or conversation."""
        return f"title {len(self._names)}"

    def show(self, app: str, *title: str) -> None:
        """Bring a window to the front."""
        self._add(trace.Window(self.now, app, [self.opaque(words) for words in (*title, app)]))

    def press(self, kind: KeyKind = KeyKind.TEXT) -> None:
        """Press a key now; heard as a click by the microphone, too."""
        if self.keyboard:
            self._add(trace.Key(self.now, kind))
        place = int(self.now * HZ)
        if place < len(self._db):
            self._db[place] = max(self._db[place], self._floor + self._noise.uniform(4.0, 14.0))

    def write(self, keys: int, *, slower: float = 1.0) -> None:
        """Write so many keys at this person's own pace; some are capitals, some are taken back."""
        for _ in range(keys):
            self.now += self.draw(self.interval) * self.pace * slower
            chance = self.rng.random()
            if chance < 0.03:
                self.press(KeyKind.MODIFIER)
                self.now += 0.08
            self.press(KeyKind.DELETE if chance > 0.9 else KeyKind.TEXT)

    def hold(self, kind: KeyKind, seconds: float) -> None:
        """Hold a key down: a press, then repeats thirty times a second."""
        self.press(kind)
        end = self.now + seconds
        self.now += 0.5
        while self.now < end:
            self.press(KeyKind.REPEAT)
            self.now += 1 / 30

    def speak(self, seconds: float) -> None:
        """Say something: bursts of words with short pauses."""
        end = self.now + seconds
        while self.now < end:
            burst = self.rng.uniform(0.8, 4.0)
            self.sound(burst, above=self.rng.uniform(16.0, 30.0), voice=92.0)
            self.now += burst + self.rng.uniform(0.2, 0.7)

    def sound(self, seconds: float, *, above: float, voice: float) -> None:
        """Let something sound from now on, so many dB over the room; `voice` in percent."""
        start, end = int(self.now * HZ), min(int((self.now + seconds) * HZ), len(self._db))
        if end > start:
            self._db[start:end] = self._floor + above + self._noise.normal(0.0, 4.0, end - start)
            self._voice[start:end] = np.clip(self._noise.normal(voice, 6.0, end - start), 0.0, 100.0)

    def ask(self, replies_in: float | None = None) -> float:
        """Send a prompt now; return when its reply is finished."""
        return self.ask_at(self.now, replies_in)

    def ask_at(self, moment: float, replies_in: float | None = None) -> float:
        """Let a prompt arrive at a moment, whoever sent it; return when its reply is finished."""
        arrived = moment + self.rng.uniform(0.02, 0.15)
        finished = arrived + (self.rng.uniform(1.5, 10.0) if replies_in is None else replies_in)
        if finished < self.seconds:
            self._add(trace.Prompt(arrived))
            self._add(trace.Reply(finished))
        return finished

    def events(self) -> list[trace.Event]:
        """Return what was sensed and what the server did, sorted, to the millisecond."""
        found = [event for event in self._events if event.t < self.seconds]
        if not self.keyboard:
            found.append(trace.SensorChange(0.0, "keyboard", False))
        found += self._audio() if self.microphone else [trace.SensorChange(0.0, "microphone", False)]
        return sorted(found, key=lambda event: event.t)

    def _audio(self) -> list[trace.Event]:
        """Return the day's sound, a minute an event."""
        db, voice = np.rint(self._db).tolist(), np.rint(self._voice).tolist()
        each = 60 * HZ
        return [trace.Audio(place / HZ, db[place : place + each], voice[place : place + each])
                for place in range(0, len(db), each)]  # fmt: skip

    def _add(self, event: trace.Event) -> None:
        self._events.append(_rounded(event))


def _rounded(event: trace.Event) -> trace.Event:
    match event:
        case trace.Key():
            return trace.Key(round(event.t, 3), event.kind)
        case trace.Window():
            return trace.Window(round(event.t, 3), event.app, event.title)
        case trace.Prompt():
            return trace.Prompt(round(event.t, 3))
        case trace.Reply():
            return trace.Reply(round(event.t, 3))
        case _:
            return event
