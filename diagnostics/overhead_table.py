"""The figures of overhead.py as people read them: a table of the README, and lines of text."""

from collections.abc import Callable, Iterator

from diagnostics.overhead_probe import Cost, Spread
from diagnostics.overhead_run import (
    CLOSED,
    CONDITIONS,
    ENGINE,
    LOOP,
    OPEN,
    PROGRAMS,
    QUIET,
    SPEECH,
    TRAY,
    TYPING,
    Found,
)

_COLUMNS: tuple[tuple[str, Callable[[Cost], str]], ...] = (
    ("of a core, %", lambda cost: f"{cost.cpu_percent:.2f}"),
    ("wake-ups a second", lambda cost: f"{cost.wakeups_per_s:.0f}"),
    ("resident (proportional), MB", lambda cost: f"{cost.resident_mb:.0f} ({cost.proportional_mb:.0f})"),
    ("threads", lambda cost: str(cost.threads)),
    ("a tick's work p50 · p99, ms", lambda cost: _pair(cost.tick_work_ms)),
    ("between ticks p50 · p99, ms", lambda cost: _pair(cost.tick_interval_ms)),
)
_EMPTY = {ENGINE: LOOP, CLOSED: TRAY, OPEN: TRAY}
_DETECTOR = "microphone worker"


def markdown(found: Found) -> str:
    """Return a table, a row for each program in each condition, and what lies beside it."""
    titles = ("program", "meanwhile", *(title for title, _ in _COLUMNS), "over the empty one, %")
    lines = [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}"]
    for name in PROGRAMS:
        for condition in CONDITIONS:
            cost = found.costs[name][condition]
            cells = [show(cost) if cost else "-" for _, show in _COLUMNS]
            lines.append(f"| {' | '.join((name, condition, *cells, _over(found, name, condition)))} |")
    return "\n".join([*lines, "", *notes(found)])


def text(found: Found) -> str:
    """Return one line for each program in each condition, and what lies beside it."""
    lines = []
    for name in PROGRAMS:
        for condition in CONDITIONS:
            cost = found.costs[name][condition]
            cells = [f"{title} {show(cost)}" for title, show in _COLUMNS] if cost else [found.reason(name, condition)]
            lines.append(f"{f'{name}, {condition}':<28} {'; '.join(cells)}")
    return "\n".join([*lines, *notes(found)])


def notes(found: Found) -> Iterator[str]:
    """Yield sentences: how it was measured, keys, voice, helpers, and what was not measured and why."""
    load = " to ".join(f"{load:.1f}" for load in found.load) or "not known"
    yield (
        f"Measured for {found.seconds:g} s each, all programs side by side on {found.cores} cores; server: "
        f"{found.server or 'none'}; load of the machine: {load}."
    )
    if found.keys:
        keys = found.keys
        yield (
            f"A key reaches the window in front in {keys.without.p50:.2f} ms (p99 {keys.without.p99:.2f}) without the "
            f"engine, in {keys.with_engine.p50:.2f} ms (p99 {keys.with_engine.p99:.2f}) with it: "
            f"{keys.added.p50:+.2f} ms (p99 {keys.added.p99:+.2f})."
        )
    heard, before = found.costs[ENGINE][SPEECH], found.costs[ENGINE][QUIET] or found.costs[ENGINE][TYPING]
    if heard and before and _DETECTOR in heard.by_thread:
        yield (
            f"Voice detection takes {heard.by_thread[_DETECTOR]:.2f} % of a core while somebody speaks, and with the "
            f"microphone {heard.resident_mb - before.resident_mb:.0f} MB on top."
        )
    if before:
        yield f"The engine's guardian takes {before.helpers_mb:.1f} MB (proportional) beside it."
    for name, reason in found.reasons.items():
        yield f"Not measured: {name}: {reason}."


def _over(found: Found, name: str, condition: str) -> str:
    """Return how much more than the empty program of its kind it took, in percent of a core."""
    cost = found.costs[name][condition]
    empty = found.costs[_EMPTY[name]][condition] if name in _EMPTY else None
    return f"{cost.cpu_percent - empty.cpu_percent:+.2f}" if cost and empty else "-"


def _pair(values: Spread | None) -> str:
    return f"{values.p50:.2f} · {values.p99:.2f}" if values else "-"
