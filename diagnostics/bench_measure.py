"""Runs a benchmark's plan: which kinds of prompt on which servers, interleaved, and puts the figures together."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics import bench_harm, bench_jobs, bench_table
from diagnostics.bench_harm import Grounds
from diagnostics.bench_progress import Progress
from diagnostics.bench_runs import BASELINES, KINDS, Bench, Words, characters_per_token
from diagnostics.bench_stage import StageIn
from diagnostics.bench_table import Figures
from engine.clock import SystemClock
from engine.config.settings import Settings

CURVE = (300, 1000, 3000, 8000)  # tokens
_TOP = ("cold_ms", "prepared_ms", "warm_ms", "cold_over_prepared", "prepared_over_warm", "samples")


@dataclass(frozen=True)
class Plan:
    """What is measured. The first of `stages`, with the last of `jobs` (busy processes), is the headline.

    `harm` None: not measured.
    """

    stages: tuple[StageIn, ...]
    jobs: tuple[int, ...]
    tokens: int
    runs: int
    settings: Settings
    curve: bool = False
    harm: Grounds | None = None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of context beside the headline's own."""
        return tuple(length for length in CURVE if length != self.tokens) if self.curve else ()

    @property
    def headline_kinds(self) -> tuple[str, ...]:
        """Return the kinds of prompt that the headline and the curve have."""
        return (*KINDS, *BASELINES) if self.curve else KINDS

    @property
    def steps(self) -> int:
        """Return the number of prompts that are measured."""
        full = (1 + len(self.lengths)) * len(self.headline_kinds)
        plain = (len(self.stages) * len(self.jobs) - 1) * len(KINDS)
        return self.runs * (full + plain) + (bench_harm.steps(self.harm, self.runs) if self.harm else 0)


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    """Measure all of it; return the JSON object. Raises ZatError, Unmet, OSError and HTTPException."""
    server, found = _on(plan, plan.stages[0], plan.tokens, plan.jobs, progress)
    headline = found[-1]
    for staged in plan.stages[1:]:
        found += _on(plan, staged, plan.tokens, plan.jobs, progress, headline=False)[1]
    result: dict[str, Any] = {"server": server, "tokens": headline["tokens"], "runs": plan.runs}
    result |= {name: headline[name] for name in _TOP} | {"scenarios": found}
    points = [headline]
    for length in plan.lengths:
        points += _on(plan, plan.stages[0], length, plan.jobs[-1:], progress)[1]
    if plan.curve:
        points.sort(key=lambda point: int(point["tokens"]))
        result |= {"curve": points, "baselines": headline["baselines"]}
    if plan.harm:
        result["harm"] = bench_harm.measure(plan.harm, plan.tokens, plan.runs, progress.step)
    result["verdicts"] = bench_table.verdicts(points)
    return result


def succeeded(result: dict[str, Any]) -> bool:
    """Tell whether every prompt was answered as it must, and all that is to be compared may be."""
    parts = [*result["scenarios"], *result.get("curve", [])]
    whole = not any(part["failed"] or part["incomparable"] for part in parts)
    return whole and not any(row["unanswered"] for row in result.get("harm", {}).values())


@dataclass(frozen=True)
class _Place:
    """Where one length of context is measured."""

    bench: Bench
    folder: Path
    progress: Progress


def _on(
    plan: Plan, staged: StageIn, tokens: int, jobs: tuple[int, ...], progress: Progress, *, headline: bool = True
) -> tuple[str, list[Figures]]:
    """Measure on one server, beside each number of jobs; return what it is, and the figures."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="zat-scs-bench-") as name:
        folder = Path(name)
        with staged(folder, tokens) as stage:
            words = Words.of(tokens, characters_per_token(stage, clock))
            place = _Place(Bench(stage, words, folder, clock, plan.settings), folder, progress)
            found = []
            for count in jobs:
                is_headline = headline and count == plan.jobs[-1]
                found.append(_beside(place, count, plan.headline_kinds if is_headline else KINDS, plan.runs))
            return stage.server, found


def _beside(place: _Place, count: int, kinds: tuple[str, ...], runs: int) -> Figures:
    """Measure beside so many busy processes; each run has every kind, and another one first."""
    samples = []
    with bench_jobs.busy(place.folder, count) as jobs:
        place.bench.keep_context(jobs)
        for run in range(runs):
            turn = run % len(kinds)
            for kind in kinds[turn:] + kinds[:turn]:
                samples.append(place.bench.run(kind, run + 1, jobs))
                place.progress.step()
    found = bench_table.figures(samples, place.bench.stage.scenario, count)
    if set(kinds) > set(KINDS):
        found["baselines"] = bench_table.baselines(samples)
    return found
