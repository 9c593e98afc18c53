"""What was learned outlives the day, and a damaged file does no harm."""

from pathlib import Path

import pytest

from engine import memory
from engine.telemetry.evidence import Window
from engine.telemetry.habits import Habits

CHAT = Window("browser", ("talk", "site"))


def test_habits_outlive_the_day(tmp_path: Path) -> None:
    """Counts and outcomes come back; the moment of the last prompt does not."""
    habits = Habits()
    habits.prompts = 2
    habits.prompted(CHAT, 5.0)
    habits.wrote(CHAT)
    path = tmp_path / "deep" / "habits.json"
    memory.save(path, memory.encode(habits))
    assert path.stat().st_mode & 0o777 == 0o600
    again = memory.load(path)
    before, after = habits.standing(CHAT, 5.0), again.standing(CHAT, 5.0)
    assert (again.prompts, after.share, after.recent) == (2, before.share, before.recent)
    assert (before.just_now, after.just_now) == (1.0, 0.0)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version":9,"prompts":1,"places":[]}', b"\xff\xfe"])
def test_a_damaged_memory_is_said_and_learned_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning that names the file."""
    path = tmp_path / "habits.json"
    path.write_bytes(content)
    assert memory.load(path).prompts == 0
    assert [str(path) in record.message for record in caplog.records] == [True]


def test_nothing_is_there_on_the_first_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """That is no mistake."""
    assert memory.load(tmp_path / "habits.json").places == {}
    assert not caplog.records


def test_a_disk_that_refuses_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said, and the engine goes on."""
    (tmp_path / "file").write_text("x", "utf-8")
    memory.save(tmp_path / "file" / "habits.json", b"{}")
    assert "cannot be written" in caplog.text
