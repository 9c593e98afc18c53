"""What of fusion and machine goes into a Snapshot."""

from typing import Any

from engine.config.settings import Settings
from engine.events import Snapshot
from engine.orchestration.machine import Machine
from engine.telemetry.processor import Fusion


def of_decisions(machine: Machine, fusion: Fusion, settings: Settings, now: float, at: float, **rest: Any) -> Snapshot:
    """Return a snapshot of these two. `now`: monotonic seconds, `at`: Unix seconds; `rest`: its further fields."""
    deadline = machine.deadline(settings)
    return Snapshot(
        at=at,
        state=machine.state,
        paused=machine.paused,
        paused_for=None if machine.paused_until is None else max(0.0, machine.paused_until - now),
        probability=fusion.probability,
        threshold=machine.threshold,
        f_c=fusion.fused.f_c,
        g_a=fusion.fused.g_a,
        hits=machine.hits,
        false_positives=machine.false_positives,
        false_negatives=machine.false_negatives,
        holding=machine.holding(now),
        deadline_in=None if deadline is None else max(0.0, deadline - now),
        **rest,
    )
