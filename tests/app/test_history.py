"""What the window remembers: curve, bands, marks and the day's counts."""

import datetime as dt
from dataclasses import replace

import pytest

from app.history import POINTS, Counts, History, Kind, Mark
from engine.events import Moved, Snapshot, State, Why

NOON = dt.datetime(2026, 3, 4, 12).astimezone().timestamp()  # of whatever time zone the test runs in
IDLE = Snapshot(at=NOON, state=State.COLD_IDLE)


def test_an_empty_history_has_nothing_to_show() -> None:
    """No points, no bands, no marks, zero counts."""
    history = History()
    assert history.curve(60.0) == ([], [])
    assert (history.bands(60.0), history.marks(60.0), history.today) == ([], [], Counts())


@pytest.mark.parametrize(("hz", "span"), [(10, 60.0), (10, 300.0), (50, 300.0)])
def test_the_curve_is_thinned_and_ends_now(hz: int, span: float) -> None:
    """However fast the engine ticks: at most 300 pixels, oldest first, the newest at 0, all within the span."""
    history = History()
    for tick in range(400 * hz):
        history.add(replace(IDLE, at=NOON + tick / hz, probability=0.5))
    times, heights = history.curve(span)
    assert POINTS * 0.9 < len(times) <= POINTS + 1
    assert times == sorted(times)
    assert -span <= times[0] < -0.98 * span
    assert times[-1] == pytest.approx(0.0, abs=span / POINTS)
    assert set(heights) == {0.5}


def test_the_curve_is_smooth_but_keeps_its_peaks() -> None:
    """A step is followed within two seconds, and thinning loses no height."""
    history = History()
    for tick in range(1200):
        history.add(replace(IDLE, at=NOON + tick / 10, probability=1.0 if 600 <= tick < 630 else 0.0))
    heights = history.curve(300.0)[1]
    assert max(heights) > 0.99
    assert heights[-1] < 0.01
    assert 0.1 < history._points[600][1] < 0.5  # the first tick of the step


def test_bands_cover_the_span_without_gaps() -> None:
    """Each state from its start to the next; the first is cut at the edge."""
    history = History()
    for tick in range(100):
        state = State.SPECULATIVE_PREPARED if 30 <= tick < 50 else State.COLD_IDLE
        history.add(replace(IDLE, at=NOON + tick, state=state))
    bands = history.bands(60.0)
    assert [(band.start, band.end, band.state) for band in bands] == [
        (-60.0, -49.0, State.SPECULATIVE_PREPARED),
        (-49.0, 0.0, State.COLD_IDLE),
    ]


def test_marks_tell_prompts_false_alarms_and_missed_prompts_apart() -> None:
    """A missed prompt is marked as such only, once each, and forgotten when it is too old."""
    history = History(100.0)
    prompt = Moved(State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE, Why.PROMPT)
    history.add(IDLE)
    history.add(replace(IDLE, at=NOON + 1, moves=(prompt,), hits=1))
    history.add(replace(IDLE, at=NOON + 2, hits=1, false_positives=1))
    history.add(replace(IDLE, at=NOON + 3, moves=(prompt,), hits=1, false_positives=1, false_negatives=1))
    history.add(replace(IDLE, at=NOON + 4, hits=1, false_positives=1, false_negatives=1))
    assert history.marks(60.0) == [
        Mark(-3.0, Kind.PROMPT),
        Mark(-2.0, Kind.FALSE_POSITIVE),
        Mark(-1.0, Kind.FALSE_NEGATIVE),
    ]
    assert history.marks(1.5) == [Mark(-1.0, Kind.FALSE_NEGATIVE)]
    history.add(replace(IDLE, at=NOON + 103.5, hits=1, false_positives=1, false_negatives=1))
    assert history.marks(300.0) == []


def test_counts_begin_anew_at_midnight() -> None:
    """What was counted on earlier days is taken off."""
    history = History()
    history.add(replace(IDLE, hits=5, false_positives=2))
    assert history.today == Counts(5, 2, 0)
    history.add(replace(IDLE, at=NOON + 86400, hits=6, false_positives=2, false_negatives=1))
    assert history.today == Counts(1, 0, 1)


def test_an_engine_that_began_anew_counts_from_zero() -> None:
    """Its counters are lower than before, and are taken as they are."""
    history = History()
    history.add(replace(IDLE, hits=5))
    history.add(replace(IDLE, at=NOON + 86400, hits=6))
    history.add(replace(IDLE, at=NOON + 86401, hits=1))
    assert history.today == Counts(1, 0, 0)


def test_a_clock_set_back_clears_the_curve() -> None:
    """Points from the future would be drawn on the wrong side of now."""
    history = History()
    history.add(replace(IDLE, probability=0.9))
    history.add(replace(IDLE, at=NOON - 3600, probability=0.1))
    assert history.curve(60.0) == ([0.0], [0.1])
    assert [(band.start, band.end) for band in history.bands(60.0)] == [(0.0, 0.0)]


def test_memory_is_bounded() -> None:
    """Ten minutes at 50 Hz keep no more than five minutes at 10 Hz."""
    history = History(300.0)
    for tick in range(600 * 50):
        state = State.COLD_IDLE if tick // 250 % 2 else State.DEGRADED
        history.add(replace(IDLE, at=NOON + tick / 50, state=state))
    assert len(history._points) <= 3010
    assert len(history._starts) <= 62
