"""What of the machine goes into a Snapshot."""

from engine.config.settings import Settings
from engine.events import Snapshot
from engine.orchestration.machine import Machine


def of_machine(machine: Machine, settings: Settings, now: float, at: float) -> Snapshot:
    """Return a snapshot of the machine alone. `now`: monotonic seconds, `at`: Unix seconds."""
    deadline = machine.deadline(settings)
    return Snapshot(
        at=at,
        state=machine.state,
        paused=machine.paused,
        paused_for=None if machine.paused_until is None else max(0.0, machine.paused_until - now),
        threshold=machine.threshold,
        hits=machine.hits,
        false_positives=machine.false_positives,
        false_negatives=machine.false_negatives,
        holding=machine.holding(now),
        deadline_in=None if deadline is None else max(0.0, deadline - now),
    )
