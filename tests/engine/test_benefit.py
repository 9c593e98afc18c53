"""What a preparation brought and cost, booked by script; and whether the next one pays."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.account import Day, PromptReport
from engine.benefit import ENOUGH, SERVERS, Benefit, Means, means, saved_per_minute, total
from engine.config.settings import Settings
from engine.events import Moved, ShareReport, State, Why
from engine.orchestration.machine import Machine

IDLE, PREPARED, ACTIVE, DEGRADED = State
GUESS = Moved(IDLE, PREPARED, Why.THRESHOLD)
HIT = Moved(PREPARED, ACTIVE, Why.PROMPT)
MISSED = Moved(IDLE, ACTIVE, Why.PROMPT)
TIMEOUT = Moved(PREPARED, IDLE, Why.TIMEOUT)
FINISHED = Moved(ACTIVE, IDLE, Why.FINISHED)
COLD = PromptReport(reused=0, computed=1000, seconds=2.0, restored=None, woken=None, server="one")  # 500 tokens/s
YESTERDAY, TODAY, TOMORROW = "2026-11-29", "2026-11-30", "2026-12-01"


class Script:
    """Books by the tenth of a second, as the loop does."""

    def __init__(self, benefit: Benefit | None = None) -> None:
        self.benefit = benefit or Benefit()
        self.now = 1000.0
        self.date = TODAY
        self.machine = Machine(0.65)
        self.share = ShareReport(100, None, "process")
        self.then()

    def then(self, *moves: Moved, share: int | None = None, lost: float = 0.0, after: float = 0.0) -> None:
        """Let so many seconds pass, then these moves happen, and this share is in force."""
        for _ in range(round(after * 10)):
            self.now += 0.1
            self._step()
        for move in moves:
            false_alarms = self.machine.false_positives + (move.why is Why.TIMEOUT and not self.machine.asked_until)
            self.machine = replace(self.machine, state=move.target, false_positives=false_alarms)
        account = replace(self.share.account, lost=self.share.account.lost + lost)
        self.share = replace(self.share, share=self.share.share if share is None else share, account=account)
        self._step(*moves)

    def _step(self, *moves: Moved) -> None:
        self.benefit.step(self.now, self.date, moves, self.machine, self.share)

    @property
    def today(self) -> Day:
        """What is booked for today."""
        today = self.benefit.today
        assert today is not None
        return today


@pytest.fixture
def script() -> Script:
    """Return empty books."""
    return Script()


def test_a_hit_saves_what_the_server_need_not_compute_again(script: Script) -> None:
    """1,500 tokens at 500 a second are 3 s; the lead is counted, and the job's seconds before and after the prompt."""
    script.benefit.prompted(COLD)
    script.then(GUESS, share=10)
    script.then(HIT, share=0, after=4.0)
    script.then(FINISHED, share=100, after=10.0)
    script.benefit.prompted(replace(COLD, reused=1500, computed=20, seconds=0.1, restored=1600))
    today = script.today
    assert (today.preparations, today.hits, today.false_alarms, today.measured, today.reused) == (1, 1, 0, 1, 1500)
    assert today.saved == pytest.approx(3.0)
    assert today.lead == pytest.approx(4.0)
    assert today.held_guessing == pytest.approx(3.6)  # 90 % of 4 s
    assert today.held_serving == pytest.approx(10.0)


def test_a_false_alarm_is_cost_alone(script: Script) -> None:
    """What is held until the job is seen to be back counts, too."""
    script.then(GUESS, share=0)
    script.then(TIMEOUT, after=15.0)
    script.then(share=100, after=1.0)
    script.then(after=5.0)
    assert script.today == Day(TODAY, preparations=1, false_alarms=1, held_guessing=pytest.approx(16.0))
    assert saved_per_minute(script.today) is None


def test_a_useless_restore_counts_zero(script: Script) -> None:
    """Nothing re-used is a known saving of nothing, whether or not the rate is known."""
    script.benefit.prompted(replace(COLD, computed=10, restored=1600))
    assert (script.today.measured, script.today.saved, script.today.reused) == (1, 0.0, 0)


@pytest.mark.parametrize(
    "cold",
    [
        replace(COLD, server="another"),
        replace(COLD, seconds=None),
        replace(COLD, seconds=0.0),
        replace(COLD, computed=255),
    ],
)
def test_an_unknown_rate_is_no_saving_and_no_zero(script: Script, cold: PromptReport) -> None:
    """Another server's prompt, one without a time, or one too short says nothing; the tokens are known all the same."""
    script.benefit.prompted(cold)
    script.benefit.prompted(replace(COLD, reused=1500, computed=20, restored=1600))
    assert (script.today.measured, script.today.saved, script.today.reused) == (0, 0.0, 1500)
    assert script.benefit.rate("one") is None


def test_what_was_not_prepared_saves_nothing(script: Script) -> None:
    """A server that re-uses its own context owes us nothing; and of its re-use no more is ours than we restored."""
    script.benefit.prompted(replace(COLD, reused=5000))
    assert script.today == Day(TODAY)
    script.benefit.prompted(replace(COLD, reused=5000, restored=500))
    assert (script.today.reused, script.today.saved) == (500, pytest.approx(1.0))


def test_waking_the_server_saves_its_measured_time(script: Script) -> None:
    """Alone where there was nothing to restore; on top where there was; unknown with the rest where that is unknown."""
    script.benefit.prompted(replace(COLD, computed=10, woken=7.5))
    assert (script.today.measured, script.today.saved) == (1, 7.5)
    script.benefit.prompted(replace(COLD, computed=10, reused=900, restored=1000, woken=7.5))
    assert (script.today.measured, script.today.saved) == (1, 7.5)
    script.benefit.prompted(replace(COLD, reused=1000, restored=1000, woken=7.5))
    assert (script.today.measured, script.today.saved) == (2, pytest.approx(17.0))


def test_the_rate_is_the_median_of_the_last_prompts(script: Script) -> None:
    """One odd prompt moves little, and the servers seen last are remembered."""
    for seconds in (2.0, 2.0, 0.01, 2.0, 40.0):
        script.benefit.prompted(replace(COLD, seconds=seconds))
    assert script.benefit.rate("one") == 500.0
    for number in range(SERVERS):
        script.benefit.prompted(replace(COLD, server=str(number)))
    assert script.benefit.rate("one") is None
    assert len(script.benefit.rates) == SERVERS


def test_what_was_asked_for_is_no_guess(script: Script) -> None:
    """It is booked as a preparation; its seconds are not a guess's, and its end without a prompt is no false alarm."""
    script.machine = replace(script.machine, asked_until=2000.0)
    script.then(GUESS, share=0)
    script.then(TIMEOUT, after=10.0)
    script.machine = replace(script.machine, asked_until=None)
    script.then(share=100)
    assert script.today == Day(TODAY, preparations=1, asked=1, held_serving=pytest.approx(10.0))


def test_lingering_belongs_to_the_prompt_before(script: Script) -> None:
    """And a prompt that nobody had guessed costs the job seconds as well."""
    script.then(MISSED, share=0)
    script.then(FINISHED, after=5.0)
    script.then(share=100, after=60.0)
    assert script.today == Day(TODAY, held_serving=pytest.approx(65.0))


def test_midnight_begins_a_new_day(script: Script) -> None:
    """What is held over midnight is divided; the day before stays as it was."""
    script.then(GUESS, share=0)
    script.then(after=3.0)
    script.date = TOMORROW
    script.then(HIT, share=100, after=2.0)
    assert script.benefit.days[TODAY] == Day(TODAY, preparations=1, held_guessing=pytest.approx(3.0))
    assert script.today == Day(TOMORROW, hits=1, lead=pytest.approx(5.0), held_guessing=pytest.approx(2.0))


def test_a_clock_that_jumps_adds_nothing(script: Script) -> None:
    """The wall clock chooses the day only; a machine that slept has held nothing meanwhile."""
    script.then(GUESS, share=0)
    script.date = "1999-01-01"
    script.then(after=1.0)
    script.date = TODAY
    script.now += 40_000
    script.then()
    script.now -= 50
    script.then()
    assert total(script.benefit.days.values()) == Day("", preparations=1, held_guessing=pytest.approx(1.0))


def test_lost_work_is_booked_once(script: Script) -> None:
    """The job's own sums grow; an engine's first report counts from nothing."""
    script.then(lost=0.03)
    script.then(after=1.0)
    script.then(lost=0.01)
    assert script.today == Day(TODAY, lost=pytest.approx(0.04))


# ---- Cost against benefit --------------------------------------------------------------------------------------------


def days_of(saved: float, *, measured: int = ENOUGH, held: float = 10.0, guesses: int = ENOUGH) -> Day:
    """Return a day on which each measured prompt saved so much, and each guess held the job for so long."""
    return Day(
        TODAY,
        preparations=guesses + 1,
        asked=1,
        measured=measured,
        saved=saved * measured,
        held_guessing=held * guesses,
    )


@pytest.mark.parametrize(
    ("day", "worth", "p", "pays"),
    [
        (days_of(20.0), 1.0, 0.5, True),  # 0.5 · 20 s for 10 s
        (days_of(20.0), 1.0, 0.49, False),
        (days_of(20.0), 2.0, 0.9, False),
        (days_of(0.0), 0.01, 1.0, False),
        (days_of(0.0), 0.0, 0.4, True),  # never weighed
        (days_of(0.0, held=0.0), 1.0, 0.4, True),  # costs nothing
        (days_of(1.0, measured=ENOUGH - 1), 100.0, 0.4, True),  # not known yet
        (days_of(20.0, guesses=ENOUGH - 1), 1.0, 0.67, False),  # 13.5 s, the whole of its patience
        (days_of(20.0, guesses=ENOUGH - 1), 1.0, 0.68, True),
        (replace(days_of(0.0), date="2026-11-16"), 1.0, 0.4, True),  # too long ago
        (replace(days_of(0.0), date=TOMORROW), 1.0, 0.4, True),  # by a clock that went wrong
    ],
)
def test_a_preparation_begins_only_where_it_pays(day: Day, worth: float, p: float, pays: bool) -> None:
    """P times the mean saving against the seconds of the job, each worth so many; unknown is not weighed."""
    script = Script(Benefit([day]))
    assert script.benefit.pays(p, Settings(job_worth=worth)) is pays


def test_before_the_first_step_nothing_is_weighed() -> None:
    """The day is not known yet."""
    assert Benefit([days_of(0.0)]).pays(0.1, Settings(job_worth=1.0))
    assert Benefit([days_of(0.0)]).today is None


def test_the_first_guess_of_a_day_is_always_let_through() -> None:
    """Else days on which nothing was saved would keep it from ever being measured again."""
    script = Script(Benefit([replace(days_of(0.0), date=YESTERDAY)]))
    assert script.benefit.pays(0.1, Settings(job_worth=1.0))
    script.then(GUESS)
    assert not script.benefit.pays(1.0, Settings(job_worth=1.0))


def test_what_is_measured_meanwhile_is_weighed(script: Script) -> None:
    """The means follow the books."""
    settings = Settings(job_worth=1.0)
    script.then(GUESS)
    assert script.benefit.pays(0.5, settings)
    for _ in range(ENOUGH):
        script.benefit.prompted(replace(COLD, restored=100))
    assert not script.benefit.pays(0.5, settings)
    script.benefit.prompted(COLD)
    script.benefit.prompted(replace(COLD, reused=500_000, restored=500_000))
    assert script.benefit.pays(0.5, settings)


def test_means_say_what_they_rest_on() -> None:
    """Nothing is a mean of nothing."""
    assert means([], TODAY) == Means(None, 0, None, 0)
    assert means([days_of(2.0)], TODAY) == Means(2.0, ENOUGH, 10.0, ENOUGH)


# ---- By property -----------------------------------------------------------------------------------------------------

AMOUNTS = st.integers(0, 10_000)
WALKS = st.lists(st.sampled_from((GUESS, HIT, MISSED, TIMEOUT, FINISHED, None)), max_size=30)


@given(WALKS, st.lists(st.sampled_from((0, 10, 50, 100)), min_size=30, max_size=30), st.data())
def test_the_parts_are_the_whole(walk: list[Moved | None], shares: list[int], data: st.DataObject) -> None:
    """However moves, shares and days follow: the days sum up to what an own count of the script says."""
    script, held, saved, reused = Script(), 0.0, 0.0, 0
    script.benefit.prompted(COLD)
    for move, share in zip(walk, shares, strict=False):
        if data.draw(st.booleans()):
            script.date = data.draw(st.sampled_from((TODAY, TOMORROW)))
        seconds = data.draw(st.integers(0, 3))
        held += seconds * (100 - script.share.share) / 100
        script.then(*([move] if move else []), share=share, after=seconds)
        report = replace(COLD, computed=1, reused=data.draw(AMOUNTS), restored=data.draw(AMOUNTS))
        script.benefit.prompted(report)
        ours = min(report.reused, report.restored or 0)
        saved, reused = saved + ours / 500, reused + ours
    whole = total(script.benefit.days.values())
    assert whole.held_guessing + whole.held_serving == pytest.approx(held)
    assert (whole.saved, whole.reused) == (pytest.approx(saved), reused)
    moves = [move for move, _ in zip(walk, shares, strict=False)]
    assert (whole.preparations, whole.hits, whole.false_alarms) == tuple(moves.count(m) for m in (GUESS, HIT, TIMEOUT))
    assert all(getattr(whole, field.name) >= 0 for field in fields(Day)[1:])
