"""The figures of a benchmark as people and programs read them: the JSON object, and tables of text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diagnostics.bench_figures import Sample, advice, incomparable, ratio, ratio_bound, spread, times
from diagnostics.bench_runs import BASELINES, KINDS, kept_tokens

Figures = dict[str, Any]  # of JSON
_TITLES = {
    "cold": "no ZAT-SCS",
    "reactive": "job held only when the prompt is seen",
    "any_key": "prepared at any key",
    "prepared": "prepared",
    "warm": "warm, free machine",
}


def figures(samples: Sequence[Sample], scenario: str, jobs: int) -> Figures:
    """Return what one scenario showed, `jobs` busy processes in the background; see the README for the fields."""
    found: Figures = {"scenario": scenario, "jobs": jobs, "tokens": kept_tokens(list(samples))}
    spreads = {kind: spread(times(samples, kind), upper=kind != "cold") for kind in KINDS}
    for kind, seen in spreads.items():
        found[f"{kind}_ms"] = seen.median if seen else None
    why = []
    for name, top, bottom, same_work in (
        ("cold_over_prepared", "cold", "prepared", False),
        ("prepared_over_warm", "prepared", "warm", True),
    ):
        reason = incomparable(samples, top, bottom, same_work=same_work)
        why += [reason] if reason else []
        upper = name == "prepared_over_warm"
        found[name] = None if reason else ratio(samples, top, bottom)
        found[f"{name}_bound"] = (
            None if reason else ratio_bound(times(samples, top), times(samples, bottom), upper=upper)
        )
    found["spread"] = {kind: asdict(seen) for kind, seen in spreads.items() if seen}
    found["incomparable"] = why
    found["failed"] = sum(bool(sample.failed) for sample in samples)
    found["samples"] = [asdict(sample) for sample in samples]
    return found


def baselines(samples: Sequence[Sample]) -> Figures:
    """Return the medians of the ways to do without, beside the prepared one; None where there is no run that counts."""
    found: Figures = {}
    for kind in ("cold", *BASELINES, "prepared"):
        seen = spread(times(samples, kind), upper=kind != "cold")
        ready = [s.ready_ms for s in samples if s.kind == kind and s.ready_ms is not None and not s.failed]
        waits = spread(ready, upper=True)
        found[kind] = {"ttft_ms": seen.median if seen else None, "ready_ms": waits.median if waits else None}
    return found


def verdicts(scenarios: Sequence[Figures]) -> list[str]:
    """Say for each length of context whether preparing pays."""
    return [
        advice(found["tokens"], found["cold_ms"], found["prepared_ms"])
        for found in scenarios
        if found["cold_over_prepared"] is not None
    ]


def heights(point: Figures) -> Figures:
    """Return a point of the curve as the chart wants it: the time of each kind in ms."""
    others = {kind: point["baselines"][kind]["ttft_ms"] for kind in BASELINES}
    return {"tokens": point["tokens"], **{kind: point[f"{kind}_ms"] for kind in KINDS}, **others}


def as_text(found: Figures) -> str:
    """Return one scenario as a table."""
    jobs = {0: "no background job", 1: "one busy job"}.get(found["jobs"], f"{found['jobs']} busy jobs")
    lines = [
        f"{found['scenario']}, {jobs}, {found['tokens']:,} tokens kept",
        f"  {'':<20}{'median':>10}{'min':>10}{'max':>10}{'95 % bound':>14}{'re-used':>9}{'computed':>10}{'n':>4}",
    ]
    for kind in KINDS:
        of_kind = [sample for sample in found["samples"] if sample["kind"] == kind and not sample["failed"]]
        seen = found["spread"].get(kind)
        if seen:
            sign = "\N{GREATER-THAN OR EQUAL TO}" if kind == "cold" else "\N{LESS-THAN OR EQUAL TO}"
            limit = "" if seen["bound"] is None else f"{sign} {seen['bound']:,.1f}"
            numbers = "".join(f"{seen[name]:>10,.1f}" for name in ("median", "low", "high"))
            counted = f"{_said(of_kind, 'cache_n'):>9}{_said(of_kind, 'prompt_n'):>10}{len(of_kind):>4}"
            lines.append(f"  {_TITLES[kind]:<20}{numbers}{limit:>14}{counted}")
    lines += [f"  {line}" for line in _ratios(found)]
    lines += [f"  run {s['run']}, {s['kind']}, failed: {s['failed']}" for s in found["samples"] if s["failed"]]
    return "\n".join(lines)


def curve_text(curve: Sequence[Figures]) -> str:
    """Return the lengths of context side by side, with the ways to do without."""
    kinds = ("cold", *BASELINES, "prepared")
    head = "".join(f"{kind.replace('_', ' '):>12}" for kind in (*kinds, "warm"))
    lines = [f"  {'tokens':>8}{head}{'cold ÷ prepared':>18}"]
    for point in curve:
        cells = [point["baselines"][kind]["ttft_ms"] for kind in kinds]
        row = "".join(f"{_number(cell):>12}" for cell in (*cells, point["warm_ms"]))
        lines.append(f"  {point['tokens']:>8,}{row}{_number(point['cold_over_prepared']):>18}")
    legend = "; ".join(f"{kind.replace('_', ' ')}: {_TITLES[kind]}" for kind in ("cold", *BASELINES))
    return "\n".join(["How it grows with the context (ms)", *lines, f"  {legend}"])


def harm_text(harm: Mapping[str, Figures]) -> str:
    """Return what help costs when it is in the way."""
    lines = ["Harm: time to first token when the help is wrong or in the way (ms)"]
    lines.append(f"  {'':<34}{'median':>10}{'p99':>10}{'max':>10}{'against p99':>13}{'ratio':>8}{'lost':>6}{'n':>6}")
    for title, row in harm.items():
        numbers = "".join(f"{_number(row[name]):>10}" for name in ("median_ms", "p99_ms", "max_ms"))
        ratio_ = "" if row["p99_ratio"] is None else f"{row['p99_ratio']:.2f}"
        against, count = _number(row["against_p99_ms"]), row["samples"]
        lines.append(f"  {title:<34}{numbers}{against:>13}{ratio_:>8}{row['unanswered']:>6}{count:>6}")
    return "\n".join(lines)


def races_text(found: Mapping[str, Any]) -> str:
    """Return what became of the interleavings."""
    lines = [f"{found['interleavings']:,} interleavings on the real server, {found['prompts']:,} prompts"]
    for name, value in list(found.items())[1:]:
        shown = "none" if value is None else f"{value:,}"
        lines.append(f"  {name.replace('_', ' '):<30}{shown:>10}")
    return "\n".join(lines)


def _ratios(found: Figures) -> list[str]:
    lines = []
    for title, name, word in (
        ("cold ÷ prepared", "cold_over_prepared", "at least"),
        ("prepared ÷ warm", "prepared_over_warm", "at most"),
    ):
        if found[name] is not None:
            limit = found[f"{name}_bound"]
            lines.append(f"{title} {found[name]:.2f}{'' if limit is None else f' ({word} {limit:.2f})'}")
    return [*lines, *(f"no ratio: {reason}" for reason in found["incomparable"])]


def _said(samples: Sequence[Mapping[str, Any]], name: str) -> str:
    values = sorted({sample[name] for sample in samples if sample[name] is not None})
    if not values:
        return "?"
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,}\N{EN DASH}{values[-1]:,}"


def _number(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else f"{value:,.1f}"
