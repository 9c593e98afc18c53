"""Suggestions: found where there is something to gain, judged on a day that was held out, never without an effect."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from app import cli
from diagnostics import days, suggest
from diagnostics.replay_figures import Day, Outcome, Preparation
from engine.config.settings import Settings
from engine.events import Why


def guessed(name: str, missed: float) -> Day:
    """Return a day of which so many prompts of twenty were missed, and nothing was prepared in vain."""
    leads = [2.0 if number + 0.5 >= missed else None for number in range(20)]
    outcomes = [Outcome(60.0 * number, True, lead) for number, lead in enumerate(leads)]
    prepared = [Preparation(one.at - 2.0, one.at, Why.PROMPT) for one in outcomes if one.lead and one.at]
    return Day(name, 3600.0, outcomes, prepared)


def world(best_on: dict[str, float]) -> suggest.Play:
    """Return days that are the better guessed, the nearer WEIGHT_KEY is to what suits the file."""

    def play(tasks: Sequence[tuple[str, Settings]]) -> list[Day]:
        return [guessed(path, 40 * abs(settings.weight_key - best_on[path])) for path, settings in tasks]

    return play


def test_a_setting_that_helps_is_found() -> None:
    """The search moves towards what suits the days, and stays within what is declared."""
    said: list[str] = []
    changes = suggest.search(["a"], Settings(), world({"a": 1.0}), said.append)
    assert changes == {"WEIGHT_KEY": 1.0}
    assert said[:3] == ["WEIGHT_KEY"] * 3


def test_what_helps_on_a_held_out_day_is_printed_as_lines_of_the_file() -> None:
    """Figures before and after, and exactly what goes into settings.toml."""
    play = world({"a": 0.9, "b": 0.85})
    lines = suggest.report(["a"], ["b"], Settings(), {"WEIGHT_KEY": 0.9}, play)
    assert lines[:2] == ["tuned on: a", "judged on: b"]
    assert lines[-1] == "WEIGHT_KEY = 0.9"
    assert [line.split()[-3:-1] for line in lines if line.startswith(("as it is", "WEIGHT_KEY 0.45"))] == [
        ["0.200", "0.00"],
        ["0.900", "0.00"],
    ]


def test_what_does_not_help_on_the_held_out_day_is_not_suggested() -> None:
    """It fitted the other days only."""
    lines = suggest.report(["a"], ["b"], Settings(), {"WEIGHT_KEY": 0.9}, world({"a": 0.9, "b": 0.45}))
    assert lines[-1] == "nothing helps: on b, held out, the changes do not guess better"
    assert not any(line.startswith("WEIGHT_KEY =") for line in lines)


def test_days_that_are_guessed_well_already_need_no_change() -> None:
    """It says so."""
    play = world({"a": 0.45})
    changes = suggest.search(["a"], Settings(), play, lambda _: None)
    assert changes == {}
    assert suggest.report(["a"], [], Settings(), changes, play)[-1].startswith("nothing helps")


def test_settings_that_do_not_go_together_are_not_tried() -> None:
    """A threshold at start above the highest one is skipped, not an error."""
    tight = Settings().replace({"MAX_THRESHOLD": 0.65, "MIN_THRESHOLD": 0.65})
    assert suggest.search(["a"], tight, world({"a": 0.45}), lambda _: None) == {}


def test_the_command_searches_real_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two files the last is held out; a file that cannot be read ends with 1."""
    monkeypatch.setattr(suggest, "TRIED", {"WEIGHT_KEY": (0.5, 2.0)})
    paths = [str(path) for path in days.write(tmp_path, 2, 3, 600.0)]
    assert cli.main(["replay", *paths, "--suggest"]) == 0
    assert "judged on: agents-3-01.jsonl.gz" in capsys.readouterr().out
    assert cli.main(["replay", paths[0], "--suggest"]) == 0
    assert "with a second FILE" in capsys.readouterr().out
    assert cli.main(["replay", str(tmp_path / "nowhere"), "--suggest"]) == 1
    assert "No such file" in capsys.readouterr().err
