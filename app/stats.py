"""What helping has brought and cost, day by day: as a table, as JSON, and in one sentence. Works without Qt."""

from collections.abc import Sequence
from typing import Any

from app.texts import tr
from engine.account import Day
from engine.benefit import saved_per_minute, total


def headline(days: Sequence[Day]) -> str:
    """Say in one sentence what these days have brought for what they cost; why not, where that is not known."""
    whole = total(days)
    held = whole.held_guessing + whole.held_serving
    if whole.measured and held and not whole.saved:
        return tr("Nothing saved yet for {time} of background work").format(time=span(held))
    ratio = saved_per_minute(whole)
    if ratio is not None:
        return tr("{seconds} s saved for each minute of background work given up").format(seconds=number(ratio))
    if whole.measured:
        return tr("{time} saved, and no background work given up").format(time=span(whole.saved))
    return tr("Nothing can be said yet: {reason}").format(reason=_unknown(whole))


def footnote(days: Sequence[Day]) -> str:
    """Say how much the sentence rests on; "" where there is nothing to rest on."""
    whole = total(days)
    if not whole.measured:
        return ""
    text = tr(
        "Prompts whose saving is known: {measured:,}. It is what your server need not compute again, at its own "
        "measured speed, and waking it. What a free card saves beside that cannot be measured, and is not counted."
    )
    return text.format(measured=whole.measured)


def number(value: float) -> str:
    """Write a number as exactly as anybody wants to read it; what is not nothing is not written as nothing."""
    if 0 < value < 0.1:
        return "< 0.1"
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}"


def span(seconds: float, *, short: bool = False) -> str:
    """Write a time in the unit that it is thought of in; `short`: from ten on without tenths."""
    if seconds < 90:
        text, value = tr("{value} s"), seconds
    elif seconds < 90 * 60:
        text, value = tr("{value} min"), seconds / 60
    else:
        text, value = tr("{value} h"), seconds / 3600
    return text.format(value=f"{value:,.0f}" if short and value >= 10 else number(value))


def table(days: Sequence[Day]) -> str:
    """Return one line a day, and their sums, for a terminal 120 wide."""
    heads = (
        tr("day"), tr("prepared"), tr("in time"), tr("false alarms"), tr("lead"), tr("tokens"), tr("saved"),
        tr("held: for guesses"), tr("for prompts"), tr("work lost"),
    )  # fmt: skip
    rows = [heads, *(_row(day, day.date) for day in days), _row(total(days), tr("all"))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def as_dict(days: Sequence[Day]) -> dict[str, Any]:
    """Return what `stats --json` prints; null is unknown, never zero."""
    whole = total(days)
    return {
        "days": [{"date": day.date, **_figures(day)} for day in days],
        "total": _figures(whole),
        "saved_per_minute": _rounded(saved_per_minute(whole)),
        "headline": headline(days),
    }


def _figures(day: Day) -> dict[str, Any]:
    return {
        "preparations": day.preparations,
        "asked": day.asked,
        "hits": day.hits,
        "false_alarms": day.false_alarms,
        "lead_mean_s": _rounded(day.lead / day.hits) if day.hits else None,
        "measured": day.measured,
        "reused_tokens": day.reused,
        "saved_s": _rounded(day.saved) if day.measured else None,
        "held_guessing_s": _rounded(day.held_guessing),
        "held_serving_s": _rounded(day.held_serving),
        "work_lost": _rounded(day.lost),
    }


def _row(day: Day, name: str) -> tuple[str, ...]:
    return (
        name,
        str(day.preparations),
        str(day.hits),
        str(day.false_alarms),
        span(day.lead / day.hits) if day.hits else "-",
        f"{day.reused:,}",
        span(day.saved) if day.measured else "-",
        span(day.held_guessing),
        span(day.held_serving),
        f"{day.lost:.2f}",
    )


def _unknown(whole: Day) -> str:
    if not whole.preparations:
        return tr("nothing was prepared")
    if not whole.hits:
        return tr("no prompt has followed a preparation")
    if whole.reused:
        return tr("the speed of your server is not known yet; a long prompt will show it")
    return tr(
        "no prompt has needed a context that was given back, or your server does not show it (start it with --metrics)"
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
