"""Draws one replayed day as SVG, in plain Python: a row an hour with P, threshold, states, prompts and misses."""

import math
from pathlib import Path
from xml.sax.saxutils import escape

from diagnostics import replay
from diagnostics.replay_figures import READY, Day
from engine import trace
from engine.config.settings import Settings
from engine.errors import TraceError
from engine.events import State, Why
from engine.orchestration.machine import Machine

_COLUMNS = 1200  # of one row; each shows the highest P of its stretch, so that no peak is lost
_ROWS = 12  # at most; a longer day has longer rows
_LEFT, _RIGHT, _TOP, _TALL, _APART, _BAND = 70, 20, 84, 62, 30, 8
_BANDS = {
    State.SPECULATIVE_PREPARED: ("#7fb2e5", "prepared"),
    State.ACTIVE_INFERENCE: ("#5aa469", "a prompt in work"),
    State.DEGRADED: ("#b0b0b0", "no server"),
}
# Told apart by shape as well as by colour.
_READY, _LATE, _MISSED, _FALSE = "ready", "late", "missed", "false"
_MARKS = {
    _READY: ("#2e6b2e", "prompt, ready"),
    _LATE: ("#8a5a00", "prompt, prepared for less than 1 s"),
    _MISSED: ("#b3261e", "prompt, not foreseen"),
    _FALSE: ("#5b3fa0", "false positive"),
}


class _Course:
    """Keeps what is drawn of each tick: the highest P, the threshold, the states, by columns."""

    def __init__(self, columns: int, seconds: float) -> None:
        self._each = seconds / columns
        self.highest = [0.0] * columns
        self.threshold = [0.0] * columns
        self.states: list[set[State]] = [set() for _ in range(columns)]

    def see(self, now: float, probability: float, machine: Machine) -> None:
        """Take one tick."""
        column = min(len(self.highest) - 1, int(now / self._each))
        self.highest[column] = max(self.highest[column], probability)
        self.threshold[column] = machine.threshold
        self.states[column].add(machine.state)


def draw(path: Path, settings: Settings, picture: Path) -> Day:
    """Replay a day and draw it; return what it showed. Raises TraceError where one cannot be read or written."""
    header, events = trace.read(path)
    rows = min(_ROWS, max(1, math.ceil(header.duration / 3600)))
    seconds = max(1.0, header.duration if rows == 1 else math.ceil(header.duration / 3600 / rows) * 3600.0 * rows)
    course = _Course(_COLUMNS * rows, seconds)
    day = replay.Player(settings, path.name, course.see).play(header, events)
    try:
        picture.write_text(_svg(day, course, rows, seconds / rows), "utf-8")
    except OSError as error:
        raise TraceError(f"{picture}: cannot be written: {error.strerror or error}") from None
    return day


def _svg(day: Day, course: _Course, rows: int, row_seconds: float) -> str:
    height = _TOP + rows * (_TALL + _BAND + _APART)
    parts = [*_legend(), *(part for row in range(rows) for part in _row(day, course, row, row_seconds))]
    parts += [_mark(min(at, rows * row_seconds - 1), what, row_seconds) for at, what in _marks(day)]
    title = f"{day.name}: {day.prompts} prompts, {day.false_positives} false positives in {day.seconds / 3600:.1f} h"
    look = 'role="img" font-family="sans-serif" font-size="12" fill="#202020"'
    width = _LEFT + _COLUMNS + _RIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {look}>',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            f'<text x="{_LEFT}" y="24" font-size="15">{escape(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _row(day: Day, course: _Course, row: int, row_seconds: float) -> list[str]:
    """Draw one stretch: P as an area, the threshold as a dashed line, the states as a band below."""
    top, floor = _top(row), _top(row) + _TALL
    first, last = row * _COLUMNS, (row + 1) * _COLUMNS
    shown = min(_COLUMNS, max(0, math.ceil((day.seconds / row_seconds - row) * _COLUMNS)))
    area, line = (
        " ".join(f"{_LEFT + place},{floor - _TALL * value:.1f}" for place, value in _corners(values))
        for values in (course.highest[first:last][:shown], course.threshold[first:last][:shown])
    )
    return [
        f'<line x1="{_LEFT}" y1="{floor}" x2="{_LEFT + _COLUMNS}" y2="{floor}" stroke="#c8c8c8"/>',
        *(band for state in _BANDS if (band := _band(course.states[first:last], state, floor))),
        f'<polygon points="{_LEFT},{floor} {area} {_LEFT + shown},{floor}" fill="#c9d8ea" stroke="#00629d"/>',
        f'<polyline points="{line}" fill="none" stroke="#b3261e" stroke-dasharray="6 4"/>',
        f'<text x="{_LEFT - 8}" y="{floor}" text-anchor="end">{_clock(row * row_seconds)}</text>',
        f'<text x="{_LEFT - 8}" y="{top + 8}" text-anchor="end" fill="#606060">P = 1</text>',
    ]


def _corners(values: list[float]) -> list[tuple[int, float]]:
    """Return the points at which a curve changes, so that a quiet hour takes no room."""
    return [
        (place, value)
        for place, value in enumerate(values)
        if place in (0, len(values) - 1)
        or abs(value - values[place - 1]) > 0.001
        or abs(value - values[place + 1]) > 0.001
    ]


def _band(states: list[set[State]], state: State, floor: float) -> str:
    """Draw where a state was: one path of all its stretches."""
    steps, since = [], None
    for place, seen in enumerate([*states, set()]):
        if state in seen and since is None:
            since = place
        elif state not in seen and since is not None:
            steps.append(f"M{_LEFT + since},{floor + 1}h{place - since}v{_BAND}h{since - place}z")
            since = None
    return f'<path d="{"".join(steps)}" fill="{_BANDS[state][0]}"/>' if steps else ""


def _marks(day: Day) -> list[tuple[float, str]]:
    marks = [(one.end, _FALSE) for one in day.prepared_for if one.why is Why.TIMEOUT]
    for outcome in day.outcomes:
        if outcome.lead is not None:
            marks.append((outcome.at, _READY if outcome.lead >= READY else _LATE))
        elif outcome.foreseeable:
            marks.append((outcome.at, _MISSED))
    return marks


def _mark(at: float, what: str, row_seconds: float) -> str:
    row, within = divmod(at / row_seconds, 1.0)
    return f'<g class="{what}">{_shape(_LEFT + within * _COLUMNS, _top(int(row)) - 6, what)}</g>'


def _shape(x: float, y: float, what: str) -> str:
    colour, _ = _MARKS[what]
    if what == _FALSE:
        return f'<path d="M{x - 4:.1f},{y - 4}l8,8m0,-8l-8,8" stroke="{colour}" stroke-width="2"/>'
    fill = colour if what == _READY else "#ffffff"
    if what == _MISSED:
        return f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/>'
    return f'<path d="M{x - 4:.1f},{y - 4}h8l-4,8z" fill="{fill}" stroke="{colour}"/>'


def _legend() -> list[str]:
    parts, x = [], float(_LEFT)
    for what, (_, words) in _MARKS.items():
        parts += [_shape(x, 46, what), f'<text x="{x + 10}" y="50">{words}</text>']
        x += 40 + 6.6 * len(words)
    for colour, words in _BANDS.values():
        parts += [
            f'<rect x="{x:.1f}" y="42" width="14" height="{_BAND}" fill="{colour}"/>',
            f'<text x="{x + 20:.1f}" y="50">{words}</text>',
        ]
        x += 50 + 6.6 * len(words)
    return parts


def _top(row: int) -> int:
    return _TOP + row * (_TALL + _BAND + _APART)


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02d}"
