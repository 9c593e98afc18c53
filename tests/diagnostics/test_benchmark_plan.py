"""The order in which a benchmark asks, how many prompts that makes, and what is said of the time it takes."""

import itertools
from dataclasses import replace

import pytest

from diagnostics import bench_stage
from diagnostics.bench_harm import Grounds
from diagnostics.bench_plan import LOST, Plan
from diagnostics.bench_runs import BASELINES, KINDS
from engine.config.settings import Settings

STAGES = (bench_stage.restarted, bench_stage.asleep, bench_stage.default_warm)
REAL = Plan("llama.cpp", STAGES, (0, 2), 3000, 5, Settings(), few=2)
CURVE = replace(REAL, stages=STAGES[:1], jobs=(2,), runs=3, curve=True)


@pytest.mark.parametrize("kinds", [KINDS, (*KINDS, *BASELINES)])
def test_each_run_has_every_kind_and_begins_with_another(kinds: tuple[str, ...]) -> None:
    """So that a machine that gets slower or faster favours none."""
    turns = list(REAL.turns(kinds, headline=True))
    runs = [[kind for run, kind in turns if run == number] for number in range(5)]
    assert [sorted(run) for run in runs] == [sorted(kinds)] * 5
    assert runs[0][0] != runs[1][0]


@pytest.mark.parametrize("headline", [True, False])
def test_a_warm_prompt_finds_the_context_in_the_slot(*, headline: bool) -> None:
    """None comes right after one that lost it: it would have to be computed once more."""
    kinds = [kind for _, kind in CURVE.turns((*KINDS, *BASELINES), headline=headline)]
    assert all(before not in LOST for before, kind in itertools.pairwise(kinds) if kind == "warm")


def test_few_prompts_are_cold_but_in_the_headline() -> None:
    """And those lie apart, since a cold one takes most of the time."""
    cold = [run for run, kind in REAL.turns(KINDS, headline=False) if kind == "cold"]
    assert cold == [0, 2]
    assert sum(kind == "cold" for _, kind in REAL.turns(KINDS, headline=True)) == 5
    assert sum(kind == "cold" for _, kind in replace(REAL, few=None).turns(KINDS, headline=False)) == 5


def test_every_prompt_is_a_step() -> None:
    """Of all scenarios, lengths, wrong guesses and games."""
    assert REAL.steps == 15 + 5 * 12
    assert CURVE.steps == 15 + 3 * 13
    alone = replace(REAL, stages=(), runs=3, harm=Grounds(*STAGES[:2]), races=1000)
    assert alone.steps == 200 + 3 * 6 + 1000


def test_it_says_how_long_it_takes() -> None:
    """In whole minutes, more for longer contexts and more runs, and never none."""
    assert REAL.minutes < replace(REAL, tokens=8000).minutes < replace(REAL, tokens=8000, runs=20).minutes
    assert replace(REAL, stages=(), races=1).minutes == 1
