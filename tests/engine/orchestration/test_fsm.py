"""The machine, read as scripts: events in, transitions and effects out."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import Settings
from engine.events import (
    CancelPreparation,
    Closing,
    FlagUnifiedMemory,
    KeepContext,
    MachineEvent,
    Moved,
    Paused,
    PrepareContext,
    PrepareRequested,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    ResetProbability,
    Resumed,
    ServerBack,
    ServerLost,
    ServerSlept,
    SetShare,
    SettingsChanged,
    State,
    Tick,
    Tuned,
)
from engine.orchestration import fsm
from engine.orchestration.law import law_as_markdown

IDLE, PREPARED, ACTIVE, DEGRADED = (
    State.COLD_IDLE,
    State.SPECULATIVE_PREPARED,
    State.ACTIVE_INFERENCE,
    State.DEGRADED,
)


class Script:
    """Feeds events at times and keeps what came out."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.machine = fsm.start(self.settings, 0.0)
        self.effects: list = []
        self.why: list[str] = []

    def at(self, now: float, event: MachineEvent) -> tuple:
        """Apply one event; return its effects without the transition."""
        self.machine, effects = fsm.step(self.machine, event, now, self.settings)
        if isinstance(event, SettingsChanged):
            self.settings = event.settings
        self.why += [effect.why.value for effect in effects if isinstance(effect, Moved)]
        self.effects += effects
        return tuple(effect for effect in effects if not isinstance(effect, Moved))

    def type_at(self, now: float, probability: float = 0.9) -> tuple:
        """Apply a tick with fresh evidence."""
        return self.at(now, Tick(probability, evidence_at=now))

    @property
    def state(self) -> State:
        """Return where the machine is."""
        return self.machine.state


@pytest.fixture
def script() -> Script:
    """Return a fresh machine with default settings."""
    return Script()


def test_a_tick_that_tells_nothing_new_changes_nothing(script: Script) -> None:
    """The machine stays the very same one: in the quiet that is ten times a second."""
    quiet = Tick(0.1, evidence_at=1.0, touched_at=2.0, sensing=True)
    script.at(3.0, quiet)
    before = script.machine
    assert script.at(3.1, quiet) == ()
    assert script.machine is before
    script.at(3.2, Tick(0.1, evidence_at=1.0, touched_at=3.2, sensing=True))
    assert script.machine.touched_at == 3.2


def test_crossing_the_threshold_prepares_everything(script: Script) -> None:
    """P at the threshold is enough, and all three preparations begin at once."""
    assert script.at(1.0, Tick(0.6499, evidence_at=1.0)) == ()
    assert script.at(1.1, Tick(0.65, evidence_at=1.1)) == (SetShare(10), FlagUnifiedMemory(), PrepareContext())
    assert script.state is PREPARED
    assert script.why == ["threshold"]


def test_a_guess_that_does_not_pay_is_not_begun(script: Script) -> None:
    """Certain as it may be; what was asked for is begun all the same, and ends no sooner for it."""
    assert script.at(1.0, Tick(1.0, evidence_at=1.0, pays=False)) == ()
    assert script.at(1.1, PrepareRequested()) == (SetShare(10), FlagUnifiedMemory(), PrepareContext())
    assert script.at(1.2, Tick(1.0, evidence_at=1.0, pays=False)) == ()
    assert script.state is PREPARED


def test_a_prompt_while_prepared_is_a_hit(script: Script) -> None:
    """The job leaves the card whole, what is still queued is dropped, and the row of false alarms ends."""
    script.type_at(1.0)
    assert script.at(2.0, PromptArrived()) == (CancelPreparation(), SetShare(0))
    assert (script.state, script.machine.hits, script.machine.false_negatives) == (ACTIVE, 1, 0)


def test_the_last_reply_gives_the_card_back_and_keeps_the_context(script: Script) -> None:
    """Two prompts need two replies; only then P starts anew."""
    script.type_at(1.0)
    script.at(2.0, PromptArrived())
    assert script.at(2.5, PromptArrived()) == ()
    assert script.at(3.0, PromptFinished()) == ()
    assert script.at(4.0, PromptFinished()) == (SetShare(100, linger=True), ResetProbability(), KeepContext())
    assert (script.state, script.machine.hits) == (IDLE, 1)
    assert script.why == ["threshold", "prompt", "finished"]


def test_a_preparation_without_a_prompt_is_a_false_positive(script: Script) -> None:
    """15 s count from the later of entry and last evidence."""
    script.type_at(10.0)
    script.at(18.0, Tick(0.3, evidence_at=18.0))
    assert script.at(32.9, Tick(0.1, evidence_at=18.0)) == ()
    assert script.at(33.0, Tick(0.1, evidence_at=18.0)) == (CancelPreparation(), SetShare(100), ResetProbability())
    assert (script.state, script.machine.false_positives, script.why[-1]) == (IDLE, 1, "timeout")


def test_timer_from_entry_is_the_literal_reading() -> None:
    """With TIMER_FROM=entry evidence does not prolong a preparation."""
    script = Script(Settings(timer_from="entry"))
    script.type_at(10.0)
    script.type_at(24.9)
    assert script.state is PREPARED
    script.type_at(25.0)
    assert script.state is IDLE


@pytest.mark.parametrize(("timer", "ends"), [(15.0, 310.0), (600.0, 610.0)], ids=["five minutes", "a longer timer"])
def test_a_guess_does_not_last_forever(timer: float, ends: float) -> None:
    """Steady typing in a chat prolongs it to five minutes, or INACTIVITY_TIMER; then it was a false positive."""
    script = Script(Settings(inactivity_timer=timer))
    for n in range(10, 700):
        script.at(float(n), Tick(1.0, evidence_at=float(n), known_window=True))
        assert script.state is (PREPARED if n < ends else IDLE)
    assert (script.machine.false_positives, script.why) == (1, ["threshold", "timeout"])
    script.at(702.5, Tick(1.0, evidence_at=702.5, known_window=True))
    assert script.state is PREPARED


def test_what_was_asked_for_lasts_as_long_as_was_asked(script: Script) -> None:
    """Even beyond the end of a guess."""
    script.at(1.0, PrepareRequested(1000.0))
    script.type_at(1000.9)
    assert script.state is PREPARED


def test_after_a_false_positive_it_waits_for_thirty_quiet_seconds(script: Script) -> None:
    """Evidence within the hold starts the wait anew; after it a guess is free again."""
    script.type_at(0.0)
    script.at(15.0, Tick(0.9, evidence_at=0.0))
    assert script.at(40.0, Tick(1.0, evidence_at=40.0)) == ()
    assert script.at(69.9, Tick(1.0, evidence_at=40.0)) == ()
    script.at(70.0, Tick(1.0, evidence_at=40.0))
    assert script.state is PREPARED


def test_a_known_window_needs_three_quiet_seconds_only(script: Script) -> None:
    """Where prompts come from, the hold is short."""
    script.type_at(0.0)
    script.at(15.0, Tick(0.0, evidence_at=0.0, known_window=True))
    script.at(18.0, Tick(1.0, evidence_at=0.0, known_window=True))
    assert script.state is PREPARED


def test_an_attended_prompt_nobody_foresaw_lowers_the_threshold(script: Script) -> None:
    """A false negative moves the threshold by one step, and P has nothing to do with it."""
    script.at(9.9, Tick(0.2, evidence_at=9.9))
    assert script.at(10.0, PromptArrived()) == (CancelPreparation(), SetShare(0), Tuned(0.65, 0.6, "false negative"))
    assert (script.state, script.machine.false_negatives) == (ACTIVE, 1)


@pytest.mark.parametrize(
    ("tick", "before"),
    [
        (Tick(0.1, evidence_at=None), []),
        (Tick(0.1, evidence_at=-51.0), []),
        (Tick(0.1, evidence_at=9.0, sensing=False), []),
        (Tick(0.1, evidence_at=9.0), [(7.0, PromptArrived()), (8.0, PromptFinished())]),
    ],
    ids=["never typed", "typed too long ago", "no sensor", "soon after a reply"],
)
def test_prompts_that_nobody_typed_get_the_card_but_do_not_tune(tick: Tick, before: list) -> None:
    """Agents, titles and tags are served and teach nothing."""
    script = Script()
    for now, earlier in before:
        script.at(now, earlier)
    script.at(9.9, tick)
    assert SetShare(0) in script.at(10.0, PromptArrived())
    assert (script.state, script.machine.false_negatives, script.machine.threshold) == (ACTIVE, 0, 0.65)


def test_three_false_positives_in_a_row_raise_the_threshold(script: Script) -> None:
    """The row restarts after the step, and a hit in between ends it."""
    now = 0.0

    def false_positive() -> None:
        nonlocal now
        now += 100.0
        script.type_at(now, 1.0)
        script.at(now + 15.0, Tick(0.0, evidence_at=now))

    for _ in range(3):
        false_positive()
    assert script.machine.threshold == 0.70
    false_positive()
    false_positive()
    now += 100.0
    script.type_at(now, 1.0)
    script.at(now + 1.0, PromptArrived())
    script.at(now + 2.0, PromptFinished())
    false_positive()
    false_positive()
    assert script.machine.threshold == 0.70
    false_positive()
    assert script.machine.threshold == 0.75


def test_the_threshold_stops_at_its_bounds(script: Script) -> None:
    """15 missed prompts end at 0.40, 50 false alarms at 0.90: exactly."""
    for n in range(15):
        now = 100.0 * n
        script.at(now, Tick(0.0, evidence_at=now))
        script.at(now, PromptArrived())
        script.at(now + 1, PromptFinished())
    assert script.machine.threshold == 0.40
    for n in range(50):
        now = 10_000.0 + 100.0 * n
        script.type_at(now, 1.0)
        script.at(now + 15, Tick(0.0, evidence_at=now))
    assert script.machine.threshold == 0.90
    assert (script.machine.false_negatives, script.machine.false_positives) == (15, 50)


@pytest.mark.parametrize("state", [IDLE, PREPARED, ACTIVE])
def test_losing_the_server_gives_back_and_books_nothing(state: State) -> None:
    """Whatever it was doing, the job gets the card and nobody is blamed."""
    script = _in(state)
    assert script.at(5.0, ServerLost("refused")) == (CancelPreparation(), SetShare(100))
    assert (script.state, script.why[-1]) == (DEGRADED, "server_lost")
    assert script.machine.outstanding == 0
    assert script.machine.false_positives + script.machine.false_negatives == 0


def test_degraded_stays_until_the_server_is_back() -> None:
    """Typing and prompts change nothing; coming back idle leads to COLD_IDLE, busy to ACTIVE_INFERENCE."""
    script = _in(DEGRADED)
    assert script.type_at(6.0, 1.0) == ()
    assert script.at(6.5, PromptArrived()) == ()
    assert script.state is DEGRADED
    assert script.at(7.0, ServerBack()) == ()
    assert script.state is IDLE
    script = _in(DEGRADED)
    assert script.at(7.0, ServerBack(busy=1)) == (SetShare(0),)
    assert (script.state, script.machine.hits, script.machine.false_negatives) == (ACTIVE, 0, 0)
    script.at(8.0, PromptFinished())
    assert script.state is IDLE


def test_pausing_gives_back_and_nothing_happens_until_resumed() -> None:
    """A flag, not a state: no preparation, no throttle, no tuning while it is set."""
    for state in (IDLE, PREPARED, ACTIVE):
        script = _in(state)
        assert SetShare(100) in script.at(5.0, Paused())
        assert script.state is IDLE
        assert script.type_at(6.0, 1.0) == ()
        assert script.at(6.1, PromptArrived()) == ()
        assert (script.state, script.machine.threshold) == (IDLE, 0.65)
    script = _in(DEGRADED)
    script.at(5.0, Paused())
    assert script.state is DEGRADED
    assert script.at(6.0, ServerBack(busy=2)) == ()
    assert script.state is IDLE


def test_resuming_while_busy_takes_the_card(script: Script) -> None:
    """The prompt that came while paused still gets the card, unbooked."""
    script.at(1.0, Paused())
    script.at(2.0, PromptArrived())
    assert script.at(3.0, Resumed()) == (CancelPreparation(), SetShare(0))
    assert (script.state, script.machine.false_negatives) == (ACTIVE, 0)


def test_a_server_that_falls_asleep_while_prepared_is_woken_once(script: Script) -> None:
    """Only with fresh evidence, and not again and again."""
    script.type_at(1.0)
    assert script.at(2.0, ServerSlept()) == (PrepareContext(),)
    assert script.at(3.0, ServerSlept()) == ()
    script = Script()
    script.type_at(1.0)
    assert script.at(16.0, ServerSlept()) == ()


def test_asking_to_prepare_teaches_nothing(script: Script) -> None:
    """Prepared for the time asked for, whatever P is; neither its end nor a prompt is booked."""
    assert script.at(1.0, PrepareRequested(60.0)) == (SetShare(10), FlagUnifiedMemory(), PrepareContext())
    script.at(60.9, Tick(0.0, evidence_at=None))
    assert script.state is PREPARED
    assert script.at(61.0, Tick(0.0, evidence_at=None)) == (CancelPreparation(), SetShare(100), ResetProbability())
    script.at(70.0, PrepareRequested())
    script.at(80.0, PrepareRequested(30.0))
    script.at(85.1, Tick(0.0, evidence_at=None))
    assert script.state is PREPARED
    script.at(90.0, PromptArrived())
    machine = script.machine
    assert (machine.state, machine.hits, machine.false_positives, machine.asked_until) == (ACTIVE, 0, 0, None)


def test_asking_to_prepare_while_paused_or_degraded_does_nothing() -> None:
    """A pause is a pause, and there is no server to prepare."""
    script = _in(IDLE)
    script.at(1.0, Paused())
    assert script.at(2.0, PrepareRequested()) == ()
    assert (script.state, script.machine.asked_until) == (IDLE, None)
    assert _in(DEGRADED).at(2.5, PrepareRequested()) == ()


@pytest.mark.parametrize("state", list(State))
def test_releasing_by_hand_gives_back_and_waits_for_quiet(state: State) -> None:
    """The next guess comes only after thirty quiet seconds, and nothing is booked."""
    script = _in(state)
    assert SetShare(100) in script.at(5.0, ReleaseRequested())
    assert script.state is (DEGRADED if state is DEGRADED else IDLE)
    assert script.type_at(6.0, 1.0) == ()
    assert (script.machine.false_positives, script.machine.threshold) == (0, 0.65)


def test_a_pause_remembers_when_it_ends(script: Script) -> None:
    """The loop resumes it then."""
    script.at(10.0, Paused(900.0))
    assert script.machine.paused_until == 910.0
    script.at(20.0, Resumed())
    assert script.machine.paused_until is None


def test_a_server_found_busy_at_the_first_look_gets_the_card(script: Script) -> None:
    """Nothing is booked, since nothing was seen."""
    assert script.at(0.5, ServerBack(busy=1)) == (CancelPreparation(), SetShare(0))
    assert (script.state, script.machine.false_negatives) == (ACTIVE, 0)


def test_new_settings_move_the_threshold_only_as_said(script: Script) -> None:
    """INITIAL sets it, MIN and MAX clamp it, anything else leaves it alone."""
    script.at(1.0, SettingsChanged(Settings(weight_key=0.5)))
    assert script.machine.threshold == 0.65
    script.at(2.0, SettingsChanged(Settings(weight_key=0.5, initial_threshold=0.8)))
    assert script.machine.threshold == 0.8
    script.at(3.0, SettingsChanged(Settings(weight_key=0.5, initial_threshold=0.8, max_threshold=0.85)))
    assert script.machine.threshold == 0.8
    assert script.at(4.0, SettingsChanged(Settings(max_threshold=0.7))) == (Tuned(0.8, 0.65, "settings"),)


@pytest.mark.parametrize("state", list(State))
def test_closing_always_gives_back(state: State) -> None:
    """From every state the last word is share 100."""
    script = _in(state)
    assert script.at(9.0, Closing())[-1] == SetShare(100)
    assert script.state is IDLE


def test_what_a_state_must_never_see_is_refused() -> None:
    """An event listed nowhere is a defect, and says so."""
    script = _in(ACTIVE)

    class Surprise:
        """Not an event."""

    with pytest.raises(fsm.MachineError, match="Surprise in ACTIVE_INFERENCE"):
        script.at(1.0, Surprise())


def test_the_law_covers_every_state_and_event() -> None:
    """Each pair of state and event is either a row or listed as ignored."""
    kinds = MachineEvent.__args__
    for state, kind in itertools.product(State, kinds):
        listed = kind in fsm.IGNORED[state] or any(
            rule.source is state and rule.event is kind and rule.guard is fsm.ALWAYS for rule in fsm.LAW
        )
        assert listed, f"{kind.__name__} in {state.value}"


def test_architecture_prints_the_law() -> None:
    """The document and the program say the same."""
    text = Path("ARCHITECTURE.md").read_text("utf-8")
    printed = text.split("<!-- law: begin -->\n")[1].split("<!-- law: end -->")[0]
    assert printed.strip() == law_as_markdown().strip()


EVENTS = st.one_of(
    st.builds(
        lambda p, age, sensing, known: (p, age, sensing, known),
        st.floats(0, 1),
        st.one_of(st.none(), st.floats(0, 100)),
        st.booleans(),
        st.booleans(),
    ),
    st.sampled_from([PromptArrived(), PromptFinished(), ServerLost("x"), ServerBack()]),
    st.sampled_from([ServerBack(busy=2), ServerSlept(), Paused(), Resumed()]),
    st.sampled_from([PrepareRequested(), PrepareRequested(5.0), ReleaseRequested(), Paused(9.0)]),
    st.builds(
        lambda low: SettingsChanged(Settings(min_threshold=low, initial_threshold=0.7, max_threshold=0.8)),
        st.floats(0.1, 0.7),
    ),
)


@given(st.lists(st.tuples(st.floats(0, 60), EVENTS), max_size=60), st.sampled_from(["evidence", "entry"]))
def test_the_promises_hold_for_any_run_of_events(steps: list, timer: str) -> None:
    """Threshold within bounds; idle and degraded ask for 100; paused holds nothing; closing ends with 100."""
    script = Script(Settings(timer_from=timer))
    now, share = 0.0, 100
    for wait, drawn in steps:
        now += wait
        event = drawn
        if isinstance(drawn, tuple):
            probability, age, sensing, known = drawn
            event = Tick(probability, None if age is None else now - age, sensing, known)
        for effect in script.at(now, event):
            share = effect.percent if isinstance(effect, SetShare) else share
        machine, settings = script.machine, script.settings
        assert settings.min_threshold <= machine.threshold <= settings.max_threshold
        if machine.state in (IDLE, DEGRADED) or machine.paused:
            assert share == 100
        if machine.state is PREPARED:
            assert share == 10
            assert not machine.paused
            assert isinstance(event, Tick) is False or now < machine.deadline(settings)
        if machine.state is ACTIVE:
            assert share == 0
            assert machine.outstanding > 0
        assert machine.outstanding >= 0
    assert script.at(now, Closing())[-1] == SetShare(100)


def _in(state: State) -> Script:
    """Return a machine that got into `state` by the shortest way."""
    script = Script()
    if state in (PREPARED, ACTIVE):
        script.type_at(1.0)
    if state is ACTIVE:
        script.at(2.0, PromptArrived())
    if state is DEGRADED:
        script.at(2.0, ServerLost("refused"))
    assert script.state is state
    return script
