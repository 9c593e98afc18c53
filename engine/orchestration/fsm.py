"""The machine: which state follows which, and what is to be done. Everything that changes a state stands in this file.

Pure: `step(machine, event, now, settings)` returns the next machine and its effects; it reads no clock and acts on
nothing. The law is the table LAW; what a state neither lists there nor in IGNORED raises MachineError.
"""

from dataclasses import dataclass, replace

from engine.config.settings import Settings
from engine.errors import MachineError
from engine.events import (
    CancelPreparation,
    Closing,
    Effect,
    FlagUnifiedMemory,
    KeepContext,
    MachineEvent,
    Moved,
    Paused,
    PrepareContext,
    PrepareRequested,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    ResetProbability,
    Resumed,
    ServerBack,
    ServerLost,
    ServerSlept,
    SetShare,
    SettingsChanged,
    State,
    Tick,
    Tuned,
    Why,
)
from engine.orchestration.machine import (
    ALL_DONE,
    ALWAYS,
    ASKED,
    ASKED_AND_EXPIRED,
    ATTENDED_PROMPT,
    BUSY,
    CROSSED,
    EXPIRED,
    NOT_PAUSED,
    RECENT,
    Booking,
    Guard,
    Machine,
)

COLD_IDLE, SPECULATIVE_PREPARED, ACTIVE_INFERENCE, DEGRADED = State


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the law: in `source`, on `event`, if `guard` holds, go to `target`."""

    source: State
    event: type
    guard: Guard
    target: State
    effects: tuple[Effect, ...] = ()
    why: Why | None = None  # None: the state does not change
    books: Booking | None = None


_GIVE_BACK: tuple[Effect, ...] = (CancelPreparation(), SetShare(100))
_FORGET: tuple[Effect, ...] = (*_GIVE_BACK, ResetProbability())
_PREPARE: tuple[Effect, ...] = (SetShare(10), FlagUnifiedMemory(), PrepareContext())
_SERVE: tuple[Effect, ...] = (CancelPreparation(), SetShare(0))

# The first row that fits is taken.
LAW: tuple[Rule, ...] = (
    Rule(COLD_IDLE, Tick, CROSSED, SPECULATIVE_PREPARED, _PREPARE, Why.THRESHOLD),
    Rule(COLD_IDLE, PrepareRequested, NOT_PAUSED, SPECULATIVE_PREPARED, _PREPARE, Why.THRESHOLD),
    Rule(COLD_IDLE, PromptArrived, ATTENDED_PROMPT, ACTIVE_INFERENCE, _SERVE, Why.PROMPT, Booking.FALSE_NEGATIVE),
    Rule(COLD_IDLE, PromptArrived, NOT_PAUSED, ACTIVE_INFERENCE, _SERVE, Why.PROMPT),
    Rule(COLD_IDLE, ServerBack, BUSY, ACTIVE_INFERENCE, _SERVE, Why.SERVER_BACK),
    Rule(COLD_IDLE, ServerLost, ALWAYS, DEGRADED, _GIVE_BACK, Why.SERVER_LOST),
    Rule(COLD_IDLE, Paused, ALWAYS, COLD_IDLE, _FORGET),
    Rule(COLD_IDLE, Resumed, BUSY, ACTIVE_INFERENCE, _SERVE, Why.PROMPT),
    Rule(COLD_IDLE, ReleaseRequested, ALWAYS, COLD_IDLE, _FORGET),
    Rule(COLD_IDLE, Closing, ALWAYS, COLD_IDLE, _GIVE_BACK),
    Rule(SPECULATIVE_PREPARED, PromptArrived, ASKED, ACTIVE_INFERENCE, _SERVE, Why.PROMPT),
    Rule(SPECULATIVE_PREPARED, PromptArrived, ALWAYS, ACTIVE_INFERENCE, _SERVE, Why.PROMPT, Booking.HIT),
    Rule(SPECULATIVE_PREPARED, Tick, ASKED_AND_EXPIRED, COLD_IDLE, _FORGET, Why.TIMEOUT),
    Rule(SPECULATIVE_PREPARED, Tick, EXPIRED, COLD_IDLE, _FORGET, Why.TIMEOUT, Booking.FALSE_POSITIVE),
    Rule(SPECULATIVE_PREPARED, ServerSlept, RECENT, SPECULATIVE_PREPARED, (PrepareContext(),)),
    Rule(SPECULATIVE_PREPARED, ServerBack, BUSY, ACTIVE_INFERENCE, _SERVE, Why.SERVER_BACK),
    Rule(SPECULATIVE_PREPARED, ServerLost, ALWAYS, DEGRADED, _GIVE_BACK, Why.SERVER_LOST),
    Rule(SPECULATIVE_PREPARED, Paused, ALWAYS, COLD_IDLE, _FORGET, Why.PAUSED),
    Rule(SPECULATIVE_PREPARED, ReleaseRequested, ALWAYS, COLD_IDLE, _FORGET, Why.PAUSED),
    Rule(SPECULATIVE_PREPARED, Closing, ALWAYS, COLD_IDLE, _GIVE_BACK, Why.CLOSING),
    Rule(
        ACTIVE_INFERENCE,
        PromptFinished,
        ALL_DONE,
        COLD_IDLE,
        (SetShare(100, linger=True), ResetProbability(), KeepContext()),
        Why.FINISHED,
    ),
    Rule(ACTIVE_INFERENCE, ServerBack, ALL_DONE, COLD_IDLE, _FORGET, Why.SERVER_BACK),
    Rule(ACTIVE_INFERENCE, ServerLost, ALWAYS, DEGRADED, _GIVE_BACK, Why.SERVER_LOST),
    Rule(ACTIVE_INFERENCE, Paused, ALWAYS, COLD_IDLE, _FORGET, Why.PAUSED),
    Rule(ACTIVE_INFERENCE, ReleaseRequested, ALWAYS, COLD_IDLE, _FORGET, Why.PAUSED),
    Rule(ACTIVE_INFERENCE, Closing, ALWAYS, COLD_IDLE, _GIVE_BACK, Why.CLOSING),
    Rule(DEGRADED, ServerBack, BUSY, ACTIVE_INFERENCE, (SetShare(0),), Why.SERVER_BACK),
    Rule(DEGRADED, ServerBack, ALWAYS, COLD_IDLE, (), Why.SERVER_BACK),
    Rule(DEGRADED, Paused, ALWAYS, DEGRADED, _FORGET),
    Rule(DEGRADED, ReleaseRequested, ALWAYS, DEGRADED, _GIVE_BACK),
    Rule(DEGRADED, Closing, ALWAYS, COLD_IDLE, _GIVE_BACK, Why.CLOSING),
)

# Where no row fits, these are taken note of (counts, evidence, settings) and change nothing else.
_NOTED: frozenset[type] = frozenset({Tick, PromptFinished, ServerSlept, Resumed, SettingsChanged})
IGNORED: dict[State, frozenset[type]] = {
    COLD_IDLE: _NOTED | {PromptArrived, PrepareRequested, ServerBack},
    SPECULATIVE_PREPARED: _NOTED | {PrepareRequested, ServerBack},
    ACTIVE_INFERENCE: _NOTED | {PrepareRequested, PromptArrived, ServerBack},
    DEGRADED: _NOTED | {PrepareRequested, PromptArrived, ServerLost},
}


def start(settings: Settings, now: float) -> Machine:
    """Return the machine at start: COLD_IDLE, nothing known yet."""
    return Machine(threshold=settings.initial_threshold, entered=now)


def step(machine: Machine, event: MachineEvent, now: float, settings: Settings) -> tuple[Machine, tuple[Effect, ...]]:
    """Apply one event. Raises MachineError for an event that this state must never see."""
    before = machine
    machine = _note(machine, event, now, settings)
    for rule in LAW:
        if (
            rule.source is machine.state
            and rule.event is type(event)
            and rule.guard.test(machine, event, now, settings)
        ):
            return _follow(rule, machine, before, now, settings)
    if type(event) not in IGNORED[machine.state]:
        raise MachineError(f"{type(event).__name__} in {machine.state.value}")
    return machine, _tuned(before, machine, "settings")


def _note(  # noqa: C901, PLR0911 - one return a kind of event reads best
    machine: Machine, event: MachineEvent, now: float, settings: Settings
) -> Machine:
    """Take note of what an event tells, whatever the state."""
    match event:
        case Tick():
            return _ticked(machine, event, now)
        case PromptArrived():
            return replace(machine, outstanding=machine.outstanding + 1)
        case PromptFinished():
            return replace(machine, outstanding=max(0, machine.outstanding - 1), replied_at=now)
        case ServerLost():
            return replace(machine, outstanding=0)
        case ServerBack():
            return replace(machine, outstanding=event.busy)
        case Paused():
            return replace(machine, paused=True, paused_until=None if event.seconds is None else now + event.seconds)
        case Resumed():
            return replace(machine, paused=False, paused_until=None)
        case PrepareRequested() if machine.state in (COLD_IDLE, SPECULATIVE_PREPARED) and not machine.paused:
            return replace(machine, asked_until=now + (event.seconds or settings.inactivity_timer))
        case ReleaseRequested():
            return replace(machine, quiet_from=now)
        case SettingsChanged():
            new = event.settings
            changed = new.initial_threshold != settings.initial_threshold
            return replace(machine, threshold=_within(new, new.initial_threshold if changed else machine.threshold))
        case _:
            return machine


def _ticked(machine: Machine, tick: Tick, now: float) -> Machine:
    """Take note of a tick. In the quiet it tells nothing new, ten times a second."""
    if (machine.sensing, machine.known_window) != (tick.sensing, tick.known_window):
        machine = replace(machine, sensing=tick.sensing, known_window=tick.known_window)
    # The quiet before this tick ends the hold, even if this tick brings new evidence.
    quiet_from = machine.quiet_from if machine.holding(now) else None
    touched_at = tick.evidence_at if tick.touched_at is None else tick.touched_at
    if (machine.evidence_at, machine.touched_at, machine.quiet_from) == (tick.evidence_at, touched_at, quiet_from):
        return machine
    return replace(machine, evidence_at=tick.evidence_at, touched_at=touched_at, quiet_from=quiet_from)


def _follow(
    rule: Rule, machine: Machine, before: Machine, now: float, settings: Settings
) -> tuple[Machine, tuple[Effect, ...]]:
    effects = rule.effects
    if rule.books is not None:
        machine = _book(machine, rule.books, now, settings)
    if rule.why is not None:
        machine = replace(machine, state=rule.target, entered=now, prepared_again=False)
        if rule.target is not SPECULATIVE_PREPARED:
            machine = replace(machine, asked_until=None)
        if rule.target is ACTIVE_INFERENCE:
            machine = replace(machine, quiet_from=None)
        effects = (Moved(before.state, rule.target, rule.why), *effects)
    elif rule.event is ServerSlept:
        machine = replace(machine, prepared_again=True)
    because = rule.books.value if rule.books is not None else ""
    return machine, (*effects, *_tuned(before, machine, because))


def _book(machine: Machine, booking: Booking, now: float, settings: Settings) -> Machine:
    match booking:
        case Booking.HIT:
            return replace(machine, hits=machine.hits + 1, row=0)
        case Booking.FALSE_NEGATIVE:
            lower = _within(settings, machine.threshold - settings.adjustment_step)
            return replace(machine, false_negatives=machine.false_negatives + 1, row=0, threshold=lower)
        case Booking.FALSE_POSITIVE:
            row = machine.row + 1
            threshold = machine.threshold
            if row >= settings.consecutive_false_positives_limit:
                row, threshold = 0, _within(settings, threshold + settings.adjustment_step)
            return replace(
                machine,
                false_positives=machine.false_positives + 1,
                row=row,
                threshold=threshold,
                quiet_from=now,
            )


def _within(settings: Settings, threshold: float) -> float:
    # Rounded, so that steps of 0.05 end on 0.40 and not on 0.40000000000000013.
    return round(min(settings.max_threshold, max(settings.min_threshold, threshold)), 9)


def _tuned(before: Machine, after: Machine, because: str) -> tuple[Effect, ...]:
    moved = before.threshold != after.threshold
    return (Tuned(before.threshold, after.threshold, because),) if moved else ()
