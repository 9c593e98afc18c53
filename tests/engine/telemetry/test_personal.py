"""What a user's own outcomes add to the shipped weights: which moments teach, how little, and how it is bounded."""

import pytest

from engine.config.settings import Settings
from engine.telemetry import weights
from engine.telemetry.evidence import KeyKind, KeyPress, Readings
from engine.telemetry.habits import Habits
from engine.telemetry.personal import AFTER_REPLY, EVERY, LABELLED, MOST, REACH, SILENT, STEP, Lessons, Personal
from engine.telemetry.processor import Fusion

PLAIN = [0.5] * len(weights.PLAIN)
WITH_WINDOW = [0.5] * len(weights.WITH_WINDOW)


class School:
    """Lessons with a clock; `learned` is what they add where no window is known."""

    def __init__(self) -> None:
        self.personal = Personal()
        self.lessons = Lessons(self.personal)

    def learned(self, now: float) -> float:
        """Let some ticks pass at once; return what is added to the logit of one example."""
        for _ in range(20):
            self.lessons.pass_time(now)
        return self.personal.plain.of(PLAIN)

    def moments(self, begin: float, count: int) -> None:
        """Keep a moment each second."""
        for n in range(count):
            self.lessons.keep(begin + n * EVERY, PLAIN, 0.0)


def test_a_moment_teaches_once_it_is_known_what_came_of_it() -> None:
    """Nothing before; silence says no, and so does a minute without a prompt; a prompt says yes."""
    school = School()
    school.moments(100.0, 3)
    assert school.learned(102.0 + SILENT) == 0.0
    assert school.learned(103.0 + SILENT) < 0.0
    school = School()
    school.moments(100.0, 61)
    assert school.learned(100.0 + LABELLED) == 0.0
    assert school.learned(101.0 + LABELLED) < 0.0
    school = School()
    school.moments(100.0, 3)
    school.lessons.prompted(105.0)
    assert school.learned(105.0) > 0.0


def test_a_tick_learns_one_lesson_at_most() -> None:
    """The moments before a prompt are many, and a tick has little time."""
    school = School()
    school.moments(100.0, 2)
    school.lessons.prompted(102.0)
    seen = []
    for _ in range(3):
        school.lessons.pass_time(102.0)
        seen.append(school.personal.plain.of(PLAIN))
    assert 0.0 < seen[0] < seen[1] == seen[2]


def test_moments_are_kept_sparsely() -> None:
    """Ten ticks a second are one moment, else a slow writer would count as much as a day."""
    once, often = School(), School()
    once.moments(100.0, 1)
    for n in range(9):
        often.lessons.keep(100.0 + n / 10, PLAIN, 0.0)
    for school in (once, often):
        school.lessons.prompted(101.0)
    assert often.learned(101.0) == once.learned(101.0) > 0.0


def test_only_prompts_of_a_person_teach() -> None:
    """Not one that follows a reply at once, nor one while another is in work; what is typed meanwhile is not kept."""
    school = School()
    school.lessons.prompted(90.0)
    school.moments(92.0, 3)
    school.lessons.replied(100.0)
    school.moments(100.1, 2)
    school.lessons.prompted(100.0 + AFTER_REPLY)
    assert school.learned(103.0) == 0.0
    school.moments(104.0, 3)
    school.lessons.prompted(108.0)
    assert school.learned(200.0) == 0.0
    school.lessons.replied(200.0)
    school.moments(210.0, 3)
    school.lessons.prompted(213.0)
    assert school.learned(213.0) > 0.0


def test_one_odd_day_cannot_break_it() -> None:
    """Lessons of one kind, louder than any, move no weight further than MOST, and the score no further than REACH."""
    loud = [10 * value for value in WITH_WINDOW]
    for sign in (1.0, -1.0):
        personal = Personal()
        for _ in range(2_000):
            personal.with_window.teach(loud, sign)
        added = personal.with_window.as_dict()
        assert max(map(abs, added.values())) == MOST
        assert personal.with_window.of(loud) == sign * REACH


def test_it_is_slow_and_comes_back() -> None:
    """A minute of lessons is hardly seen; without errors everything goes back to the shipped weights, over weeks."""
    personal = Personal()
    for _ in range(60):
        personal.with_window.teach(WITH_WINDOW, 0.5)
    after = personal.with_window.of(WITH_WINDOW)
    assert 0.0 < after < 60 * STEP * 0.5 * 25
    for _ in range(20_000):
        personal.with_window.teach(WITH_WINDOW, 0.0)
    assert 0.9 * after < personal.with_window.of(WITH_WINDOW) < 0.95 * after


def test_the_two_sets_are_separate_and_known_by_name() -> None:
    """What is learned where no window is known changes nothing where one is; a name that is gone is left out."""
    personal = Personal()
    personal.fitting(PLAIN).teach(PLAIN, 1.0)
    assert personal.with_window.of(WITH_WINDOW) == 0.0
    assert set(personal.plain.as_dict()) == {*weights.PLAIN, "bias"}
    again = Personal()
    again.plain.take({**personal.plain.as_dict(), "no such feature": 0.5})
    assert again.plain.of(PLAIN) == pytest.approx(personal.plain.of(PLAIN))
    assert "no such feature" not in again.plain.as_dict()


def type_in_vain(fusion: Fusion, seconds: int) -> None:
    """Write and send nothing."""
    for n in range(seconds * 10):
        keys = (KeyPress(1000.0 + n / 10, KeyKind.TEXT),) if n % 2 else ()
        fusion.step(1000.0 + n / 10, Readings(keys))


def experienced() -> Habits:
    """Return habits of somebody who is past the cold start."""
    habits = Habits()
    habits.prompts = 1
    return habits


def test_writing_that_becomes_no_prompt_teaches_the_fusion() -> None:
    """And what was learned survives whatever clears evidence, but not the wish to forget it."""
    fusion = Fusion(Settings(), experienced())
    type_in_vain(fusion, 80)
    learned = fusion.personal.plain.as_dict()
    assert learned["bias"] < 0.0
    fusion.clear()
    assert fusion.personal.plain.as_dict() == learned
    fusion.forget()
    assert (fusion.personal.plain.as_dict(), fusion.habits.prompts) == ({}, 0)


def test_nothing_is_taught_while_it_is_off_or_nothing_is_sensed() -> None:
    """LEARNED=off; a moment whose outcome a pause hides teaches nothing either."""
    fusion = Fusion(Settings(learned=False), experienced())
    type_in_vain(fusion, 40)
    assert fusion.personal.plain.as_dict() == {}
    fusion = Fusion(Settings(), experienced())
    type_in_vain(fusion, 10)
    fusion.clear()  # as a pause does
    for n in range(600):
        fusion.step(1010.0 + n / 10, Readings(keyboard=False))
    assert fusion.personal.plain.as_dict() == {}
