"""The daily sums outlive the run; a broken file, a disk that refuses and a change of the hour do no harm."""

import json
import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.wait import wait_until

from engine import days
from engine.account import Day, PromptReport
from engine.config.settings import Settings
from engine.days import KEPT, DayBook, Kept, last_days, load, local_date
from engine.events import ContextReport, ContextState, Moved, ShareReport, State, Tick, Why
from engine.orchestration.machine import Machine
from engine.reports import Reports

GUESS = Moved(State.COLD_IDLE, State.SPECULATIVE_PREPARED, Why.THRESHOLD)
COLD = PromptReport(reused=0, computed=1000, seconds=2.0, restored=None, woken=None, server="one")
MACHINE = Machine(0.65)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file will lie."""
    return tmp_path / "deep" / "benefit.json"


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let local time be one with summer and winter."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def guess(book: DayBook, clock: FakeClock) -> None:
    """Book one preparation."""
    book.step(clock.now(), [GUESS], MACHINE, Reports())


def test_days_outlive_the_run(path: Path) -> None:
    """Sums and rates are there at the next start, for this user alone, and the same day goes on."""
    clock = FakeClock()
    for run in (1, 2):
        book = DayBook(path, clock)
        reports = Reports()
        reports.take(COLD)
        book.step(clock.now(), [GUESS], MACHINE, reports)
        assert book.today == Day(local_date(clock.wall()), preparations=run)
        assert reports.take_prompts() == []
        book.close()
    assert os.name != "posix" or path.stat().st_mode & 0o777 == 0o600
    kept = load(path)
    assert kept.days == [Day(local_date(clock.wall()), preparations=2)]
    assert kept.rates == {"one": [500.0, 500.0]}


def test_nothing_of_content_is_written(path: Path) -> None:
    """Only the date, counts, seconds and rates of servers under opaque names."""
    clock = FakeClock()
    book = DayBook(path, clock)
    guess(book, clock)
    book.close()
    written = json.loads(path.read_bytes())
    assert set(written) == {"version", "days", "rates"}
    values = [value for day in written["days"] for name, value in day.items() if name != "date"]
    assert all(isinstance(value, int | float) for value in values)


def test_it_is_written_now_and_then(path: Path) -> None:
    """On another thread, and only if something is new."""
    clock = FakeClock()
    book = DayBook(path, clock)
    book.step(clock.advance(DayBook.EVERY + 1), [], MACHINE, Reports())
    guess(book, clock)
    assert not path.exists()
    clock.advance(DayBook.EVERY + 1)
    guess(book, clock)
    wait_until(path.exists, what="the file")
    wait_until(lambda: load(path).days[0].preparations == 2, what="both guesses")
    book.close()


def test_a_run_in_which_nothing_happened_leaves_no_file(path: Path) -> None:
    """Nor a folder."""
    book = DayBook(path, FakeClock())
    book.step(1.0, [], MACHINE, Reports())
    book.close()
    assert not path.parent.exists()


def test_without_a_file_it_counts_all_the_same() -> None:
    """The demo and tests leave nothing behind."""
    clock = FakeClock()
    book = DayBook(None, clock)
    guess(book, clock)
    book.close()
    assert book.today is not None
    assert book.today.preparations == 1


def test_so_many_days_are_kept(path: Path) -> None:
    """The oldest go first, whatever order they came in."""
    dates = [f"{year}-{month:02}-{day:02}" for year in (2024, 2025) for month in range(1, 13) for day in range(1, 29)]
    path.parent.mkdir()
    days = [{"date": date, "hits": 1} for date in reversed(dates)]
    path.write_text(json.dumps({"version": 1, "days": days, "rates": {}}), "utf-8")
    clock = FakeClock()
    book = DayBook(path, clock)
    guess(book, clock)
    book.close()
    kept = [day.date for day in load(path).days]
    assert kept == [*sorted(dates), local_date(clock.wall())][-KEPT:]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version":9,"days":[],"rates":{}}',
        b'{"version":1,"days":[{"hits":1}],"rates":{}}',
        b'{"version":1,"days":[],"rates":{"a":[0]}}',
    ],
)
def test_a_broken_file_is_set_aside(path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """One warning, the file kept under another name, and the days counted anew; who only reads leaves it there."""
    path.parent.mkdir()
    path.write_bytes(content)
    assert load(path) == Kept()
    caplog.clear()
    assert path.exists()
    clock = FakeClock()
    book = DayBook(path, clock)
    guess(book, clock)
    book.close()
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]
    assert path.with_name("benefit.json.broken").read_bytes() == content
    assert [day.preparations for day in load(path).days] == [1]


def test_a_reader_says_what_it_cannot_use(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder of that name, for example: one warning."""
    path.mkdir(parents=True)
    assert load(path) == Kept()
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]


def test_a_disk_that_refuses_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and the engine goes on."""
    (tmp_path / "file").write_text("x", "utf-8")
    clock = FakeClock()
    book = DayBook(tmp_path / "file" / "benefit.json", clock)
    guess(book, clock)
    caplog.clear()
    book.close()
    assert "cannot be written" in caplog.text


def test_a_disk_that_hangs_keeps_nobody_waiting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end writes nothing itself while a writing is under way."""
    calls, going_on = [], threading.Event()
    monkeypatch.setattr(days, "PATIENCE", 0.01)
    monkeypatch.setattr(days, "_save", lambda *_: calls.append(threading.current_thread().name) or going_on.wait(20))
    clock = FakeClock()
    book = DayBook(path, clock)
    guess(book, clock)
    clock.advance(DayBook.EVERY + 1)
    guess(book, clock)
    wait_until(lambda: calls, what="the writing")
    guess(book, clock)
    book.close()
    going_on.set()
    assert calls == ["days"]


def test_only_prompts_are_taken_once() -> None:
    """Reports that say how things are stay; those that say what happened are taken."""
    reports = Reports()
    for report in (COLD, ShareReport(10, None, "process"), ContextReport(ContextState.WARM, 5), COLD):
        reports.take(report)
    assert reports.take_prompts() == [COLD, COLD]
    assert (reports.take_prompts(), reports.share.share, reports.context.tokens) == ([], 10, 5)


def test_a_tick_carries_whether_it_pays(path: Path) -> None:
    """Only where that is weighed, and known."""
    clock = FakeClock()
    known = Day(local_date(clock.wall()), preparations=3, measured=3, saved=0.3, held_guessing=30.0)
    path.parent.mkdir()
    path.write_text(json.dumps({"version": 1, "days": [{"date": known.date, "preparations": 3, "measured": 3,
                                "saved": 0.3, "held_guessing": 30.0}], "rates": {}}), "utf-8")  # fmt: skip
    book = DayBook(path, clock)
    book.step(clock.now(), [], MACHINE, Reports())
    assert book.weigh(Tick(0.9), Settings()) == Tick(0.9)
    assert book.weigh(Tick(0.9), Settings(job_worth=1.0)) == Tick(0.9, pays=False)
    assert book.weigh(Tick(0.9), Settings(job_worth=0.001)) == Tick(0.9)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="no other local time can be had")
@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(("month", "day"), [(3, 30), (10, 26)])
def test_a_change_of_the_hour_neither_skips_nor_repeats_a_day(month: int, day: int) -> None:
    """Seen from ten minutes after midnight, two days later."""
    wall = datetime(2025, month, day + 1, 22 if month == 3 else 23, 10, tzinfo=UTC).timestamp()
    dates = [each.date for each in last_days([Day(f"2025-{month:02}-{day:02}", hits=1)], 5, wall)]
    assert len(set(dates)) == 5
    assert dates[-1] == local_date(wall)
    assert f"2025-{month:02}-{day:02}" in dates
    assert last_days([Day(f"2025-{month:02}-{day:02}", hits=1)], 5, wall)[-3].hits == 1
