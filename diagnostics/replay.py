"""Replays recorded days through the real fusion and machine with a clock of its own, and says how well they guessed.

No user settings and nothing learned are used unless asked for; each file starts fresh, and sums are pooled.
"""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from diagnostics import replay_figures
from diagnostics.replay_figures import Day, Outcome, Preparation, summary
from engine import trace
from engine.config.settings import Settings
from engine.errors import TraceError
from engine.events import (
    MachineEvent,
    Moved,
    Paused,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    ResetProbability,
    Resumed,
    ServerBack,
    ServerLost,
    State,
    Why,
)
from engine.orchestration import fsm
from engine.orchestration.machine import Machine
from engine.telemetry.evidence import KeyPress, Readings, Window
from engine.telemetry.processor import Fused, Fusion

__all__ = ["Day", "Player", "main", "play", "summary"]

Watcher = Callable[[float, float, Machine], None]  # now, P, the machine after this tick


class Player:
    """Plays one day. The machine sees exactly what the live loop would show it. `watch` sees each tick.

    `fusion`: one that has learned on earlier days; else it starts with nothing but what is shipped.
    """

    def __init__(
        self, settings: Settings, name: str, watch: Watcher | None = None, fusion: Fusion | None = None
    ) -> None:
        self._settings = settings
        self._watch = watch
        self._fusion = fusion or Fusion(settings)
        self._machine = fsm.start(settings, 0.0)
        self._keyboard, self._microphone = settings.keyboard, settings.microphone
        self._window: Window | None = None
        self._keys: list[KeyPress] = []
        self._sounds: deque[tuple[int, trace.Audio]] = deque()  # with the tick before the first one it tells of
        self._asleep_until = 0.0
        self._entered: float | None = None
        self.day = Day(name)

    def play(self, header: trace.Header, events: Iterator[trace.Event]) -> Day:
        """Play all of it, tick by tick."""
        hz, following = header.hz, next(events, None)
        if hz != self._settings.telemetry_hz:  # of the engine that recorded; what a tick or a second is depends on it
            self._settings = replace(self._settings, telemetry_hz=hz)
            self._fusion.configure(self._settings)
        for number in range(1, int(header.duration * hz) + 1):
            now = number / hz
            while following is not None and following.t <= now:
                self._take(following, now, hz)
                following = next(events, None)
            if now >= self._asleep_until:
                self._tick(number, now)
        self._finish(header.duration)
        return self.day

    def _take(self, event: trace.Event, now: float, hz: int) -> None:
        match event:
            case trace.Key():
                self._keys.append(KeyPress(event.t, event.kind))
            case trace.Audio():
                self._sounds.append((round(event.t * hz), event))
            case trace.Prompt():
                self._prompt(event.t, now)
            case trace.Reply():
                self._fusion.replied(now)
                self._step(PromptFinished(), now)
            case trace.Server():
                self._step(ServerBack() if event.up else ServerLost("recorded"), now)
            case trace.Pause():
                self._pause(event, now)
            case trace.SensorChange():
                self._sensor(event)
            case trace.Gap():  # no ticks, as in the live loop; the fusion sees that by itself
                self._asleep_until = event.t + event.seconds - 0.5 / hz
            case trace.Window():
                self._front(event)

    def _pause(self, event: trace.Pause, now: float) -> None:
        if event.release:
            if event.on:
                self._step(ReleaseRequested(), now)
            return
        self._step(Paused() if event.on else Resumed(), now)
        if event.on:
            self._fusion.clear()

    def _sensor(self, event: trace.SensorChange) -> None:
        match event.name:
            case "keyboard":
                self._keyboard = event.on and self._settings.keyboard
            case "microphone":
                self._microphone = event.on and self._settings.microphone
            case "window":
                self._window = None  # where one is known again, it is named next
        if not self._keyboard and not self._microphone and self._window is None:
            self._fusion.clear()  # as the live loop does where it closes them: behind a locked screen, for one

    def _front(self, event: trace.Window) -> None:
        if self._settings.window_filter:
            self._window = Window(event.app, tuple(event.title))
        if not self.day.windows or self.day.windows[-1][1] != event.app:
            self.day.windows.append((event.t, event.app))

    def _prompt(self, at: float, now: float) -> None:
        state = self._machine.state
        prepared = state is State.SPECULATIVE_PREPARED and self._entered is not None
        lead = at - self._entered if prepared and self._entered is not None else None
        self.day.outcomes.append(Outcome(at, state is not State.ACTIVE_INFERENCE, lead))
        self._fusion.prompted(now)
        self._step(PromptArrived(), now)

    def _tick(self, number: int, now: float) -> None:
        db, voice = self._sound(number) if self._microphone and self._sounds else (None, None)
        keys: tuple[KeyPress, ...] = ()
        if self._keys:
            keys = tuple(self._keys)
            self._keys.clear()
        fused = self._fusion.step(now, Readings(keys, self._keyboard, db, self._microphone, voice, self._window))
        if not _changes_nothing(self._machine, fused, now, self._settings):
            self._step(fused.as_tick(), now)
        if self._watch is not None:
            self._watch(now, self._fusion.probability, self._machine)

    def _sound(self, number: int) -> tuple[float | None, float | None]:
        """Return loudness and voice of a tick; each recorded stretch is used up before the next one begins."""
        while len(self._sounds) > 1 and number > self._sounds[1][0]:
            self._sounds.popleft()
        before, sound = self._sounds[0]
        place = number - 1 - before
        if not 0 <= place < len(sound.db):
            return None, None
        return sound.db[place], sound.voice[place] / 100 if place < len(sound.voice) else None

    def _step(self, event: MachineEvent, now: float) -> None:
        self._machine, effects = fsm.step(self._machine, event, now, self._settings)
        for effect in effects:
            if isinstance(effect, ResetProbability):
                self._fusion.probability = 0.0
            elif isinstance(effect, Moved):
                if effect.why is Why.TIMEOUT:
                    self._fusion.disappointed()
                self._note(effect, now)

    def _note(self, move: Moved, now: float) -> None:
        self.day.moves.append((now, move))
        if move.target is State.SPECULATIVE_PREPARED:
            self._entered = now
        elif move.source is State.SPECULATIVE_PREPARED and self._entered is not None:
            self.day.prepared_for.append(Preparation(self._entered, now, move.why))
            self._entered = None

    def _finish(self, duration: float) -> None:
        if self._entered is not None:
            self.day.prepared_for.append(Preparation(self._entered, duration, None))
        self.day.seconds = duration
        self.day.threshold_end = self._machine.threshold


def _changes_nothing(machine: Machine, fused: Fused, now: float, settings: Settings) -> bool:
    """Tell whether the machine would surely be the same after a tick, so that it need not be asked: most of a day."""
    if (
        fused.evidence_at != machine.evidence_at
        or fused.touched_at != machine.touched_at
        or fused.sensing is not machine.sensing
        or fused.known_window is not machine.known_window
    ):
        return False
    if machine.quiet_from is not None and not machine.holding(now):
        return False
    if machine.state is State.COLD_IDLE:
        return fused.probability < machine.threshold
    deadline = machine.deadline(settings)
    return deadline is None or now < deadline


def play(path: Path, settings: Settings, watch: Watcher | None = None) -> Day:
    """Replay one file. Raises TraceError."""
    header, events = trace.read(path)
    return Player(settings, path.name, watch).play(header, events)


def main(paths: list[str], settings: Settings, *, as_json: bool, plot: Path | None = None) -> int:
    """Replay files and print how well they were guessed; 1 if one cannot be read, 2 if several are to be drawn."""
    if plot is not None and len(paths) != 1:
        print("zat-scs: --plot draws one day: name one FILE", file=sys.stderr)
        return 2
    days = []
    try:
        for number, path in enumerate(paths):
            _progress(number, len(paths), path)
            if plot is None:
                days.append(play(Path(path), settings))
            else:
                from diagnostics import day_plot  # noqa: PLC0415 - it replays by this module

                days.append(day_plot.draw(Path(path), settings, plot))
    except TraceError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return 1
    _progress(len(paths), len(paths), "")
    print(json.dumps(summary(days)) if as_json else "\n".join(replay_figures.table(days)))
    return 0


def _progress(done: int, count: int, path: str) -> None:
    if sys.stderr.isatty():
        bar = "#" * (20 * done // count)
        end = "\r" if done < count else "\r\033[K"
        print(f"[{bar:<20}] {done}/{count} {Path(path).name:<40}", end=end, file=sys.stderr, flush=True)
