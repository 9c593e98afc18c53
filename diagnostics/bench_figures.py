"""What the samples of a benchmark say: medians, spread, one-sided bounds, and which runs may be compared. Pure."""

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95
RESAMPLES = 2000
FEWEST = 5  # samples; with fewer no bound of this confidence exists
ALIKE = 0.01  # by which whole prompts may differ: another first word can be a token more
WORTH_MS = 100.0  # a shorter wait than this is hardly noticed
WORTH_RATIO = 1.1


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt. `failed`: why it does not count; `ready_ms`: from the first key to all prepared, where keys were."""

    scenario: str
    kind: str
    run: int
    ttft_ms: float | None = None
    cache_n: int | None = None
    prompt_n: int | None = None
    ready_ms: float | None = None
    failed: str = ""

    @property
    def total(self) -> int | None:
        """Return the whole prompt in tokens."""
        return None if self.cache_n is None or self.prompt_n is None else self.cache_n + self.prompt_n


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, range, and a one-sided bound of the median (None: too few samples), all in ms."""

    median: float
    low: float
    high: float
    bound: float | None


def spread(values: Sequence[float], *, upper: bool) -> Spread | None:
    """Return the spread of these values; None if there are none."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), bound(values, upper=upper))


def bound(values: Sequence[float], *, upper: bool) -> float | None:
    """Return the order statistic that bounds the true median from one side; None if there are too few values."""
    ordered = sorted(values, reverse=not upper)
    below = 0.0  # chance that at most so many of them lie on the near side of the median
    for index, value in enumerate(ordered):
        below += math.comb(len(ordered), index) / 2 ** len(ordered)
        if below >= CONFIDENCE:
            return value
    return None


def ratio_bound(top: Sequence[float], bottom: Sequence[float], *, upper: bool) -> float | None:
    """Return a one-sided bootstrap bound of the ratio of two medians; None if there are too few values."""
    if min(len(top), len(bottom)) < FEWEST:
        return None
    chance = random.Random(0)  # the same samples give the same bound
    ratios = sorted(
        statistics.median(chance.choices(top, k=len(top))) / statistics.median(chance.choices(bottom, k=len(bottom)))
        for _ in range(RESAMPLES)
    )
    return ratios[math.ceil(CONFIDENCE * RESAMPLES) - 1 if upper else math.floor((1 - CONFIDENCE) * RESAMPLES)]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def valid(samples: Sequence[Sample], kind: str) -> list[Sample]:
    """Return the samples of a kind that count."""
    return [sample for sample in samples if sample.kind == kind and not sample.failed]


def times(samples: Sequence[Sample], kind: str) -> list[float]:
    """Return the times to first token of a kind that count, in ms."""
    return [sample.ttft_ms for sample in valid(samples, kind) if sample.ttft_ms is not None]


def incomparable(samples: Sequence[Sample], first: str, second: str, *, same_work: bool) -> str:
    """Say why two kinds must not be set into a ratio; "" if they may.

    `same_work`: both computed the same number of tokens; else only the whole prompts must be alike.
    """
    both = [*valid(samples, first), *valid(samples, second)]
    for kind in (first, second):
        if not times(samples, kind):
            return f"there is no {kind} run that counts"
    if any(sample.total is None for sample in both):
        return "the server does not say what it re-used"
    computed = {sample.prompt_n for sample in both}
    if same_work and len(computed) > 1:
        return f"{first} and {second} computed different numbers of tokens: {sorted(computed, key=str)}"
    totals = [sample.total or 0 for sample in both]
    if max(totals) - min(totals) > ALIKE * max(totals):
        return f"{first} and {second} prompts differ in length: {min(totals)} to {max(totals)} tokens"
    return ""


def ratio(samples: Sequence[Sample], top: str, bottom: str) -> float:
    """Return the ratio of two medians."""
    return statistics.median(times(samples, top)) / statistics.median(times(samples, bottom))


def advice(tokens: int, cold_ms: float, prepared_ms: float) -> str:
    """Say in a sentence whether preparing pays at this length of context."""
    saved, gain = cold_ms - prepared_ms, cold_ms / prepared_ms
    if gain < WORTH_RATIO or saved < WORTH_MS:
        return f"At {tokens:,} tokens preparing does not pay: it saves {max(0.0, saved):.0f} ms."
    return f"At {tokens:,} tokens preparing saves {saved:,.0f} ms of {cold_ms:,.0f} ms."
