"""The loop while it is no moment to guess: closed sensors, few ticks, and a prompt that is served all the same."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from helpers.clock import STEP, FakeClock
from helpers.fake_parts import FakeParts
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import (
    Paused,
    PrepareRequested,
    PromptArrived,
    PromptFinished,
    Resumed,
    ServerReport,
    ServerState,
    SettingsChanged,
    ShareReport,
    Snapshot,
    State,
)
from engine.inbox import Inbox
from engine.loop import Engine
from engine.pace import REST, Pace
from engine.snapshots import as_dict, snapshot_from_dict
from engine.telemetry.moments import AnyMoment

FULL = "full-screen program"


class FakeMoments(AnyMoment):
    """Says what a test says, and writes down what it was told."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def start(self) -> None:
        """Note it."""
        self.log.append("start")

    def close(self) -> None:
        """Note it."""
        self.log.append("close")

    def configure(self, settings: Settings) -> None:
        """Note it."""
        self.log.append(f"configure {settings.quiet_programs}")


class Rig:
    """An engine on fakes, ticked by hand."""

    def __init__(self, **settings: object) -> None:
        self.clock, self.parts, self.moments = FakeClock(), FakeParts(), FakeMoments()
        self.engine = Engine(Settings(**settings), self.parts, self.clock, moments=self.moments)
        self.engine.start()

    def tick(self, count: int = 1, *, typing: bool = False, apart: float = 0.1) -> Snapshot:
        """Let so many ticks pass; return the last snapshot."""
        for _ in range(count):
            now = self.clock.advance(apart)
            if typing:
                self.parts.keys.press(now)
            snapshot = self.engine.tick(now)
        return snapshot

    def prepare(self) -> None:
        """Type until it is prepared."""
        wait_until(lambda: self.tick(typing=True).state is State.SPECULATIVE_PREPARED, timeout=10, what="a guess")


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Return a started engine with plain evidence; it is closed at the end."""
    rig = Rig(evidence="seed")
    yield rig
    rig.engine.close()


def test_while_it_is_no_moment_nothing_is_sensed_or_guessed(rig: Rig) -> None:
    """The reason is shown; typing leads nowhere; afterwards the sensors open again."""
    assert rig.tick().not_guessing is None
    rig.moments.reason = FULL
    last = rig.tick(50, typing=True)
    assert (last.not_guessing, last.state, last.probability, last.f_c) == (FULL, State.COLD_IDLE, 0.0, None)
    assert last.sensors["keyboard"] == "off"
    rig.moments.reason = None
    last = rig.tick()
    assert (last.not_guessing, last.sensors["keyboard"]) == (None, "on")
    rig.prepare()


def test_a_guess_made_before_is_given_back_and_books_nothing(rig: Rig) -> None:
    """It was no false alarm: nobody could know."""
    rig.prepare()
    rig.moments.reason = FULL
    last = rig.tick(2)
    assert (last.state, last.background_share, last.false_positives) == (State.COLD_IDLE, 100, 0)


def test_what_the_user_asked_for_is_no_guess(rig: Rig) -> None:
    """Prepared by hand it stays prepared, also when asked for in such a moment."""
    rig.engine.post(PrepareRequested())
    rig.tick()
    rig.moments.reason = FULL
    assert rig.tick(20).state is State.SPECULATIVE_PREPARED
    assert rig.tick(200).state is State.COLD_IDLE
    rig.engine.post(PrepareRequested())
    assert rig.tick().state is State.SPECULATIVE_PREPARED


def test_a_prompt_gets_the_card_and_teaches_nothing(rig: Rig) -> None:
    """It is not attended, since nobody was sensed."""
    rig.tick(10, typing=True)
    rig.moments.reason = FULL
    rig.tick()
    rig.engine.post(PromptArrived())
    last = rig.tick(2)
    assert (last.state, last.background_share, last.false_negatives) == (State.ACTIVE_INFERENCE, 0, 0)
    rig.engine.post(PromptFinished())
    assert rig.tick(2).state is State.COLD_IDLE


def test_pause_and_moment_do_not_undo_each_other(rig: Rig) -> None:
    """Sensors open only when neither forbids it; new settings do not open them either."""
    rig.moments.reason = FULL
    rig.tick()
    rig.engine.post(SettingsChanged(Settings(evidence="seed", microphone=False, quiet_programs="obs")))
    rig.engine.post(Paused())
    rig.engine.post(Resumed())
    assert rig.tick().sensors["keyboard"] == "off"
    rig.engine.post(Paused())
    rig.tick()
    rig.moments.reason = None
    assert rig.tick(2).sensors["keyboard"] == "off"
    rig.engine.post(Resumed())
    assert rig.tick().sensors["keyboard"] == "on"
    assert rig.moments.log == ["start", "configure obs"]


def test_somebody_who_is_only_seen_makes_a_prompt_attended(rig: Rig) -> None:
    """Where keys cannot be sensed: it adds nothing to P, and a missed prompt teaches."""
    rig.parts.keys.stop()
    rig.moments.person_at = rig.tick() and rig.clock.now()
    last = rig.tick(20)
    assert (last.state, last.probability) == (State.COLD_IDLE, 0.0)
    assert rig.parts.log[-2] == "link attend 10"  # the server is watched as closely as while somebody types
    rig.engine.post(PromptArrived())
    assert rig.tick().false_negatives == 1


def test_without_the_keyboard_setting_nobody_is_seen() -> None:
    """KEYBOARD=off: the user does not want to be sensed."""
    rig = Rig(keyboard=False)
    rig.moments.person_at = rig.clock.now()
    rig.tick(2)
    rig.engine.post(PromptArrived())
    assert rig.tick().false_negatives == 0
    rig.engine.close()
    assert rig.moments.log == ["start", "close"]


def test_the_reason_goes_the_way_of_all_snapshots() -> None:
    """To JSON and back."""
    shown = Snapshot(at=1.0, state=State.COLD_IDLE, not_guessing="on battery")
    assert as_dict(shown)["not_guessing"] == "on battery"
    assert snapshot_from_dict(as_dict(shown)) == shown


# ---- how often it wakes ----------------------------------------------------------------------------------------------


def test_the_loop_rests_while_nothing_is_guessed_or_held(rig: Rig) -> None:
    """A tick a second; ten while something is in work or held, which the guardian must see a beat of."""
    resting = []
    rig.moments.reason = FULL
    for event in (None, PromptArrived(), PromptFinished(), ShareReport(0, True, "folding"), ShareReport(100, None, "")):
        if event:
            rig.engine.post(event)
        rig.tick(2)
        resting.append(rig.engine._pace.resting)
    rig.moments.reason = None
    rig.tick()
    assert [*resting, rig.engine._pace.resting] == [True, False, True, False, True, False]


def test_resting_ticks_are_not_late(rig: Rig) -> None:
    """They were meant to be rare."""
    rig.moments.reason = FULL
    rig.tick()
    assert rig.tick(5, apart=REST).late_ticks == 0
    assert rig.tick(apart=1.6 * REST).late_ticks == 1


def test_the_pace_keeps_its_grid() -> None:
    """Lateness does not add up, a night is not caught up with, and an early tick postpones none."""
    pace = Pace(10, 0.0)
    assert pace.wait(0.02) == pytest.approx(0.08)
    assert pace.wait(0.13) == pytest.approx(0.07)
    assert pace.wait(1000.0) == 0.0
    assert pace.wait(1000.0) == 0.0
    assert pace.wait(1000.0) == pytest.approx(0.1)
    pace.set(10, resting=True)
    for now in (2000.0, 2000.1, 2000.2, 2000.3):
        waits = pace.wait(now)
    assert waits <= REST
    pace.set(10, resting=False)
    assert pace.wait(2000.4) <= 0.1


def test_reports_wake_nobody_and_events_wake_who_rests() -> None:
    """Also one that came just before the wait; in its usual pace the loop is not hurried."""
    inbox = Inbox()
    inbox.put(ServerReport(ServerState.UP))
    began = time.perf_counter()
    inbox.wait(0.1, early=True)
    assert time.perf_counter() - began >= 0.1 - STEP
    inbox.put(PromptArrived())
    inbox.wait(60.0, early=True)
    inbox.put(PromptArrived())
    began = time.perf_counter()
    inbox.wait(0.1, early=False)
    assert time.perf_counter() - began >= 0.1 - STEP
    assert [type(event) for event in inbox.take()] == [ServerReport, PromptArrived, PromptArrived]
    inbox.stop()
    inbox.wait(60.0, early=False)
    inbox.wait(60.0, early=True)
    assert inbox.stopped


@contextmanager
def resting_loop() -> Iterator[tuple[Engine, list[Snapshot]]]:
    """Run a real loop that rests; yield it and what it has shown so far."""
    moments = FakeMoments()
    moments.reason = FULL
    engine = Engine(Settings(), FakeParts(), SystemClock(), moments=moments)
    seen: list[Snapshot] = []
    engine.subscribe(seen.append)
    thread = threading.Thread(target=engine.run, daemon=True)
    thread.start()
    try:
        yield engine, seen
    finally:
        engine.stop()
        thread.join(10)
    assert seen[-1].closed


def test_a_real_loop_wakes_twice_a_second_at_most() -> None:
    """While it rests."""
    with resting_loop() as (_, seen):
        wait_until(lambda: len(seen) >= 4, what="four ticks")
        resting = seen[1:4]  # the first may still wait for the first report
        assert resting[-1].at - resting[0].at >= 2 * 0.5


def test_a_real_loop_that_rests_serves_a_prompt_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for the next tick, which would come in ten minutes here."""
    monkeypatch.setattr("engine.pace.REST", 600.0)
    with resting_loop() as (engine, seen):
        wait_until(lambda: engine._pace.resting, what="the rest")
        engine.post(PromptArrived())
        wait_until(lambda: seen[-1].state is State.ACTIVE_INFERENCE, what="the prompt to be served")
