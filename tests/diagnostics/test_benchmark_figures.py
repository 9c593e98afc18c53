"""What the samples say: medians, bounds, and which runs may be compared."""

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from diagnostics import bench_plot
from diagnostics.bench_figures import (
    Sample,
    advice,
    bound,
    incomparable,
    percentile,
    ratio,
    ratio_bound,
    spread,
    times,
)
from diagnostics.bench_progress import Progress
from diagnostics.bench_runs import Words
from diagnostics.bench_table import as_text, figures


def sample(kind: str, ttft_ms: float | None, cache_n: int | None, prompt_n: int | None, failed: str = "") -> Sample:
    """Return one of the first run."""
    return Sample("restarted", kind, 1, ttft_ms, cache_n, prompt_n, failed=failed)


COLD, PREPARED, WARM = sample("cold", 900, 0, 728), sample("prepared", 30, 600, 128), sample("warm", 20, 600, 128)


def test_the_spread_of_a_few_times() -> None:
    """Median, range and bound; None of nothing."""
    seen = spread([5, 1, 3, 2, 4], upper=True)
    assert seen is not None
    assert (seen.median, seen.low, seen.high, seen.bound) == (3, 1, 5, 5)
    assert spread([], upper=True) is None


@pytest.mark.parametrize(
    ("count", "upper", "expected"),
    [(4, True, None), (5, True, 5), (5, False, 1), (8, True, 7), (20, True, 15), (20, False, 6)],
)
def test_the_bound_of_a_median_is_an_order_statistic(count: int, *, upper: bool, expected: float | None) -> None:
    """With 95 % confidence, from the sign test's table; fewer than five values bound nothing."""
    assert bound(list(range(1, count + 1)), upper=upper) == expected


def test_the_bound_of_a_ratio_lies_on_its_side() -> None:
    """Repeatable, beyond the ratio itself, and None for few samples."""
    top, bottom = [9.0, 10.0, 11.0, 10.5, 9.5], [1.0, 1.1, 0.9, 1.05, 0.95]
    low, high = ratio_bound(top, bottom, upper=False), ratio_bound(top, bottom, upper=True)
    assert low is not None
    assert high is not None
    assert low < 10 < high
    assert ratio_bound(top, bottom, upper=True) == high
    assert ratio_bound(top[:4], bottom, upper=True) is None


def test_percentiles_are_values_that_were_seen() -> None:
    """The smallest that so many do not exceed."""
    assert percentile(range(1, 201), 0.99) == 198
    assert percentile([7.0], 0.99) == 7.0


def test_failed_runs_count_for_nothing() -> None:
    """Neither for times nor for ratios."""
    samples = [COLD, PREPARED, sample("prepared", 5000, 0, 728, failed="not restored"), WARM]
    assert times(samples, "prepared") == [30]
    assert ratio(samples, "cold", "prepared") == 30
    assert incomparable(samples, "prepared", "warm", same_work=True) == ""


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([PREPARED], "there is no warm run that counts"),
        ([PREPARED, sample("warm", 20, None, None)], "the server does not say what it re-used"),
        ([PREPARED, sample("warm", 20, 601, 127)], "different numbers of tokens: [127, 128]"),
        ([PREPARED, sample("warm", 20, 650, 128)], "differ in length: 728 to 778 tokens"),
        ([PREPARED, WARM], ""),
    ],
)
def test_only_equal_work_is_compared(samples: list[Sample], expected: str) -> None:
    """Prepared and warm must have computed the same tokens; else the reason is said."""
    reason = incomparable(samples, "prepared", "warm", same_work=True)
    assert expected in reason
    assert bool(reason) is bool(expected)


def test_a_cold_prompt_is_compared_by_its_whole_length() -> None:
    """It computes more, that is the point; a token more for another first word is no matter."""
    assert incomparable([COLD, PREPARED], "cold", "prepared", same_work=False) == ""
    assert incomparable([sample("cold", 1, 0, 730), PREPARED], "cold", "prepared", same_work=False) == ""
    assert "differ in length" in incomparable(
        [sample("cold", 1, 0, 900), PREPARED], "cold", "prepared", same_work=False
    )


def test_figures_without_comparable_runs_are_null() -> None:
    """The table says why, and names the run that failed."""
    found = figures([COLD, sample("prepared", None, None, None, failed="not restored"), WARM], "restarted", 2)
    assert (found["cold_ms"], found["prepared_ms"], found["warm_ms"]) == (900, None, 20)
    assert (found["cold_over_prepared"], found["prepared_over_warm"], found["failed"]) == (None, None, 1)
    text = as_text(found)
    assert "no ratio: there is no prepared run that counts" in text
    assert "run 1, prepared, failed: not restored" in text


def test_where_preparing_does_not_pay_it_says_so() -> None:
    """By ratio, or by a saving that nobody notices."""
    assert advice(300, 109.0, 100.0) == "At 300 tokens preparing does not pay: it saves 9 ms."
    assert advice(300, 90.0, 30.0) == "At 300 tokens preparing does not pay: it saves 60 ms."
    assert advice(3000, 9000.0, 300.0) == "At 3,000 tokens preparing saves 8,700 ms of 9,000 ms."


def test_the_words_are_as_long_as_asked_and_cold_ones_begin_anew() -> None:
    """The whole has one length, whatever its first word."""
    words = Words.of(600, 4.0)
    assert (len(words.context), len(words.tail)) == (2400, 512)
    assert len(words.whole(7)) == len(words.whole())
    assert words.whole(7)[:6] == "000007"
    assert words.whole(7)[6:] == words.whole()[6:]


def test_a_bar_for_people() -> None:
    """On a terminal it is drawn over itself, and goes away at the end."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    progress = Progress(2, stream)
    progress.step()
    progress.end()
    assert f"\r[{'#' * 15}{'.' * 15}] 1 of 2 prompts" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_charts_are_well_formed_even_with_gaps(tmp_path: Path) -> None:
    """Titles are escaped; a kind without a value is left out."""
    path = tmp_path / "chart.svg"
    bench_plot.bars(path, "<a & b>", {"cold": 900.0, "prepared": None}, {"cold": {"low": 800.0, "high": 950.0}})
    assert ET.parse(path).getroot().findtext("{*}title") == "<a & b>"
    bench_plot.lines(path, "one", [{"tokens": 300, "cold": 10.0, "prepared": None}])
    assert len(ET.parse(path).getroot().findall("{*}circle")) == 1
    bench_plot.lines(path, "none", [])
    assert ET.parse(path).getroot().findall("{*}circle") == []
