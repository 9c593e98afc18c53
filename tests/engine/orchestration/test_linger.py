"""A conversation costs one pause, guesses are few, and a prompt always gets the card; by a clock moved by hand."""

from itertools import pairwise

import pytest

from engine.config.settings import Settings
from engine.orchestration.linger import HOUR, REST, Thrift
from engine.orchestration.wishes import Wish


class Job:
    """A costly job that obeys at once, under a thrift."""

    def __init__(self, **settings: float) -> None:
        self.thrift = Thrift(Settings(**settings))
        self.share = 100

    def at(self, now: float, percent: int | None = None, *, linger: bool = False) -> int:
        """Wish for something, or only let time pass; return what is in force."""
        if percent is not None:
            self.thrift.take(Wish(percent, linger), now)
        self.share = self.thrift.target(now, self.share, costly=True)
        self.thrift.booked(self.share < 100, now)
        return self.share

    @property
    def cost(self) -> tuple[int, int, float]:
        """Pauses, those by guesses, seconds held."""
        account = self.thrift.account
        return account.pauses, account.guesses, account.held


def test_after_a_reply_the_job_is_held_on_for_a_while() -> None:
    """The seconds that are left can be shown."""
    job = Job(linger=60.0)
    assert job.at(0.0, 0) == 0
    assert job.at(10.0, 100, linger=True) == 0
    assert job.thrift.linger_in(30.0) == 40.0
    assert job.at(69.9) == 0
    assert job.at(70.0) == 100
    assert job.thrift.linger_in(70.0) is None
    assert job.cost == (1, 0, 70.0)


def test_a_conversation_costs_one_pause() -> None:
    """Prompts and good guesses within LINGER find the card free."""
    job = Job(linger=60.0)
    for turn in range(5):
        job.at(turn * 50.0, 10)
        job.at(turn * 50.0 + 5, 0)
        job.at(turn * 50.0 + 20, 100, linger=True)
    job.at(1000.0)
    assert job.cost[:2] == (1, 1)


def test_everything_but_a_reply_gives_back_at_once() -> None:
    """A false positive, a pause, a lost server, a release by hand; also while it lingers."""
    job = Job(linger=60.0)
    job.at(0.0, 10)
    assert job.at(15.0, 100) == 100
    job.at(20.0, 0)
    assert job.at(30.0, 100, linger=True) == 0
    assert job.at(31.0, 100) == 100


def test_without_linger_a_reply_gives_back_at_once() -> None:
    """LINGER = 0 turns it off."""
    job = Job(linger=0.0)
    job.at(0.0, 0)
    assert job.at(1.0, 100, linger=True) == 100


def test_a_job_that_is_not_held_does_not_linger() -> None:
    """There is nothing to hold on to."""
    job = Job()
    assert job.at(0.0, 100, linger=True) == 100
    assert job.thrift.linger_in(0.0) is None


def test_a_job_that_loses_nothing_is_given_back_at_once() -> None:
    """A stopped process goes on where it was."""
    thrift = Thrift(Settings())
    thrift.take(Wish(0), 0.0)
    thrift.take(Wish(100, linger=True), 1.0)
    assert thrift.target(1.0, 0, costly=False) == 100


def test_guesses_may_pause_so_many_times_an_hour_and_a_prompt_always() -> None:
    """The limit says when the next guess may; the states go on without it."""
    job = Job(max_pauses_per_hour=2)
    for start in (0.0, 100.0):
        assert job.at(start, 10) == 10
        job.at(start + 15, 100)
    assert job.at(200.0, 10) == 100
    assert "guesses may pause it 2 times an hour (MAX_PAUSES_PER_HOUR)" in job.thrift.reason(200.0)
    assert job.thrift.look_in(200.0, 100, costly=True) == HOUR - 200.0
    assert job.at(210.0, 0) == 0
    assert job.thrift.reason(210.0) == ""
    job.at(220.0, 100)
    assert job.at(HOUR - 1, 10) == 100
    assert job.at(HOUR) == 10
    assert job.cost[:2] == (4, 3)


def test_a_limit_of_nothing_leaves_the_job_to_prompts() -> None:
    """Some work is too dear for any guess."""
    job = Job(max_pauses_per_hour=0)
    assert job.at(0.0, 10) == 100
    assert job.at(10 * HOUR) == 100
    assert job.at(10 * HOUR + 1, 0) == 0


def test_a_job_that_was_just_given_back_is_left_alone_by_guesses() -> None:
    """Its core has hardly started; a prompt does not wait."""
    job = Job()
    job.at(0.0, 10)
    job.at(15.0, 100)
    assert job.at(16.0, 10) == 100
    assert "just now" in job.thrift.reason(16.0)
    assert job.at(16.5, 0) == 0
    job.at(17.0, 100)
    assert job.at(18.0, 10) == 100
    assert job.at(17.0 + REST) == 10


def test_lost_work_is_added_up() -> None:
    """It comes later, once the job says where it went on."""
    thrift = Thrift(Settings())
    for lost in (0.02, 0.0, 0.01):
        thrift.booked(False, 0.0, lost)
    assert thrift.account.lost == pytest.approx(0.03)


def test_new_settings_do_not_forget_what_was_counted() -> None:
    """Else a change of settings would be a way around the limit."""
    job = Job(max_pauses_per_hour=1)
    job.at(0.0, 10)
    job.at(15.0, 100)
    job.thrift.configure(Settings(max_pauses_per_hour=1))
    assert job.at(100.0, 10) == 100


def test_pauses_of_any_hour_stay_within_the_limit() -> None:
    """However eager the guesses are."""
    job, begun = Job(max_pauses_per_hour=3), []
    for second in range(0, 4 * 3600, 20):
        before = job.share
        if job.at(float(second), 10) == 10 and before == 100:
            begun.append(second)
        job.at(float(second) + 1, 100)
    assert len(begun) == 12
    assert all(later - first >= HOUR for first, later in zip(begun, begun[3:], strict=False))
    assert list(pairwise(begun))
