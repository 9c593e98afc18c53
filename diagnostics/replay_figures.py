"""What a replayed day showed, and the figures made of it: pooled, by file, and by the program in front."""

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from engine.events import Moved, Why

READY = 1.0  # s; prepared for so long when the prompt arrives
SOON = 15.0  # s; being prepared without a prompt within this time is needless
UNKNOWN = "(not known)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One prompt. `foreseeable`: not in ACTIVE_INFERENCE already; `lead`: s prepared by then, None: not at all."""

    at: float
    foreseeable: bool
    lead: float | None


@dataclass(frozen=True, slots=True)
class Preparation:
    """One preparation. `why` it ended, None: the day did."""

    start: float
    end: float
    why: Why | None


@dataclass
class Day:
    """What one file showed. Times in seconds."""

    name: str
    seconds: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    prepared_for: list[Preparation] = field(default_factory=list)
    moves: list[tuple[float, Moved]] = field(default_factory=list)
    windows: list[tuple[float, str]] = field(default_factory=list)  # from when on, which program was in front
    threshold_end: float = math.nan

    @property
    def prompts(self) -> int:
        """Return how many prompts there were."""
        return len(self.outcomes)

    @property
    def arrivals(self) -> list[float]:
        """Return when they came."""
        return [outcome.at for outcome in self.outcomes]

    @property
    def foreseeable(self) -> int:
        """Return how many did not arrive in ACTIVE_INFERENCE."""
        return sum(outcome.foreseeable for outcome in self.outcomes)

    @property
    def leads(self) -> list[float]:
        """Return how long it had been prepared for each that was foreseen."""
        return [outcome.lead for outcome in self.outcomes if outcome.lead is not None]

    @property
    def ready(self) -> int:
        """Return for how many it had been prepared long enough."""
        return sum(lead >= READY for lead in self.leads)

    @property
    def preparations(self) -> int:
        """Return how often something was prepared."""
        return len(self.prepared_for)

    @property
    def useful(self) -> int:
        """Return how many preparations ended in a prompt."""
        return sum(one.why is Why.PROMPT for one in self.prepared_for)

    @property
    def false_positives(self) -> int:
        """Return how many preparations were rolled back."""
        return sum(one.why is Why.TIMEOUT for one in self.prepared_for)

    @property
    def spans(self) -> list[tuple[float, float]]:
        """Return from when to when it was prepared."""
        return [(one.start, one.end) for one in self.prepared_for]

    @property
    def prepared(self) -> float:
        """Return the seconds spent prepared."""
        return sum(end - start for start, end in self.spans)

    @property
    def needless(self) -> float:
        """Return the seconds spent prepared with no prompt in the next 15 s."""
        arrivals = self.arrivals
        return sum(end - start - _covered((start, end), arrivals) for start, end in self.spans)

    def parts(self) -> Iterator["Day"]:
        """Yield the day as one small day for each stretch with one program in front, named after it."""
        starts = [*self.windows, (self.seconds, UNKNOWN)]
        if starts[0][0] > 0:
            starts.insert(0, (0.0, UNKNOWN))
        arrivals = self.arrivals
        for (start, app), (end, _) in pairwise(starts):
            if end > start:
                yield _Part(
                    app,
                    end - start,
                    [outcome for outcome in self.outcomes if start <= outcome.at < end],
                    # A preparation that goes on in another window is false or useful where it began.
                    [
                        Preparation(max(start, one.start), min(end, one.end), one.why if start <= one.start else None)
                        for one in self.prepared_for
                        if one.start < end and one.end > start
                    ],
                    all_arrivals=arrivals,
                )


@dataclass
class _Part(Day):
    """A stretch of a day; prompts after its end still make its last seconds needed."""

    all_arrivals: list[float] = field(default_factory=list)

    @property
    def needless(self) -> float:
        """Return the seconds spent prepared with no prompt in the next 15 s, whatever window it comes in."""
        return sum(end - start - _covered((start, end), self.all_arrivals) for start, end in self.spans)


def summary(days: Iterable[Day]) -> dict[str, object]:
    """Return the pooled figures that `replay --json` prints; None for 0/0."""
    days = list(days)
    seconds = sum(day.seconds for day in days)
    leads = sorted(lead for day in days for lead in day.leads)
    foreseeable = sum(day.foreseeable for day in days)
    return {
        "traces": len(days),
        "hours": seconds / 3600,
        "prompts": sum(day.prompts for day in days),
        "recall": _ratio(len(leads), foreseeable),
        "ready_1s": _ratio(sum(day.ready for day in days), foreseeable),
        "precision": _ratio(sum(day.useful for day in days), sum(day.preparations for day in days)),
        "fp_per_hour": _ratio(3600 * sum(day.false_positives for day in days), seconds),
        "needless": _ratio(sum(day.needless for day in days), seconds),
        "prepared": _ratio(sum(day.prepared for day in days), seconds),
        "lead_p50": statistics.median(leads) if leads else None,
        "lead_p10": _quantile(leads, 0.1),
        "threshold_end": statistics.median(day.threshold_end for day in days) if days else None,
    }


def by_program(days: Iterable[Day]) -> dict[str, list[Day]]:
    """Return the stretches of these days by the program that was in front, the longest in all first."""
    found: dict[str, list[Day]] = {}
    for day in days:
        for part in day.parts():
            found.setdefault(part.name, []).append(part)
    return dict(sorted(found.items(), key=lambda item: -sum(part.seconds for part in item[1])))


def worst(days: Iterable[Day]) -> Day | None:
    """Return the day with the least prompts that were ready, in share; of equal ones that with most false alarms."""
    judged = [day for day in days if day.foreseeable]
    return min(judged, key=lambda day: (day.ready / day.foreseeable, -day.false_positives / day.seconds), default=None)


def table(days: list[Day]) -> list[str]:
    """Return lines for people: a row a file, all of them, the worst, and by program where windows are known."""
    lines = [_head("file"), *(_row(day.name, [day]) for day in days)]
    if len(days) > 1:
        lines.append(_row("all", days))
        if (least := worst(days)) is not None:
            lines.append(f"worst file: {least.name}")
    programs = by_program(days)
    if set(programs) - {UNKNOWN}:
        lines += ["", _head("program in front"), *(_row(app, parts) for app, parts in programs.items())]
    return lines


def _head(first: str) -> str:
    return f"{first:<28}{'hours':>7}{'prompts':>8}{'ready':>8}{'FP/h':>7}{'needless':>10}{'lead p50':>10}"


def _row(name: str, days: list[Day]) -> str:
    figures = summary(days)
    cells = (
        ("hours", ".1f", 7), ("prompts", "d", 8), ("ready_1s", ".3f", 8), ("fp_per_hour", ".2f", 7),
        ("needless", ".2%", 10), ("lead_p50", ".1f", 10),
    )  # fmt: skip
    words = [f"{'-' if figures[key] is None else format(figures[key], form):>{width}}" for key, form, width in cells]
    return f"{name[:27]:<28}{''.join(words)}"


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _quantile(ordered: list[float], share: float) -> float | None:
    if not ordered:
        return None
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _covered(span: tuple[float, float], arrivals: list[float]) -> float:
    """Return how many seconds of a span have a prompt within the next 15 s."""
    start, end = span
    covered, upto = 0.0, start
    for arrival in arrivals:
        if arrival < upto or arrival - SOON > end:
            continue
        left, right = max(upto, arrival - SOON), min(end, arrival)
        if right > left:
            covered += right - left
            upto = right
    return covered
