"""What the status window remembers of the snapshots: curve, bands of state, marks and the day's counts. No Qt."""

import datetime as dt
import enum
import itertools
import math
from collections import deque
from dataclasses import dataclass

from engine.events import Moved, Snapshot, State, Why

_RATE = 10.0  # points kept a second, however fast the engine ticks
_SMOOTHING = 0.4  # s; time in which the drawn line follows a step of P by two thirds
POINTS = 300  # at most so many are drawn: an antialiased line costs by the point


class Kind(enum.Enum):
    """What is marked in the plot."""

    PROMPT = "prompt"
    FALSE_POSITIVE = "false positive"
    FALSE_NEGATIVE = "false negative"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment; `at`: Unix seconds, or seconds from now (negative) once asked for."""

    at: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of time in one state; times as in Mark."""

    start: float
    end: float
    state: State


@dataclass(frozen=True, slots=True)
class Counts:
    """How guesses turned out."""

    hits: int = 0
    false_positives: int = 0
    false_negatives: int = 0


class History:
    """Keeps the last `seconds` of snapshots. Times are those of the snapshots (Unix seconds)."""

    def __init__(self, seconds: float = 300.0) -> None:
        self._seconds = seconds
        self.last: Snapshot | None = None
        self._points: deque[tuple[float, float]] = deque()
        self._starts: deque[tuple[float, State]] = deque()
        self._marks: deque[Mark] = deque()
        self._day: dt.date | None = None
        self._before_today = Counts()

    def add(self, snapshot: Snapshot) -> None:
        """Take in one snapshot; a clock that was set back, or another engine, begins anew."""
        if self.last and snapshot.at < self.last.at:
            self._points.clear()
            self._starts.clear()
            self._marks.clear()
        self._mark(snapshot)
        self._count(snapshot)
        self._draw(snapshot)
        if not self._starts or self._starts[-1][1] is not snapshot.state:
            self._starts.append((snapshot.at, snapshot.state))
        self.last = snapshot
        self._forget(snapshot.at - self._seconds)

    def _draw(self, snapshot: Snapshot) -> None:
        if not self._points:
            self._points.append((snapshot.at, snapshot.probability))
            return
        at, smooth = self._points[-1]
        passed = snapshot.at - at
        if passed >= 0.9 / _RATE:
            smooth += (snapshot.probability - smooth) * (1.0 - math.exp(-passed / _SMOOTHING))
            self._points.append((snapshot.at, smooth))

    def _mark(self, snapshot: Snapshot) -> None:
        last = self.last or snapshot
        if snapshot.false_negatives > last.false_negatives:
            self._marks.append(Mark(snapshot.at, Kind.FALSE_NEGATIVE))
        elif any(map(_is_prompt, snapshot.moves)):
            self._marks.append(Mark(snapshot.at, Kind.PROMPT))
        if snapshot.false_positives > last.false_positives:
            self._marks.append(Mark(snapshot.at, Kind.FALSE_POSITIVE))

    def _count(self, snapshot: Snapshot) -> None:
        """Note at midnight what had been counted by then; an engine that began anew counts from zero."""
        day = dt.datetime.fromtimestamp(snapshot.at).astimezone().date()
        if self.last and day != self._day:
            self._before_today = _counts(self.last)
        if _less(_counts(snapshot), self._before_today):
            self._before_today = Counts()
        self._day = day

    def _forget(self, oldest: float) -> None:
        """Drop what is too old, but keep one point and one state from before: the picture begins with them."""
        while len(self._points) > 1 and self._points[1][0] < oldest:
            self._points.popleft()
        while len(self._starts) > 1 and self._starts[1][0] < oldest:
            self._starts.popleft()
        while self._marks and self._marks[0].at < oldest:
            self._marks.popleft()

    @property
    def today(self) -> Counts:
        """Return what was counted since midnight."""
        now, before = _counts(self.last) if self.last else Counts(), self._before_today
        return Counts(
            now.hits - before.hits,
            now.false_positives - before.false_positives,
            now.false_negatives - before.false_negatives,
        )

    def curve(self, span: float, part: float = math.inf) -> tuple[list[float], list[float]]:
        """Return seconds from now (≤ 0) and smoothed P of the last `span` seconds, at most POINTS + 1 of them.

        `part`: of these only the last so many seconds. Of points that share a pixel the highest is kept, and which
        share one does not change while time passes.
        """
        if not self.last:
            return [], []
        now, width = self.last.at, span / POINTS
        times: list[float] = []
        heights: list[float] = []
        pixel = math.nan
        for at, height in reversed(self._points):
            if at < now - min(span, part):
                break
            if at // width != pixel:
                pixel = at // width
                times.append(at - now)
                heights.append(height)
            elif height >= heights[-1]:
                times[-1], heights[-1] = at - now, height
        return times[::-1], heights[::-1]

    def bands(self, span: float) -> list[Band]:
        """Return the states of the last `span` seconds, oldest first."""
        if not self.last:
            return []
        now = self.last.at
        ends = [start for start, _ in itertools.islice(self._starts, 1, None)] + [now]
        pairs = zip(self._starts, ends, strict=True)
        return [Band(max(start - now, -span), end - now, state) for (start, state), end in pairs if end > now - span]

    def marks(self, span: float) -> list[Mark]:
        """Return what happened in the last `span` seconds, oldest first."""
        now = self.last.at if self.last else 0.0
        return [Mark(mark.at - now, mark.kind) for mark in self._marks if mark.at > now - span]


def _is_prompt(move: Moved) -> bool:
    return move.target is State.ACTIVE_INFERENCE and move.why is Why.PROMPT


def _counts(snapshot: Snapshot) -> Counts:
    return Counts(snapshot.hits, snapshot.false_positives, snapshot.false_negatives)


def _less(one: Counts, other: Counts) -> bool:
    return (
        one.hits < other.hits
        or one.false_positives < other.false_positives
        or one.false_negatives < other.false_negatives
    )
