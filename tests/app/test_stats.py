"""What helping has brought, in words, as a table and as JSON."""

import json
from pathlib import Path

import msgspec
import pytest
from helpers.engine_process import user_folders

from app import cli, stats
from engine.account import Day
from engine.clock import SystemClock
from engine.days import Kept, last_days, local_date
from engine.parts import RealParts

GOOD = Day(
    "2026-11-30", preparations=12, asked=2, hits=9, lead=36.0, false_alarms=2, measured=8, reused=12_340, saved=62.0,
    held_guessing=60.0, held_serving=240.0, lost=0.02,
)  # fmt: skip
EMPTY = Day("2026-11-29")


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        (GOOD, "12.4 s saved for each minute of background work given up"),
        (Day("", preparations=1, hits=1, measured=1, saved=1.0), "1.0 s saved, and no background work given up"),
        (Day("", preparations=1, measured=1, held_guessing=60.0), "Nothing saved yet for 60.0 s of background work"),
        (Day("", measured=1, saved=0.004, held_guessing=60.0), "< 0.1 s saved for each minute of background work"),
        (Day("", preparations=1, measured=1), "0 s saved, and no background work given up"),
        (EMPTY, "Nothing can be said yet: nothing was prepared"),
        (Day("", preparations=3, false_alarms=3), "no prompt has followed a preparation"),
        (Day("", preparations=3, hits=3), "--metrics"),
        (Day("", preparations=3, hits=3, reused=5), "the speed of your server is not known yet"),
    ],
)
def test_the_headline_says_what_is_known_and_why_not(day: Day, expected: str) -> None:
    """Unknown is never a zero."""
    assert expected in stats.headline([EMPTY, day])


def test_a_sentence_says_what_it_rests_on() -> None:
    """How many prompts, and what is left out; nothing where nothing is known."""
    assert "known: 8." in stats.footnote([GOOD])
    assert "known: 12,000." in stats.footnote([Day("", measured=12_000)])
    assert stats.footnote([EMPTY]) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (0.004, "< 0.1 s"),
        (0.1, "0.1 s"),
        (89.9, "89.9 s"),
        (90.0, "1.5 min"),
        (5399.0, "90.0 min"),
        (5400.0, "1.5 h"),
        (40_200.0, "11.2 h"),
        (3_600_000.0, "1,000 h"),
    ],
)
def test_a_time_is_written_as_it_is_thought_of(seconds: float, text: str) -> None:
    """In seconds, minutes or hours; what is little is not written as nothing."""
    assert stats.span(seconds) == text


def test_a_time_without_tenths() -> None:
    """Only where they say little."""
    assert [stats.span(seconds, short=True) for seconds in (0.0, 9.9, 75.6, 1722.0)] == [
        "0 s",
        "9.9 s",
        "76 s",
        "29 min",
    ]


def test_the_table_has_a_line_a_day_and_their_sum() -> None:
    """What is not known is a dash."""
    lines = stats.table([EMPTY, GOOD]).splitlines()
    assert [line.split()[0] for line in lines] == ["day", "2026-11-29", "2026-11-30", "all"]
    assert lines[1].split() == ["2026-11-29", "0", "0", "0", "-", "0", "-", "0", "s", "0", "s", "0.00"]
    assert lines[2].split()[1:7] == ["12", "9", "2", "4.0", "s", "12,340"]
    assert len({len(line) for line in lines}) == 1
    assert max(map(len, lines)) <= 120


def test_json_tells_unknown_from_zero() -> None:
    """Null is unknown."""
    found = json.loads(json.dumps(stats.as_dict([EMPTY, GOOD])))
    assert set(found) == {"days", "total", "saved_per_minute", "headline"}
    assert found["days"][0] | {"date": ""} == found["days"][0] | {
        "date": "", "preparations": 0, "hits": 0, "lead_mean_s": None, "measured": 0, "saved_s": None,
    }  # fmt: skip
    assert found["days"][1] == {"date": "2026-11-30", **found["total"]}
    assert found["total"] == {
        "preparations": 12, "asked": 2, "hits": 9, "false_alarms": 2, "lead_mean_s": 4.0, "measured": 8,
        "reused_tokens": 12340, "saved_s": 62.0, "held_guessing_s": 60.0, "held_serving_s": 240.0, "work_lost": 0.02,
    }  # fmt: skip
    assert found["saved_per_minute"] == 12.4
    assert stats.as_dict([EMPTY])["saved_per_minute"] is None


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a user on whose machine no engine runs; today is in it."""
    for variable, folder in user_folders(tmp_path).items():
        monkeypatch.setenv(variable, folder)
    clock = SystemClock()
    path = RealParts.of_user(clock).days
    path.parent.mkdir(parents=True)
    today = Day(local_date(clock.wall()), preparations=4, hits=3)
    path.write_bytes(msgspec.json.encode(Kept(days=[Day("2000-01-01", hits=1), today])))
    return path


@pytest.mark.usefixtures("kept")
def test_the_command_shows_the_last_days(capsys: pytest.CaptureFixture[str]) -> None:
    """A week unless told otherwise; in JSON the same days."""
    assert cli.main(["stats"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.lstrip().startswith("20")]) == 7
    assert "Nothing can be said yet" in lines[-1]
    assert cli.main(["stats", "--json", "--days", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    dates = [day.date for day in last_days([], 2, SystemClock().wall())]
    assert [day["date"] for day in found["days"]] == dates
    assert (found["total"]["preparations"], found["total"]["hits"]) == (4, 3)


def test_a_broken_file_is_said_and_left(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who only reads changes nothing."""
    kept.write_bytes(b"{")
    assert cli.main(["stats"]) == 0
    assert "nothing was prepared" in capsys.readouterr().out
    assert kept.read_bytes() == b"{"


@pytest.mark.parametrize("words", [["0"], ["401"], ["x"]])
def test_days_are_counted_in_whole_numbers(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """From today to a year and a bit."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["stats", "--days", *words])
    assert ended.value.code == 2
    assert "--days" in capsys.readouterr().err
