"""The picture of a day: whole, small, and with a mark for each prompt and false positive."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from app import cli
from diagnostics import day_plot, days
from engine.config.settings import Settings
from engine.events import State
from engine.orchestration import fsm

NAME = "{http://www.w3.org/2000/svg}"


def marks(picture: Path) -> dict[str, int]:
    """Count the marks by kind."""
    groups = [group.get("class") or "" for group in ET.parse(picture).iter(f"{NAME}g")]
    return {kind: groups.count(kind) for kind in ("ready", "late", "missed", "false")}


def test_the_picture_shows_what_the_day_showed(tmp_path: Path) -> None:
    """Each prompt that could be foreseen and each false positive has its mark; states and threshold are drawn."""
    (path,) = days.write(tmp_path, 1, 3, 2 * 3600.0)
    day = day_plot.draw(path, Settings(), tmp_path / "day.svg")
    shown = marks(tmp_path / "day.svg")
    assert shown["ready"] == day.ready
    assert shown["ready"] + shown["late"] == len([o for o in day.outcomes if o.lead is not None])
    assert sum(shown.values()) - shown["false"] == day.foreseeable
    assert shown["false"] == day.false_positives
    text = (tmp_path / "day.svg").read_text("utf-8")
    assert text.count("stroke-dasharray") == 2  # a row an hour
    assert f"{day.prompts} prompts" in text
    assert len(text) < 200_000


def test_a_peak_is_not_lost() -> None:
    """A column shows the highest P of its stretch, and every state that was taken in it."""
    course = day_plot._Course(10, 100.0)
    machine = fsm.start(Settings(), 0.0)
    prepared = replace(machine, state=State.SPECULATIVE_PREPARED)
    for now, probability in ((12.0, 0.1), (13.0, 0.97), (100.0, 0.5)):
        course.see(now, probability, machine)
    course.see(14.0, 0.2, prepared)
    assert (course.highest[1], course.highest[9]) == (0.97, 0.5)
    assert course.states[1] == {State.COLD_IDLE, State.SPECULATIVE_PREPARED}
    assert day_plot._band(course.states, State.SPECULATIVE_PREPARED, 10.0).count("h1v") == 1
    assert day_plot._band(course.states, State.DEGRADED, 10.0) == ""


def test_the_command_draws_one_day(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the table beside it; several files, or a picture that cannot be written, are refused."""
    path = str(days.write(tmp_path, 1, 3, 300.0)[0])
    assert cli.main(["replay", path, "--plot", str(tmp_path / "day.svg")]) == 0
    assert "needless" in capsys.readouterr().out
    assert (tmp_path / "day.svg").read_text("utf-8").startswith("<svg")
    assert cli.main(["replay", path, path, "--plot", str(tmp_path / "two.svg")]) == 2
    assert "one FILE" in capsys.readouterr().err
    assert cli.main(["replay", path, "--plot", str(tmp_path / "nowhere" / "day.svg")]) == 1
    assert "cannot be written" in capsys.readouterr().err
