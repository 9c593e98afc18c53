"""What a benchmark measures: which kinds of prompt on which servers, in which order, and how long that takes."""

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.bench_harm import Grounds, steps
from diagnostics.bench_runs import BASELINES, KINDS
from diagnostics.bench_stage import StageIn
from engine.config.settings import Settings

CURVE = (300, 1000, 3000, 8000)  # tokens
LOST = ("cold", "reactive")  # kinds that compute the whole context, which takes most of the time
# Each group ends with the context in the slot: so no warm prompt has to compute it first.
_GROUPS = (("cold", "prepared"), ("warm",), ("reactive", "any_key"))
_BESIDE_JOBS = 2.5  # times as long as on a free machine
_SHORT, _TYPED, _GAME = 1.2, 4.0, 0.35  # s for a short prompt, for typing and a restart before one, for a game


@dataclass(frozen=True)
class Plan:
    """What is measured. The first of `stages`, with the last of `jobs` (busy processes), is the headline, if any.

    `few`: cold prompts in each scenario but the headline, None: as many as `runs`. `harm` None: not measured; `races`:
    games against the real server.
    """

    server: str
    stages: tuple[StageIn, ...]
    jobs: tuple[int, ...]
    tokens: int
    runs: int
    settings: Settings
    curve: bool = False
    few: int | None = None
    harm: Grounds | None = None
    races: int = 0

    @property
    def lengths(self) -> tuple[int, ...]:
        """Return the lengths of context beside the headline's own."""
        return tuple(length for length in CURVE if length != self.tokens) if self.curve else ()

    @property
    def headline_kinds(self) -> tuple[str, ...]:
        """Return the kinds of prompt that the headline and the curve have."""
        return (*KINDS, *BASELINES) if self.curve else KINDS

    def turns(self, kinds: tuple[str, ...], *, headline: bool) -> Iterator[tuple[int, str]]:
        """Yield run and kind of each prompt of a scenario, interleaved: each run begins with another group."""
        groups = [of_them for group in _GROUPS if (of_them := tuple(kind for kind in group if kind in kinds))]
        lost = self.runs if headline or self.few is None else min(self.few, self.runs)
        losing = {number * self.runs // lost for number in range(lost)}
        for run in range(self.runs):
            first = run % len(groups)
            for group in groups[first:] + groups[:first]:
                yield from ((run, kind) for kind in group if kind not in LOST or run in losing)

    @property
    def scenarios(self) -> Iterator[tuple[int, int, tuple[tuple[int, str], ...]]]:
        """Yield tokens, busy processes, and the runs and kinds of prompt, of each scenario."""
        for number in range(len(self.stages)):
            for jobs in self.jobs:
                headline = number == 0 and jobs == self.jobs[-1]
                kinds = self.headline_kinds if headline else KINDS
                yield self.tokens, jobs, tuple(self.turns(kinds, headline=headline))
        for length in self.lengths:
            yield length, self.jobs[-1], tuple(self.turns(self.headline_kinds, headline=False))

    @property
    def steps(self) -> int:
        """Return the number of prompts, and of games, that are measured."""
        prompts = sum(len(turns) for _, _, turns in self.scenarios)
        return prompts + self.races + (steps(self.harm, self.runs) if self.harm else 0)

    @property
    def minutes(self) -> int:
        """Return about how long it takes on two quiet cores, with the servers that are started for it."""
        seconds = _GAME * self.races
        if self.harm:
            seconds += steps(self.harm, self.runs) * _SHORT + self.runs * 6 * _computing(self.tokens)
        for tokens, jobs, turns in self.scenarios:
            cold = (_BESIDE_JOBS if jobs else 1.0) * _computing(tokens)
            cost = {"cold": cold, "reactive": 1.2 * _computing(tokens), "warm": 0.0}
            seconds += _computing(tokens) + sum(_SHORT + cost.get(kind, _TYPED) for _, kind in turns)
        return max(1, round(seconds / 60))


def _computing(tokens: int) -> float:
    """Return how many seconds a prompt of random weights takes, as measured."""
    return (1.5e-3 + 0.33e-6 * tokens) * tokens
