"""Snapshots as JSON: what `engine --json` writes, what the control channel carries, and the way back."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from engine.events import Moved, Snapshot, State, Why


class _Move(msgspec.Struct, frozen=True):
    source: State = msgspec.field(name="from")
    target: State = msgspec.field(name="to")
    why: Why


def transition(move: Moved) -> dict[str, str]:
    """Return a transition as readers of `engine --json` know it."""
    return {"from": move.source.value, "to": move.target.value, "why": move.why.value}


def as_dict(snapshot: Snapshot) -> dict[str, object]:
    """Return a snapshot as readers of `engine --json` know it."""
    return {
        "at": round(snapshot.at, 3),
        "state": snapshot.state.value,
        "paused": snapshot.paused,
        "paused_for": _rounded(snapshot.paused_for),
        "not_guessing": snapshot.not_guessing,
        "because": snapshot.because,
        "probability": round(snapshot.probability, 4),
        "threshold": snapshot.threshold,
        "f_c": _rounded(snapshot.f_c),
        "g_a": _rounded(snapshot.g_a),
        "background_share": snapshot.background_share,
        "background_verified": snapshot.background_verified,
        "background_detail": snapshot.background_detail,
        "linger_in": _rounded(snapshot.linger_in),
        "vram": snapshot.vram,
        "backend": snapshot.backend,
        "refused": dict(snapshot.refused),
        "server": snapshot.server.value,
        "server_detail": snapshot.server_detail,
        "unified_memory": snapshot.unified_memory,
        "context": snapshot.context.value,
        "context_tokens": snapshot.context_tokens,
        "context_detail": snapshot.context_detail,
        "hits": snapshot.hits,
        "false_positives": snapshot.false_positives,
        "false_negatives": snapshot.false_negatives,
        "holding": snapshot.holding,
        "deadline_in": _rounded(snapshot.deadline_in),
        "late_ticks": snapshot.late_ticks,
        "sensors": snapshot.sensors,
        "today": msgspec.to_builtins(snapshot.today),
        "moves": [transition(move) for move in snapshot.moves],
        "closed": snapshot.closed,
    }


def snapshot_from_dict(line: Mapping[str, object]) -> Snapshot:
    """Return the snapshot that `as_dict` made this of, but for its rounding.

    Fields that are not known are ignored, those that are missing get their defaults. Raises ValueError.
    """
    fields = {name: value for name, value in line.items() if name not in ("refused", "moves")}
    refused = msgspec.convert(line.get("refused", {}), dict[str, str])
    moves = msgspec.convert(line.get("moves", []), list[_Move])
    return replace(
        msgspec.convert(fields, Snapshot),
        refused=tuple(refused.items()),
        moves=tuple(Moved(move.source, move.target, move.why) for move in moves),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
