"""What the machine remembers, and the conditions under which its law applies. Pure: no clock, no thread, no log."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from engine.config.settings import Settings
from engine.events import MachineEvent, PromptArrived, State, Tick

HOLD = 30.0  # s without evidence after a false positive before the next guess
HOLD_KNOWN_WINDOW = 3.0  # s, where a window that prompts come from is in front
ATTENDED = 60.0  # s; evidence this young means that a person sits there
LONGEST = 300.0  # s that a guess lasts, whatever evidence goes on: the longest seen to end in a prompt took 113
AFTER_REPLY = 3.0  # s; a prompt sooner after a reply is a program's: a title, a tag, an agent's next step


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything the machine remembers. Times are monotonic seconds."""

    threshold: float
    state: State = State.COLD_IDLE
    entered: float = 0.0
    paused: bool = False
    paused_until: float | None = None  # None: until resumed
    asked_until: float | None = None  # prepared because somebody asked for it, not because it was foreseen
    outstanding: int = 0  # prompts without a reply
    evidence_at: float | None = None
    touched_at: float | None = None
    sensing: bool = False
    known_window: bool = False
    quiet_from: float | None = None  # set by a false positive: holding until it was quiet for long enough
    replied_at: float | None = None
    prepared_again: bool = False  # the server fell asleep while prepared and was woken once more
    row: int = 0  # false positives in a row
    hits: int = 0
    false_positives: int = 0
    false_negatives: int = 0

    def last_evidence(self, since: float) -> float:
        """Return the later of `since` and the last evidence."""
        return since if self.evidence_at is None else max(since, self.evidence_at)

    def holding(self, now: float) -> bool:
        """Tell whether it still waits for quiet after a false positive."""
        if self.quiet_from is None:
            return False
        return now - self.last_evidence(self.quiet_from) < (HOLD_KNOWN_WINDOW if self.known_window else HOLD)

    def deadline(self, settings: Settings) -> float | None:
        """Return when a preparation without a prompt ends; None while nothing is prepared."""
        if self.state is not State.SPECULATIVE_PREPARED:
            return None
        if self.asked_until is not None:
            return self.asked_until
        start = self.entered if settings.timer_from == "entry" else self.last_evidence(self.entered)
        return min(start + settings.inactivity_timer, self.entered + max(LONGEST, settings.inactivity_timer))


class Booking(enum.Enum):
    """What a transition says about the guess before it."""

    HIT = "hit"
    FALSE_POSITIVE = "false positive"
    FALSE_NEGATIVE = "false negative"


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition with its words for people."""

    words: str
    test: Callable[[Machine, MachineEvent, float, Settings], bool]


def _crossed(machine: Machine, event: MachineEvent, now: float, settings: Settings) -> bool:
    del settings
    above = isinstance(event, Tick) and event.probability >= machine.threshold and event.pays
    return above and not machine.paused and not machine.holding(now)


def _expired(machine: Machine, event: MachineEvent, now: float, settings: Settings) -> bool:
    del event
    deadline = machine.deadline(settings)
    return deadline is not None and now >= deadline


def _attended(machine: Machine, event: MachineEvent, now: float, settings: Settings) -> bool:
    del settings
    return (
        isinstance(event, PromptArrived)
        and machine.sensing
        and not machine.paused
        and not machine.holding(now)
        and machine.touched_at is not None
        and now - machine.touched_at <= ATTENDED
        and (machine.replied_at is None or now - machine.replied_at > AFTER_REPLY)
    )


def _recent(machine: Machine, event: MachineEvent, now: float, settings: Settings) -> bool:
    del event
    fresh = machine.evidence_at is not None and now - machine.evidence_at < settings.inactivity_timer
    return fresh and not machine.prepared_again


ALWAYS = Guard("", lambda *_: True)
CROSSED = Guard("P ≥ threshold, it pays, not holding, not paused", _crossed)
EXPIRED = Guard(f"INACTIVITY_TIMER over (counted as TIMER_FROM says), or prepared for {LONGEST:g} s", _expired)
ATTENDED_PROMPT = Guard("attended", _attended)
ASKED = Guard("it was asked for", lambda machine, *_: machine.asked_until is not None)
ASKED_AND_EXPIRED = Guard(
    "it was asked for, and the time asked for is over",
    lambda machine, event, now, settings: machine.asked_until is not None and _expired(machine, event, now, settings),
)
RECENT = Guard("evidence younger than INACTIVITY_TIMER, first time", _recent)
NOT_PAUSED = Guard("not paused", lambda machine, *_: not machine.paused)
BUSY = Guard("prompts in work, not paused", lambda machine, *_: machine.outstanding > 0 and not machine.paused)
ALL_DONE = Guard("as many replies as prompts", lambda machine, *_: machine.outstanding == 0)
