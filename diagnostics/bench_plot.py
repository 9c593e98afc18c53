"""Draws the figures of a benchmark as SVG, in plain Python: bars of one length of context, or lines over several."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 720, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 30, 60, 60
# Told apart by shape and label as well as by colour.
_STYLES = {
    "cold": ("#b3261e", "", "cold"),
    "reactive": ("#8a5a00", "8 4", "reactive"),
    "any_key": ("#5b3fa0", "2 3", "any key"),
    "prepared": ("#00629d", "", "prepared"),
    "warm": ("#2e6b2e", "6 3", "warm"),
}


def bars(path: Path, title: str, values: dict[str, float | None], spreads: dict[str, dict[str, float]]) -> None:
    """Write a bar for each kind, in ms, with its range. Raises OSError."""
    shown = {kind: value for kind, value in values.items() if value is not None}
    top = max([*(seen["high"] for seen in spreads.values()), *shown.values(), 1.0])
    parts = []
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(shown))
    for index, (kind, value) in enumerate(shown.items()):
        x, width = _LEFT + step * (index + 0.2), step * 0.6
        y, middle = _linear(value, top), x + width / 2
        colour, _, label = _STYLES[kind]
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_floor() - y:.1f}" fill="{colour}"/>')
        if kind in spreads:
            low, high = (_linear(spreads[kind][end], top) for end in ("low", "high"))
            parts.append(_line([(middle, low), (middle, high)], "#202020"))
        parts.append(
            _text(middle, min(y, _linear(spreads.get(kind, {}).get("high", value), top)) - 8, f"{value:,.0f} ms")
        )
        parts.append(_text(middle, _floor() + 20, label))
    path.write_text(_picture(title, parts), "utf-8")


def lines(path: Path, title: str, points: Sequence[dict[str, Any]]) -> None:
    """Write a line for each kind over the tokens of context; both axes are logarithmic. Raises OSError."""
    series = {kind: [(p["tokens"], p[kind]) for p in points if p.get(kind) and p["tokens"]] for kind in _STYLES}
    series = {kind: pairs for kind, pairs in series.items() if pairs}
    across = [tokens for pairs in series.values() for tokens, _ in pairs] or [1, 10]
    values = [value for pairs in series.values() for _, value in pairs] or [1.0, 10.0]
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.01))
    parts = []
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        y = _log(10.0**power, low, high, _floor(), _TOP)
        parts += [
            _line([(_LEFT, y), (_WIDTH - _RIGHT, y)], "#d8d8d8"),
            _text(_LEFT - 8, y + 4, f"{10.0**power:,g}", "end"),
        ]
    for index, (kind, pairs) in enumerate(series.items()):
        colour, dash, label = _STYLES[kind]
        spots = [(_across(tokens, across), _log(value, low, high, _floor(), _TOP)) for tokens, value in pairs]
        parts.append(_line(spots, colour, dash, 2.0))
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in spots]
        left = _LEFT + index * 120
        parts += [_line([(left, 44), (left + 28, 44)], colour, dash, 2.0), _text(left + 34, 48, label, "start")]
    parts += [_text(_across(tokens, across), _floor() + 20, f"{tokens:,}") for tokens in sorted(set(across))]
    parts.append(_text(_WIDTH / 2, _HEIGHT - 12, "tokens of context; time to first token in ms"))
    path.write_text(_picture(title, parts), "utf-8")


def _floor() -> float:
    return _HEIGHT - _BOTTOM


def _linear(value: float, top: float) -> float:
    return _floor() - (_floor() - _TOP - 10) * value / top


def _across(tokens: int, all_of_them: Sequence[int]) -> float:
    low, high = min(all_of_them), max(all_of_them)
    if low == high:
        return _WIDTH / 2
    return _log(tokens, low, high, _LEFT + 40, _WIDTH - _RIGHT - 40)


def _log(value: float, low: float, high: float, start: float, end: float) -> float:
    return start + (end - start) * math.log(value / low) / math.log(high / low)


def _line(spots: Sequence[tuple[float, float]], colour: str, dash: str = "", width: float = 1.0) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _picture(title: str, parts: Sequence[str]) -> str:
    look = 'role="img" font-family="sans-serif" font-size="13" fill="#202020"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {look}>',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
            f'<text x="{_WIDTH / 2}" y="26" text-anchor="middle" font-size="15">{escape(title)}</text>',
            _line([(_LEFT, _floor()), (_WIDTH - _RIGHT, _floor())], "#202020"),
            *parts,
            "</svg>\n",
        ]
    )
