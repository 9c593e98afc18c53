"""What was learned outlives the day, and a damaged file does no harm."""

from pathlib import Path

import pytest
from helpers.clock import FakeClock

from engine import memory
from engine.telemetry import weights
from engine.telemetry.evidence import Window
from engine.telemetry.habits import Habits
from engine.telemetry.personal import Personal

CHAT = Window("browser", ("talk", "site"))


def test_habits_outlive_the_day(tmp_path: Path) -> None:
    """Counts and outcomes come back; the moment of the last prompt does not."""
    habits = Habits()
    habits.prompts = 2
    habits.prompted(CHAT, 5.0)
    habits.wrote(CHAT)
    path = tmp_path / "deep" / "habits.json"
    memory.save(path, memory.encode(habits, Personal()))
    assert path.stat().st_mode & 0o777 == 0o600
    again, _ = memory.load(path)
    before, after = habits.standing(CHAT, 5.0), again.standing(CHAT, 5.0)
    assert (again.prompts, after.share, after.recent) == (2, before.share, before.recent)
    assert (before.just_now, after.just_now) == (1.0, 0.0)


def test_corrections_outlive_the_day(tmp_path: Path) -> None:
    """By the names of their features; both sets."""
    personal, values = Personal(), [1.0] * len(weights.WITH_WINDOW)
    personal.with_window.teach(values, 1.0)
    path = tmp_path / "habits.json"
    memory.save(path, memory.encode(Habits(), personal))
    _, again = memory.load(path)
    assert again.with_window.of(values) == pytest.approx(personal.with_window.of(values), rel=0.01)
    assert again.plain.as_dict() == {}


def test_a_file_from_before_there_were_corrections_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Habits are kept, corrections are nothing, and nothing is said."""
    path = tmp_path / "habits.json"
    path.write_text('{"version":1,"prompts":7,"places":[[["chat"],5,6,5,0.5]]}', "ascii")
    habits, personal = memory.load(path)
    assert (habits.prompts, habits.places["chat",].prompts, personal.plain.as_dict()) == (7, 5, {})
    assert not caplog.records


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":9,"prompts":1,"places":[]}',
        b"\xff\xfe",
        b'{"version":2,"prompts":1,"places":[],"plain":{"typing":NaN}}',
        b'{"version":2,"prompts":1,"places":[],"plain":{"typing":1e300}}',
        b'{"version":2,"prompts":1,"places":[],"with_window":{"typing":1e999}}',
        b'{"version":2,"prompts":1,"places":[],"plain":{"typing":"much"}}',
        b'{"version":2,"prompts":-1,"places":[]}',
        b'{"version":2,"prompts":1,"places":[[["chat"],1,1,1,50.0]]}',
    ],
)
def test_a_damaged_memory_is_said_and_learned_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning that names the file."""
    path = tmp_path / "habits.json"
    path.write_bytes(content)
    habits, personal = memory.load(path)
    assert (habits.prompts, habits.places, personal.plain.as_dict()) == (0, {}, {})
    assert [str(path) in record.message for record in caplog.records] == [True]


def test_nothing_is_there_on_the_first_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """That is no mistake."""
    assert memory.load(tmp_path / "habits.json")[0].places == {}
    assert not caplog.records


def test_a_disk_that_refuses_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and the engine goes on."""
    (tmp_path / "file").write_text("x", "utf-8")
    memory.save(tmp_path / "file" / "habits.json", b"{}")
    assert "cannot be written" in caplog.text


def test_what_cannot_be_deleted_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning; nothing to delete is none."""
    memory.save(tmp_path / "none.json", None)
    assert not caplog.records
    (tmp_path / "habits.json").mkdir()
    memory.save(tmp_path / "habits.json", None)
    assert "cannot be deleted" in caplog.text


def test_the_last_word_counts(tmp_path: Path) -> None:
    """Forgotten just after it was to be written: the file is not there, and the end writes only what is new."""
    path, clock = tmp_path / "habits.json", FakeClock()
    habits = Habits()
    habits.prompts = 1
    kept = memory.Memory(path, clock)
    clock.advance(kept.EVERY)
    kept.refresh(habits, Personal())
    kept.forget()
    kept.close(Habits(), Personal())
    assert not path.exists()
    kept.close(habits, Personal())
    assert memory.load(path)[0].prompts == 1
