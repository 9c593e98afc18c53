"""The numbers behind the score: bounded, ordered as their weights, and blind to content."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.telemetry import weights
from engine.telemetry.evidence import KeyKind, KeyPress, Readings, Window
from engine.telemetry.features import FOREGONE, TALKED, Features
from engine.telemetry.habits import Habits
from engine.telemetry.personal import AFTER_REPLY

HERE = Window("editor", ("a", "b"))


def typed(features: Features, start: float, count: int, window: Window | None = None) -> float:
    """Write so many characters, five a second; return the time after the last."""
    now = start
    for n in range(count):
        now = start + n / 5
        features.hear(now, Readings((KeyPress(now, KeyKind.TEXT),), window=window))
    return now


def test_there_is_a_weight_for_each_number() -> None:
    """With a known window more is seen; the plain numbers come first in both."""
    features = Features(Habits())
    assert len(features.values(1.0)) == len(weights.PLAIN)
    features.hear(2.0, Readings(window=HERE))
    assert len(features.values(2.0)) == len(weights.WITH_WINDOW)
    assert list(weights.WITH_WINDOW)[: len(weights.PLAIN)] == list(weights.PLAIN)


def test_a_bout_of_writing_without_a_prompt_is_booked_once() -> None:
    """It ends by a pause or another window; a prompt books it as one that became a prompt."""
    habits = Habits()
    features = Features(habits)
    end = typed(features, 10.0, 8, HERE)
    features.hear(end + 1.0, Readings(window=Window("other", ())))
    assert habits.places["editor",].bouts == 1
    end = typed(features, 100.0, 8, HERE)
    features.prompted(end)
    features.hear(end + 60.0, Readings(window=None))
    place = habits.places["editor",]
    assert (place.bouts, place.prompts) == (2, 1)


def test_a_title_that_changes_by_itself_breaks_no_writing() -> None:
    """A clock or a progress in it: one bout that became a prompt, and none in vain; another program still ends it."""
    habits = Habits()
    features, now = Features(habits), 10.0
    for n in range(20):
        now = 10.0 + n / 2
        features.hear(now, Readings((KeyPress(now, KeyKind.TEXT),), window=Window("browser", (f"{n // 4} %", "site"))))
    numbers = dict(zip(weights.WITH_WINDOW, features.values(now), strict=True))
    assert numbers["keys"] == pytest.approx(math.log1p(20))
    features.prompted(now)
    features.hear(now + 60.0, Readings(window=Window("editor", ())))
    for place in (habits.places["browser",], habits.places["browser", "site"]):
        assert (place.bouts, place.prompts) == (1, 1)
    end = typed(features, 100.0, 8, HERE)
    features.hear(end, Readings(window=Window("browser", ("20 %", "site"))))
    assert habits.places["editor",].bouts == 1


def talk(features: Features, start: float, seconds: float, hz: int = 10) -> tuple[float, list[bool]]:
    """Speak; return the time after it, and for each tick whether it counted."""
    ticks = [start + n / hz for n in range(1, round(seconds * hz) + 1)]
    return ticks[-1], [features.hear(now, Readings(db=-30.0, microphone=True, voice=0.9)) for now in ticks]


@pytest.mark.parametrize("hz", [1, 5, 10, 50])
def test_talk_that_leads_to_no_prompt_stops_counting(hz: int) -> None:
    """A television or a meeting: after a minute of speech nobody is taken to speak to the model while it lasts."""
    features = Features(Habits(), hz=hz)
    end, counted = talk(features, 0.0, 1800.0, hz)
    assert sum(counted) / hz == pytest.approx(TALKED * 1.12, rel=0.06)
    assert not any(counted[round(90 * hz) :])
    assert features.foregone(end)
    assert dict(zip(weights.PLAIN, features.values(end), strict=True))["voice_share"] == 0.0


def test_a_spoken_prompt_makes_talk_count_again_and_no_other_does() -> None:
    """What was typed or pasted beside a television, and what a program sent after a reply, shows nothing of talk."""
    features = Features(Habits())
    end, _ = talk(features, 0.0, 120.0)
    typed(features, end, 10)
    features.prompted(end + 2.0)
    features.replied(end + 4.0)
    features.prompted(end + 4.0 + AFTER_REPLY / 2)
    features.hear(end + 20.0, Readings((KeyPress(end + 20.0, KeyKind.PASTE),)))
    features.prompted(end + 21.0)
    end, counted = talk(features, end + 21.0, 20.0)
    assert not any(counted)
    features.prompted(end + FOREGONE)
    _, counted = talk(features, end + FOREGONE, 20.0)
    assert sum(counted) > 150


def test_held_keys_and_shortcuts_are_no_writing() -> None:
    """They are seen, but nobody is writing."""
    features = Features(Habits())
    for n in range(100):
        kinds = (KeyKind.REPEAT, KeyKind.SHORTCUT, KeyKind.NAVIGATION, KeyKind.MODIFIER)
        assert not features.hear(n / 10, Readings(tuple(KeyPress(n / 10, kind) for kind in kinds)))
    assert features.foregone(10.0)


def test_what_was_pressed_while_the_loop_was_held_up_counts_as_now() -> None:
    """A stopped process, a terminal that takes no more of the log: the tick goes on with the time that it began at."""
    for held_up in (2.0, 30_000.0):
        features = Features(Habits())
        assert features.hear(10.0, Readings((KeyPress(10.0 + held_up, KeyKind.TEXT),)))
        assert features.values(10.0)[0] == 1.0


def test_the_enter_of_a_prompt_is_heard_after_it() -> None:
    """In one tick the loop takes the prompt first: its Enter still belongs to it, is not vain and begins nothing."""
    seen = []
    for late in (True, False):
        habits = Habits()
        features = Features(habits)
        end = typed(features, 10.0, 8, HERE)
        enter = Readings((KeyPress(end + 0.12, KeyKind.ENTER),), window=HERE)
        if not late:
            features.hear(end + 0.2, enter)
        features.prompted(end + 0.2)
        assert features.hear(end + 0.2 if late else end + 0.3, enter if late else Readings(window=HERE)) is False
        features.hear(end + 6.0, Readings(window=HERE))
        assert habits.places["editor",].enters == 1
        assert features.foregone(end + 6.0)
        seen.append(dict(zip(weights.PLAIN, features.values(end + 6.0), strict=False))["vain"])
    assert seen == [0.0, 0.0]


def test_nothing_is_scored_long_after_the_last_sign() -> None:
    """Ten seconds after the last key no prompt can be near."""
    features = Features(Habits())
    end = typed(features, 0.0, 5)
    assert not features.foregone(end + 9.0)
    assert features.foregone(end + 10.1)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 30), st.lists(st.sampled_from(list(KeyKind)), max_size=4), st.integers(0, 3), st.booleans()
        ),
        max_size=60,
    )
)
def test_the_numbers_stay_small(steps: list) -> None:
    """Whatever happens, each is finite and of the size its weight was fitted for."""
    features, now = Features(Habits()), 0.0
    for wait, kinds, what, window in steps:
        now += wait
        keys = tuple(KeyPress(now, kind) for kind in kinds)
        features.hear(now, Readings(keys, db=-30.0, microphone=True, voice=0.9, window=HERE if window else None))
        if what == 1:
            features.prompted(now)
        if what == 2:
            features.replied(now)
        assert all(math.isfinite(value) and -1e-9 <= value < 25 for value in features.values(now))
