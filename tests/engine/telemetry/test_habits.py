"""Where prompts come from: programs, parts of titles, and windows as a whole."""

import pytest

from engine.telemetry.evidence import Window
from engine.telemetry.habits import MOST, NOTHING, Habits

CHAT = Window("browser", ("talk-1", "site"))
OTHER_CHAT = Window("browser", ("talk-2", "site"))
NEWS = Window("browser", ("headline", "paper"))


def test_nothing_is_known_of_a_window_never_prompted_from() -> None:
    """Writing alone does not make a place."""
    habits = Habits()
    habits.wrote(NEWS)
    habits.entered(NEWS)
    assert habits.standing(NEWS, 10.0).share == 0.0
    assert habits.standing(CHAT, 10.0) == NOTHING


def test_a_tab_is_known_by_the_part_of_its_title_that_stays() -> None:
    """Another talk on the same site is known, another site in the same browser is not."""
    habits = Habits()
    for n in range(5):
        habits.prompted(CHAT, float(n))
        habits.wrote(NEWS)
        habits.wrote(NEWS)
    known, alike, foreign = (habits.standing(window, 5.0) for window in (CHAT, OTHER_CHAT, NEWS))
    assert known.share == alike.share > 0.8
    assert foreign.share < 0.4
    assert (known.exact, alike.exact) == (1.0, 0.0)


def test_what_came_of_writing_lately_counts_most() -> None:
    """A place that has turned to something else loses its standing."""
    habits = Habits()
    for _ in range(3):
        habits.prompted(CHAT, 0.0)
    before = habits.standing(CHAT, 1.0).recent
    for _ in range(4):
        habits.wrote(CHAT)
    assert habits.standing(CHAT, 1.0).recent < before / 5


def test_a_recent_prompt_fades() -> None:
    """Just now in this very window, lately in one like it."""
    habits = Habits()
    habits.prompted(CHAT, 100.0)
    assert habits.standing(CHAT, 100.0).just_now == pytest.approx(1.0)
    assert habits.standing(CHAT, 220.0).just_now == pytest.approx(0.5)
    assert habits.standing(OTHER_CHAT, 400.0).lately == pytest.approx(0.5)


def test_enters_without_prompts_tell_a_messenger_from_a_chat() -> None:
    """Where each Enter sends, prompts follow Enters; in a messenger they do not."""
    habits = Habits()
    for _ in range(4):
        habits.entered(CHAT)
        habits.prompted(CHAT, 0.0)
    good = habits.standing(CHAT, 1.0).of_enters
    for _ in range(40):
        habits.entered(CHAT)
    assert habits.standing(CHAT, 1.0).of_enters < good / 5


def test_the_memory_is_bounded() -> None:
    """What was not seen for longest goes first."""
    habits = Habits()
    habits.prompted(CHAT, 0.0)
    for n in range(MOST):
        habits.wrote(Window("editor", (f"file {n}",)))
    assert len(habits.places) == MOST
    assert habits.standing(CHAT, 1.0) == NOTHING


def test_a_home_is_a_place_of_prompts_and_not_a_program() -> None:
    """Another talk on the same site is one, a film in the same browser is none, nor is a place of other writing."""
    habits = Habits()
    chat, other_chat, film = (
        Window("ff", (page, site, "ff")) for page, site in (("a", "ai"), ("b", "ai"), ("c", "tv"))
    )
    habits.prompted(chat, 0.0)
    assert not habits.home(chat)  # one may have been a program's
    habits.prompted(chat, 1.0)
    assert [habits.home(window) for window in (chat, other_chat, film)] == [True, True, False]
    for _ in range(3):
        habits.wrote(other_chat)
    assert not habits.home(other_chat)
    assert habits.home(chat)


def test_a_title_of_one_part_is_a_home_as_a_whole() -> None:
    """The window of a program for chats alone; of one that was never seen nothing is known."""
    habits = Habits()
    for _ in range(2):
        habits.prompted(Window("studio", ("studio",)), 0.0)
        habits.prompted(Window("bare", ()), 0.0)
    assert habits.home(Window("studio", ("studio",)))
    assert habits.home(Window("bare", ()))
    assert not habits.home(Window("studio", ("settings",)))
