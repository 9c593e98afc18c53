"""Runs a benchmark's plan: which kinds of prompt on which servers, interleaved, and puts the figures together."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics import bench_harm, bench_jobs, bench_races, bench_table
from diagnostics.bench_plan import Plan
from diagnostics.bench_progress import Progress
from diagnostics.bench_runs import KINDS, Bench, Words, characters_per_token
from diagnostics.bench_stage import StageIn
from diagnostics.bench_table import Figures
from diagnostics.tiny_model import cached
from engine.clock import SystemClock
from engine.config.store import cache_folder

_TOP = ("cold_ms", "prepared_ms", "warm_ms", "cold_over_prepared", "prepared_over_warm")


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    """Measure all of it; return the JSON object. Raises ZatError, Unmet, OSError and HTTPException."""
    result: dict[str, Any] = {"server": plan.server, "tokens": plan.tokens, "runs": plan.runs}
    result |= {**dict.fromkeys(_TOP), "samples": [], "scenarios": []}
    points: list[Figures] = []
    if plan.stages:
        found = _on(plan, plan.stages[0], plan.tokens, plan.jobs, progress, headline=True)
        headline = found[-1]
        for staged in plan.stages[1:]:
            found += _on(plan, staged, plan.tokens, plan.jobs, progress)
        result |= {name: headline[name] for name in ("tokens", *_TOP, "samples")} | {"scenarios": found}
        points.append(headline)
    for length in plan.lengths:
        points += _on(plan, plan.stages[0], length, plan.jobs[-1:], progress)
    if plan.curve:
        points.sort(key=lambda point: int(point["tokens"]))
        result |= {"curve": points, "baselines": headline["baselines"]}
    if plan.harm:
        result["harm"] = bench_harm.measure(plan.harm, plan.tokens, plan.runs, progress.step)
    if plan.races:
        result["interleavings"] = _races(plan.races, progress.step)
    result["verdicts"] = bench_table.verdicts(points)
    return result


def _races(count: int, step: Callable[[], None]) -> Figures:
    with tempfile.TemporaryDirectory(prefix="zat-scs-races-") as name:
        return bench_races.measure(cached(cache_folder()), Path(name), count, step)


def succeeded(result: dict[str, Any]) -> bool:
    """Tell whether every prompt was answered as it must, and all that is to be compared may be."""
    parts = [*result["scenarios"], *result.get("curve", [])]
    whole = not any(part["failed"] or part["incomparable"] for part in parts)
    unharmed = not any(row["unanswered"] for row in result.get("harm", {}).values())
    races = result.get("interleavings", {})
    return whole and unharmed and not any(races.get(name) for name in bench_races.NEVER)


@dataclass(frozen=True)
class _Place:
    """Where one length of context is measured."""

    plan: Plan
    bench: Bench
    folder: Path
    progress: Progress


def _on(
    plan: Plan, staged: StageIn, tokens: int, jobs: tuple[int, ...], progress: Progress, *, headline: bool = False
) -> list[Figures]:
    """Measure on one server, beside each number of jobs; return the figures. `headline`: the last of them are that."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="zat-scs-bench-") as name:
        folder = Path(name)
        with staged(folder, tokens) as stage:
            words = Words.of(tokens, characters_per_token(stage, clock))
            place = _Place(plan, Bench(stage, words, folder, clock, plan.settings), folder, progress)
            return [_beside(place, count, headline=headline and count == plan.jobs[-1]) for count in jobs]


def _beside(place: _Place, count: int, *, headline: bool) -> Figures:
    """Measure beside so many busy processes."""
    plan, bench, samples = place.plan, place.bench, []
    kinds = plan.headline_kinds if headline or plan.curve else KINDS
    with bench_jobs.busy(place.folder, count) as jobs:
        bench.keep_context(jobs)
        for run, kind in plan.turns(kinds, headline=headline or bench.stage.keeps):
            samples.append(bench.run(kind, run + 1, jobs))
            place.progress.step()
    found = bench_table.figures(samples, bench.stage.scenario, count)
    if plan.curve:
        found["baselines"] = bench_table.baselines(samples)
    return found
