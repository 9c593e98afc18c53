"""The comparison of learning with not: it pays for whom the shipped weights do not fit, and harms nobody else."""

import json

import pytest

from diagnostics import learning
from engine import trace
from engine.telemetry import personal

HOUR = 3600.0
SLOW, RARE = (
    next(person for person in learning.UNUSUAL if person.name == name)
    for name in ("slow sender, no window", "rare asker, no window")
)


def test_a_person_is_the_same_on_all_days() -> None:
    """The days differ, the same one comes out alike, and no window is shown of somebody whose windows are not known."""
    (_, first), (_, second) = learning.day(SLOW, 1, 0, 600.0), learning.day(SLOW, 1, 1, 600.0)
    assert first != second
    assert learning.day(SLOW, 1, 0, 600.0)[1] == first
    assert not any(isinstance(event, trace.Window) for event in first)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each lesson count for many, so that an hour stands for days, or for weeks where no window is known."""
    for name in ("STEP", "STEP_PLAIN"):
        monkeypatch.setattr(personal, name, 0.005)


@pytest.mark.usefixtures("hasty")
def test_it_learns_that_somebody_thinks_long_before_sending() -> None:
    """Less is prepared needlessly than by the shipped weights, on the same days."""
    figures = learning.compare([SLOW], 1, 4, 0.5 * HOUR)["all"]
    shipped, learned = figures["shipped"], figures["learning"]
    assert shipped["prompts"] == learned["prompts"]
    assert learned["needless"] < 0.9 * shipped["needless"]


@pytest.mark.usefixtures("hasty")
def test_it_learns_that_somebody_types_nothing_but_prompts() -> None:
    """More of them are foreseen, though no reply was near that the shipped weights wait for."""
    figures = learning.compare([RARE], 1, 6, HOUR)["all"]
    assert figures["learning"]["recall"] > figures["shipped"]["recall"] + 0.04


def test_it_harms_nobody_whom_the_shipped_weights_fit() -> None:
    """As many prompts are met in time, and no more is prepared needlessly."""
    figures = learning.compare(learning.USUAL[:1], 1, 2, 0.5 * HOUR)["all"]
    shipped, learned = figures["shipped"], figures["learning"]
    assert learned["ready_1s"] >= shipped["ready_1s"] - 0.02
    assert learned["needless"] <= shipped["needless"] + 0.005


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_it_is_a_table_or_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Of each person and of all, by both rows."""
    assert learning.main(["--days", "1", "--hours", "0.02", *words]) == 0
    out = capsys.readouterr().out
    if words:
        assert set(json.loads(out)["unusual"]["all"]) == {"shipped", "learning"}
    else:
        assert len(out.splitlines()) == 1 + 2 * (len(learning.USUAL) + len(learning.UNUSUAL) + 2)
