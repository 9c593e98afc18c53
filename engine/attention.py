"""How closely to watch, by what the machine knows: the server, and the list of background processes. Pure."""

from dataclasses import replace

from engine.events import State, Tick
from engine.orchestration.machine import Machine

ATTENTIVE = 60.0  # s after evidence during which the server is watched closely
FRESH = 2.0  # s; evidence this young keeps the list of background processes fresh
IDLE_HZ, ALERT_HZ, WORKING_HZ = 1.0, 10.0, 20.0  # looks at the server a second


def looks(machine: Machine, now: float) -> float:
    """Return how many looks at the server a second the moment asks for."""
    if machine.state in (State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE):
        return WORKING_HZ
    return ALERT_HZ if _quiet_for(machine, now) < ATTENTIVE else IDLE_HZ


def is_fresh(machine: Machine, now: float) -> bool:
    """Tell whether somebody writes or speaks right now."""
    return _quiet_for(machine, now) < FRESH


def with_person(tick: Tick, seen_at: float | None) -> Tick:
    """Return the tick with somebody who was only seen to be there: a prompt is attended then, and no more."""
    if seen_at is None:
        return tick
    return replace(tick, touched_at=max(seen_at, tick.touched_at or seen_at), sensing=True)


def _quiet_for(machine: Machine, now: float) -> float:
    return float("inf") if machine.touched_at is None else now - machine.touched_at
