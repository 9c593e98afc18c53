"""Phases (c) and (i): hours of false guesses, of sleep and of jumping clocks, by a clock of their own."""

from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.scripted import NoSound, ScriptedKeys
from diagnostics.stress_stage import Figure, Stage, Unmet
from engine.config.settings import Settings
from engine.events import (
    Event,
    Paused,
    PromptArrived,
    PromptFinished,
    ServerBack,
    ShareReport,
    Snapshot,
    State,
)
from engine.loop import Engine
from engine.orchestration.machine import AFTER_REPLY, HOLD

FALSE_NEGATIVES, FALSE_POSITIVES = 15, 50
SUSPENSIONS = 100
NIGHT = 8 * 3600.0
DAY = 86_400.0
KEY_EVERY = 0.12  # s


class VirtualClock:
    """Time that passes when it is told to; the wall's may jump by itself."""

    def __init__(self) -> None:
        self.monotonic, self.unix = 1000.0, 1_800_000_000.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.monotonic

    def wall(self) -> float:
        """Return Unix seconds."""
        return self.unix

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic += seconds
        self.unix += seconds


class ObedientShare:
    """Does what is asked at once, and reports it as the real one does. `percent` is what is in force."""

    def __init__(self, post: Callable[[Event], None]) -> None:
        self.percent = 100
        self._post = post

    def start(self) -> None:
        """Do nothing."""

    def request(self, percent: int, *, linger: bool = False) -> None:
        """Obey."""
        del linger
        self.percent = percent
        self._post(ShareReport(percent, True if percent < 100 else None, "process"))

    def expect(self) -> None:
        """Do nothing."""

    def beat(self) -> None:
        """Do nothing."""

    def reopen(self, settings: Settings) -> None:
        """Do nothing."""

    def close(self, timeout: float) -> bool:
        """Give back."""
        del timeout
        self.request(100)
        return True


class SilentLink:
    """A server's side on which nothing happens by itself."""

    def start(self) -> None:
        """Do nothing."""

    def attend(self, hz: float) -> None:
        """Do nothing."""

    def prepare(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    def keep(self) -> None:
        """Do nothing."""

    def reconfigure(self, settings: Settings) -> None:
        """Do nothing."""

    def close(self, timeout: float) -> None:
        """Do nothing."""


@dataclass
class VirtualParts:
    """Parts without threads. `held` is the share in use."""

    keys: ScriptedKeys = field(default_factory=ScriptedKeys)
    held: ObedientShare = field(default_factory=lambda: ObedientShare(lambda _: None))

    def keyboard(self) -> ScriptedKeys:
        """Return the scripted keys."""
        return self.keys

    def microphone(self) -> NoSound:
        """Return a microphone that is off."""
        return NoSound()

    def share(self, settings: Settings, post: Callable[[Event], None]) -> ObedientShare:
        """Return one that obeys."""
        del settings
        self.held = ObedientShare(post)
        return self.held

    def link(self, settings: Settings, post: Callable[[Event], None]) -> SilentLink:
        """Return one that is silent."""
        del settings, post
        return SilentLink()


class Night:
    """The real engine, ticked by a clock of its own."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.parts = VirtualParts()
        self.settings = Settings(microphone=False)
        self.engine = Engine(self.settings, self.parts, self.clock)
        self.engine.start()
        self._next_key = 0.0
        self.engine.post(ServerBack())
        self.seen = self.tick()

    def tick(self, *, typing: bool = False) -> Snapshot:
        """Let a tenth of a second pass."""
        self.clock.pass_by(0.1)
        now = self.clock.now()
        if typing and now >= self._next_key:
            self.parts.keys.press(now)
            self._next_key = now + KEY_EVERY
        self.seen = self.engine.tick(now)
        return self.seen

    def run(self, seconds: float, *, typing: bool = False) -> None:
        """Let seconds pass."""
        for _ in range(round(seconds * 10)):
            self.tick(typing=typing)

    def type_until_prepared(self) -> None:
        """Type until it prepares. Raises Unmet."""
        for _ in range(600):
            if self.tick(typing=True).state is State.SPECULATIVE_PREPARED:
                return
        raise Unmet(f"a minute of typing prepared nothing, with P {self.seen.probability:.2f}")

    def prompt(self) -> None:
        """Let a prompt come and go."""
        self.engine.post(PromptArrived())
        self.tick()
        self.engine.post(PromptFinished())
        self.tick()


def threshold(stage: Stage) -> dict[str, Figure]:
    """Miss prompts, then guess in vain: the threshold stops exactly at its ends."""
    missed, guessed = Night(), Night()
    for _ in range(FALSE_NEGATIVES):
        missed.tick(typing=True)
        missed.run(3.0)
        missed.prompt()
        missed.run(AFTER_REPLY + 1.0)
    for _ in range(FALSE_POSITIVES):
        guessed.type_until_prepared()
        guessed.run(guessed.settings.inactivity_timer + HOLD + 1.0)
        stage.progress(guessed.seen.false_positives / FALSE_POSITIVES)
        stage.check(guessed.parts.held.percent == 100, "a false alarm left the job held")
    low, high = missed.seen, guessed.seen
    stage.check(low.false_negatives == FALSE_NEGATIVES, f"{low.false_negatives} missed prompts were counted")
    stage.check(high.false_positives == FALSE_POSITIVES, f"{high.false_positives} false alarms were counted")
    stage.check(low.threshold == missed.settings.min_threshold, f"the threshold fell to {low.threshold}")
    stage.check(high.threshold == guessed.settings.max_threshold, f"the threshold rose to {high.threshold}")
    return {
        "false_negatives": low.false_negatives,
        "lowest": low.threshold,
        "false_positives": high.false_positives,
        "highest": high.threshold,
    }


# ---- (i) Suspend, and clocks that jump -------------------------------------------------------------------------------


def jumps(stage: Stage) -> dict[str, Figure]:
    """Suspend the machine in each state, and let the wall's clock jump by days both ways."""
    booked = 0
    for number in stage.rounds(SUSPENSIONS):
        asleep = (5.2, 60.0, NIGHT)[number % 3]
        booked += _suspended_while_prepared(stage, asleep)
        _suspended_while_typing(stage, asleep)
        _suspended_while_active(stage, asleep)
        _suspended_while_paused(stage, asleep)
        _wall_jumps(stage, (DAY, -DAY, 400 * DAY)[number % 3])
    return {"suspensions": 4 * stage.count(SUSPENSIONS), "wall_jumps": stage.count(SUSPENSIONS), "booked_asleep": booked}


def _woken(stage: Stage, night: Night, seconds: float) -> None:
    """Let the machine sleep, and see that what was sensed before says nothing any more."""
    night.parts.keys.press(night.clock.now())  # the last before the lid was closed
    night.clock.pass_by(seconds)
    seen = night.tick()
    stage.check(seen.probability == 0.0 and not seen.f_c, f"evidence outlived {seconds:g} s of sleep")


def _suspended_while_prepared(stage: Stage, seconds: float) -> int:
    """Return how many false alarms were booked for it: one at most, and the threshold stays."""
    night = Night()
    night.type_until_prepared()
    _woken(stage, night, seconds)
    night.run(night.settings.inactivity_timer + 1.0)
    seen = night.seen
    stage.check(seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "it stayed prepared after sleep")
    stage.check(seen.false_positives <= 1 and seen.threshold == 0.65, "sleep was booked more than once")
    night.prompt()
    stage.check(night.seen.false_negatives == 0, "a prompt after sleep, without evidence, counted as missed")
    return seen.false_positives


def _suspended_while_typing(stage: Stage, seconds: float) -> None:
    night = Night()
    night.run(0.3, typing=True)
    _woken(stage, night, seconds)
    night.run(1.0)
    stage.check(night.seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "sleep prepared something")
    night.type_until_prepared()
    night.engine.close()
    stage.check(night.parts.held.percent == 100, "closing left the job held")


def _suspended_while_active(stage: Stage, seconds: float) -> None:
    night = Night()
    night.engine.post(PromptArrived())
    night.tick()
    _woken(stage, night, seconds)
    stage.check(night.parts.held.percent == 0, "a prompt in work lost the card by sleep")
    night.engine.post(PromptFinished())
    night.run(1.0)
    stage.check(night.seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "a reply left the job held")
    stage.check(night.seen.hits + night.seen.false_positives == 0, "sleep during a prompt was booked")


def _suspended_while_paused(stage: Stage, seconds: float) -> None:
    """A pause for a time ends on time, however much of it was slept."""
    night = Night()
    night.engine.post(Paused(30.0))
    night.tick()
    _woken(stage, night, seconds)
    stage.check(night.seen.paused == (seconds < 29.0), "a pause did not end on time")
    night.run(30.0)
    stage.check(not night.seen.paused, "a pause did not end")


def _wall_jumps(stage: Stage, by: float) -> None:
    """The deadline counts from the last evidence, whatever the wall says."""
    night = Night()
    night.type_until_prepared()
    since, deadline = night.clock.now(), night.seen.deadline_in or 0.0
    night.clock.unix += by
    while night.tick().state is State.SPECULATIVE_PREPARED:
        left = deadline - (night.clock.now() - since)
        stage.check(abs((night.seen.deadline_in or 0.0) - left) < 1e-6, "the deadline moved with the wall's clock")
    took = night.clock.now() - since
    stage.check(abs(took - deadline) < 0.11, f"given back after {took:.1f} s, not {deadline:.1f} s")
    stage.check(night.parts.held.percent == 100, "the job stayed held")
    stage.check(night.seen.threshold == 0.65, "the wall's clock moved the threshold")
