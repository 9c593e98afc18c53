"""Replays recorded days through the real fusion and machine with a clock of its own, and says how well they guessed.

No user settings and nothing learned are used unless asked for; each file starts fresh, and sums are pooled.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine import trace
from engine.config.settings import Settings
from engine.errors import TraceError
from engine.events import (
    MachineEvent,
    Moved,
    Paused,
    PromptArrived,
    PromptFinished,
    ResetProbability,
    Resumed,
    ServerBack,
    ServerLost,
    State,
    Tick,
    Why,
)
from engine.orchestration import fsm
from engine.telemetry.evidence import KeyPress, Readings
from engine.telemetry.processor import Fusion

READY = 1.0  # s; prepared for so long when the prompt arrives
SOON = 15.0  # s; being prepared without a prompt within this time is needless


@dataclass
class Day:
    """What one file showed. Times in seconds."""

    name: str
    seconds: float = 0.0
    prompts: int = 0
    foreseeable: int = 0  # prompts that did not arrive in ACTIVE_INFERENCE
    hits: int = 0
    ready: int = 0
    preparations: int = 0
    useful: int = 0  # preparations that ended in a prompt
    false_positives: int = 0
    spans: list[tuple[float, float]] = field(default_factory=list)  # prepared from, to
    leads: list[float] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    moves: list[tuple[float, Moved]] = field(default_factory=list)
    threshold_end: float = math.nan

    @property
    def prepared(self) -> float:
        """Return the seconds spent prepared."""
        return sum(end - start for start, end in self.spans)

    @property
    def needless(self) -> float:
        """Return the seconds spent prepared with no prompt in the next 15 s."""
        return sum(end - start for start, end in self.spans) - sum(_covered(span, self.arrivals) for span in self.spans)


class Player:
    """Plays one day. The machine sees exactly what the live loop would show it."""

    def __init__(self, settings: Settings, name: str) -> None:
        self._settings = settings
        self._fusion = Fusion(settings)
        self._machine = fsm.start(settings, 0.0)
        self._keyboard, self._microphone = settings.keyboard, settings.microphone
        self._paused = False
        self._keys: list[KeyPress] = []
        self._sound: list[float] = []
        self._voice: list[float] = []
        self._sound_from = 0
        self._entered: float | None = None
        self.day = Day(name)

    def play(self, header: trace.Header, events: Iterator[trace.Event]) -> Day:
        """Play all of it, tick by tick."""
        hz, following = header.hz, next(events, None)
        for number in range(1, int(header.duration * hz) + 1):
            now = number / hz
            while following is not None and following.t <= now:
                self._take(following, now, hz)
                following = next(events, None)
            self._tick(number, now)
        self._finish(header.duration)
        return self.day

    def _take(self, event: trace.Event, now: float, hz: int) -> None:
        match event:
            case trace.Key():
                self._keys.append(KeyPress(event.t, event.kind))
            case trace.Audio():
                self._sound, self._voice, self._sound_from = event.db, event.voice, round(event.t * hz)
            case trace.Prompt():
                self._prompt(event.t, now)
            case trace.Reply():
                self._fusion.replied(now)
                self._step(PromptFinished(), now)
            case trace.Server():
                self._step(ServerBack() if event.up else ServerLost("recorded"), now)
            case trace.Pause():
                self._step(Paused() if event.on else Resumed(), now)
            case trace.SensorChange():
                self._sensor(event)
            case trace.Gap():
                self._fusion.clear()
            case trace.Window():
                pass

    def _sensor(self, event: trace.SensorChange) -> None:
        if event.name == "keyboard":
            self._keyboard = event.on
        elif event.name == "microphone":
            self._microphone = event.on

    def _prompt(self, at: float, now: float) -> None:
        day, state = self.day, self._machine.state
        day.prompts += 1
        day.arrivals.append(at)
        if state is not State.ACTIVE_INFERENCE:
            day.foreseeable += 1
        if state is State.SPECULATIVE_PREPARED and self._entered is not None:
            lead = at - self._entered
            day.hits += 1
            day.ready += lead >= READY
            day.leads.append(lead)
        self._fusion.prompted(now)
        self._step(PromptArrived(), now)

    def _tick(self, number: int, now: float) -> None:
        place = number - 1 - self._sound_from
        db = self._sound[place] if self._microphone and 0 <= place < len(self._sound) else None
        voice = self._voice[place] / 100 if db is not None and place < len(self._voice) else None
        keys, self._keys = tuple(self._keys), []
        readings = Readings(keys, self._keyboard, db, self._microphone, voice)
        fused = self._fusion.step(now, readings)
        self._step(Tick(fused.probability, fused.evidence_at, fused.sensing), now)

    def _step(self, event: MachineEvent, now: float) -> None:
        self._machine, effects = fsm.step(self._machine, event, now, self._settings)
        for effect in effects:
            if isinstance(effect, ResetProbability):
                self._fusion.probability = 0.0
            elif isinstance(effect, Moved):
                self._note(effect, now)

    def _note(self, move: Moved, now: float) -> None:
        day = self.day
        day.moves.append((now, move))
        if move.target is State.SPECULATIVE_PREPARED:
            self._entered = now
            day.preparations += 1
        elif move.source is State.SPECULATIVE_PREPARED and self._entered is not None:
            day.spans.append((self._entered, now))
            day.useful += move.why is Why.PROMPT
            day.false_positives += move.why is Why.TIMEOUT
            self._entered = None

    def _finish(self, duration: float) -> None:
        if self._entered is not None:
            self.day.spans.append((self._entered, duration))
        self.day.seconds = duration
        self.day.threshold_end = self._machine.threshold


def play(path: Path, settings: Settings) -> Day:
    """Replay one file. Raises TraceError."""
    header, events = trace.read(path)
    return Player(settings, path.name).play(header, events)


def summary(days: Iterable[Day]) -> dict[str, object]:
    """Return the pooled figures that `replay --json` prints; None for 0/0."""
    days = list(days)
    seconds = sum(day.seconds for day in days)
    leads = sorted(lead for day in days for lead in day.leads)
    foreseeable = sum(day.foreseeable for day in days)
    return {
        "traces": len(days),
        "hours": seconds / 3600,
        "prompts": sum(day.prompts for day in days),
        "recall": _ratio(sum(day.hits for day in days), foreseeable),
        "ready_1s": _ratio(sum(day.ready for day in days), foreseeable),
        "precision": _ratio(sum(day.useful for day in days), sum(day.preparations for day in days)),
        "fp_per_hour": _ratio(3600 * sum(day.false_positives for day in days), seconds),
        "needless": _ratio(sum(day.needless for day in days), seconds),
        "prepared": _ratio(sum(day.prepared for day in days), seconds),
        "lead_p50": statistics.median(leads) if leads else None,
        "lead_p10": _quantile(leads, 0.1),
        "threshold_end": statistics.median(day.threshold_end for day in days) if days else None,
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _quantile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _covered(span: tuple[float, float], arrivals: list[float]) -> float:
    """Return how many seconds of a span have a prompt within the next 15 s."""
    start, end = span
    covered, upto = 0.0, start
    for arrival in arrivals:
        if arrival < upto or arrival - SOON > end:
            continue
        left, right = max(upto, arrival - SOON), min(end, arrival)
        if right > left:
            covered += right - left
            upto = right
    return covered


def main(paths: list[str], settings: Settings, *, as_json: bool) -> int:
    """Replay files and print how well they were guessed; 1 if one cannot be read."""
    days = []
    for number, path in enumerate(paths):
        _progress(number, len(paths), path)
        try:
            days.append(play(Path(path), settings))
        except TraceError as error:
            print(f"zat-scs: {error}", file=sys.stderr)
            return 1
    _progress(len(paths), len(paths), "")
    if as_json:
        print(json.dumps(summary(days)))
        return 0
    names = [*(day.name for day in days), "all"] if len(days) > 1 else [day.name for day in days]
    print(f"{'':<28}{'prompts':>8}{'ready':>8}{'FP/h':>7}{'needless':>10}{'lead p50':>10}")
    for name, figures in zip(names, [*(summary([day]) for day in days), summary(days)], strict=False):
        print(f"{name[:27]:<28}{_row(figures)}")
    return 0


def _progress(done: int, count: int, path: str) -> None:
    if sys.stderr.isatty():
        bar = "#" * (20 * done // count)
        end = "\r" if done < count else "\r\033[K"
        print(f"[{bar:<20}] {done}/{count} {Path(path).name:<40}", end=end, file=sys.stderr, flush=True)


def _row(figures: dict[str, object]) -> str:
    ready, wrong, needless, lead = (figures[key] for key in ("ready_1s", "fp_per_hour", "needless", "lead_p50"))
    cells = (
        (figures["prompts"], "8d", 8),
        (ready, ".3f", 8),
        (wrong, ".2f", 7),
        (needless, ".2%", 10),
        (lead, ".1f", 10),
    )
    return "".join(f"{'-' if value is None else format(value, form):>{width}}" for value, form, width in cells)
