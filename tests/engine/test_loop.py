"""The loop with fakes of its parts and a clock moved by hand: what is told to whom, in which order."""

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from helpers.clock import FakeClock
from helpers.fake_parts import FakeParts
from helpers.wait import wait_until

from engine import days, memory
from engine.account import Day, PromptReport
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import (
    ContextReport,
    ContextState,
    ForgetRequested,
    Paused,
    PrepareRequested,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    Resumed,
    ServerBack,
    ServerLost,
    ServerReport,
    ServerState,
    SettingsChanged,
    ShareReport,
    Snapshot,
    State,
)
from engine.loop import Engine
from engine.telemetry.evidence import Window


class Rig:
    """An engine on fakes, ticked by hand."""

    def __init__(self, **settings: object) -> None:
        self.clock = FakeClock()
        self.parts = FakeParts()
        # By fixed rules, so that the scripts here do not depend on weights.
        self.engine = Engine(Settings(**{"learned": False, **settings}), self.parts, self.clock)
        self.engine.start()
        self.seen: list[Snapshot] = []
        self.engine.subscribe(self.seen.append)

    def tick(self, count: int = 1, *, typing: bool = False) -> Snapshot:
        """Let so many ticks pass; return the last snapshot."""
        for _ in range(count):
            now = self.clock.advance(0.1)
            if typing:
                self.parts.keys.press(now)
            snapshot = self.engine.tick(now)
        return snapshot

    def told(self) -> list[str]:
        """Return what the parts were told since the last call."""
        told, self.parts.log[:] = list(self.parts.log), []
        return told


@pytest.fixture
def rig() -> Iterator[Rig]:
    """Return a started engine; it is closed at the end."""
    rig = Rig()
    rig.tick()
    rig.told()
    yield rig
    rig.engine.close()


def test_typing_leads_through_all_effects_to_a_reply(rig: Rig) -> None:
    """One conversation: held lightly, context prepared, held fully, given back, context kept."""
    rig.tick(20, typing=True)
    rig.engine.post(PromptArrived())
    rig.tick()
    assert rig.seen[-1].state is State.ACTIVE_INFERENCE
    rig.engine.post(PromptFinished())
    last = rig.tick(2)
    assert rig.told() == [
        "share expect",
        "link attend 10",
        "share expect",
        "share 10",
        "link prepare",
        "share expect",
        "link attend 20",
        "share expect",
        "link cancel",
        "share 0",
        "share expect",
        "share 100",
        "link keep",
        "share expect",
        "link attend 10",
        "share expect",
    ]
    assert (last.state, last.hits, last.background_share) == (State.COLD_IDLE, 1, 100)
    assert [(move.source.value, move.target.value, move.why.value) for seen in rig.seen for move in seen.moves] == [
        ("COLD_IDLE", "SPECULATIVE_PREPARED", "threshold"),
        ("SPECULATIVE_PREPARED", "ACTIVE_INFERENCE", "prompt"),
        ("ACTIVE_INFERENCE", "COLD_IDLE", "finished"),
    ]


def test_a_short_prompt_leaves_no_throttle_behind(rig: Rig) -> None:
    """A prompt that came and went between two looks passes through both transitions in one tick."""
    rig.engine.post(PromptArrived())
    rig.engine.post(PromptFinished())
    last = rig.tick(2)
    assert (last.state, last.background_share) == (State.COLD_IDLE, 100)
    assert [told for told in rig.told() if told.startswith("share")] == ["share 0", "share 100"]


def test_a_false_alarm_gives_everything_back_and_starts_p_anew(rig: Rig) -> None:
    """15 s after the last key: queue dropped, job back, P at zero, and the wait for quiet is shown."""
    rig.tick(15, typing=True)
    before = rig.tick()
    assert before.state is State.SPECULATIVE_PREPARED
    assert before.deadline_in == pytest.approx(14.9, abs=0.11)
    last = rig.tick(150)
    assert (last.state, last.false_positives, last.holding) == (State.COLD_IDLE, 1, True)
    assert last.background_share == 100
    assert last.probability < 0.01
    assert [told for told in rig.told() if told != "share expect"][-3:] == [
        "link cancel",
        "share 100",
        "link attend 10",
    ]


def test_after_a_quiet_minute_the_server_is_looked_at_once_a_second(rig: Rig) -> None:
    """Attention costs the server and the battery, so it fades."""
    rig.tick(5, typing=True)
    rig.tick(590)
    assert "link attend 1" not in rig.told()
    rig.tick(20)
    assert rig.told() == ["link attend 1"]


def test_losing_the_server_and_its_return(rig: Rig) -> None:
    """DEGRADED holds nothing; reports are shown as they are."""
    rig.tick(15, typing=True)
    rig.engine.post(ServerLost("Connection refused"))
    rig.engine.post(ServerReport(ServerState.DOWN, "Connection refused"))
    last = rig.tick(2)
    assert (last.state, last.background_share, last.server) == (State.DEGRADED, 100, ServerState.DOWN)
    rig.engine.post(ServerBack())
    rig.engine.post(ContextReport(ContextState.SAVED, 2000, "the server was lost"))
    last = rig.tick()
    assert (last.context, last.context_tokens) == (ContextState.SAVED, 2000)
    # P lived on meanwhile, so the return is followed by a new preparation at once.
    assert [move.target for move in last.moves] == [State.COLD_IDLE, State.SPECULATIVE_PREPARED]


def test_pausing_closes_the_sensors_and_resuming_opens_them(rig: Rig) -> None:
    """While paused nothing is sensed, prepared or tuned."""
    rig.tick(15, typing=True)
    rig.engine.post(Paused())
    last = rig.tick(2)
    assert (last.state, last.paused, last.background_share) == (State.COLD_IDLE, True, 100)
    assert (last.sensors["keyboard"], last.f_c, last.probability) == ("off", None, 0.0)
    assert rig.tick(30, typing=True).state is State.COLD_IDLE
    rig.engine.post(Resumed())
    assert rig.tick().sensors["keyboard"] == "on"


def test_a_pause_ends_by_itself(rig: Rig) -> None:
    """The remaining time is shown; at its end the sensors open again."""
    rig.engine.post(Paused(2.0))
    assert rig.tick(2).paused_for == pytest.approx(1.9)
    last = rig.tick(19)
    assert (last.paused, last.paused_for, last.sensors["keyboard"]) == (False, None, "on")


def test_the_share_shown_is_what_is_in_force(rig: Rig) -> None:
    """Not the wish: without a backend it stays 100."""
    rig.tick(15, typing=True)
    rig.engine.post(ShareReport(100, None, "null", "switched off"))
    last = rig.tick()
    assert last.state is State.SPECULATIVE_PREPARED
    assert (last.background_share, last.backend, last.background_verified) == (100, "null", None)


def test_live_settings_apply_with_the_next_tick(rig: Rig) -> None:
    """A new threshold and KEEP_CONTEXT need no reopening."""
    rig.engine.post(SettingsChanged(Settings(initial_threshold=0.8, keep_context=False)))
    assert rig.tick().threshold == 0.8
    assert rig.told() == ["link reconfigure no keep"]


def test_another_background_is_reopened_and_another_server_gives_back_first(rig: Rig) -> None:
    """The old server's side is closed and not heard any more; the job is at 100 % before the new one starts."""
    rig.engine.post(SettingsChanged(Settings(background_method="off")))
    rig.tick()
    assert "share reopen off" in rig.told()
    rig.tick(15, typing=True)
    assert rig.parts.shares[0].share == 10
    rig.told()
    rig.engine.post(SettingsChanged(Settings(background_method="off", server_url="http://127.0.0.1:9999")))
    last = rig.tick()
    wait_until(lambda: "link close http://127.0.0.1:8080" in rig.parts.log, what="the old link to be closed")
    assert last.state is State.DEGRADED
    told = rig.told()
    assert told.index("share 100") < told.index("link start http://127.0.0.1:9999")
    rig.parts.links[0].post(ServerBack())
    assert rig.tick().state is State.DEGRADED
    rig.parts.links[1].post(ServerBack())
    assert rig.tick().state is not State.DEGRADED


def test_switching_a_sensor_off_drops_its_term(rig: Rig) -> None:
    """KEYBOARD=off: no listener, f_c unknown."""
    rig.engine.post(SettingsChanged(Settings(keyboard=False)))
    rig.tick()
    last = rig.tick()
    assert (last.sensors["keyboard"], last.f_c) == ("off", None)


def test_closing_gives_back_first_and_only_once() -> None:
    """The share comes before sensors and server; the last snapshot is taken after it."""
    rig = Rig()
    rig.tick(15, typing=True)
    rig.told()
    rig.engine.close()
    rig.engine.close()
    assert rig.told() == ["link cancel", "share 100", "share close", "link close http://127.0.0.1:8080"]
    last = rig.seen[-1]
    assert (last.state, last.background_share, last.closed) == (State.COLD_IDLE, 100, True)
    assert last.moves[0].why.value == "closing"


def test_a_listener_that_fails_is_dropped_and_said_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """A broken view does not take the engine along."""

    def broken(snapshot: Snapshot) -> None:
        raise ValueError(snapshot.state.value)

    unsubscribe = rig.engine.subscribe(broken)
    with caplog.at_level(logging.ERROR):
        rig.tick(5)
    assert [record.message for record in caplog.records] == ["a listener failed and is dropped"]
    unsubscribe()


def test_late_ticks_are_counted(rig: Rig) -> None:
    """Anything over 1.5 periods is late."""
    rig.clock.advance(0.06)
    assert rig.tick().late_ticks == 1
    assert rig.tick().late_ticks == 1


def test_a_defect_in_a_tick_ends_the_run_through_close() -> None:
    """Whatever happens in the loop, the job is given back."""
    parts = FakeParts()
    engine = Engine(Settings(), parts, SystemClock())

    def defect() -> tuple:
        raise RuntimeError("a defect")

    parts.keys.read = defect
    with pytest.raises(RuntimeError, match="a defect"):
        engine.run()
    assert parts.log[-2:] == ["share close", "link close http://127.0.0.1:8080"]


def test_run_ticks_until_it_is_stopped() -> None:
    """stop() from another thread ends it soon, and everything is closed."""
    parts = FakeParts()
    engine = Engine(Settings(telemetry_hz=50), parts, SystemClock())
    seen: list[Snapshot] = []
    engine.subscribe(seen.append)
    thread = threading.Thread(target=engine.run)
    thread.start()
    wait_until(lambda: len(seen) > 5, what="some ticks")
    engine.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert seen[-1].closed


def test_a_share_that_cannot_be_given_back_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """It must not go unnoticed."""
    rig = Rig()
    rig.parts.shares[0].closes_in_time = False
    with caplog.at_level(logging.ERROR):
        rig.engine.close()
    assert "could not be given back" in caplog.text


def test_what_was_learned_is_there_on_the_next_day(tmp_path: Path) -> None:
    """Written at the end if anything was learned, read at the next start."""
    habits = tmp_path / "habits.json"
    for day, expected in (("first", 1), ("second", 2)):
        parts, clock = FakeParts(), FakeClock()
        engine = Engine(Settings(), parts, clock, learned=habits)
        engine.start()
        parts.front.front = Window("chat", ("talk",))
        engine.post(PromptArrived())
        engine.post(PromptFinished())
        engine.tick(clock.advance(0.1))
        engine.close()
        assert memory.load(habits)[0].prompts == expected, day


def test_what_was_learned_can_be_forgotten_while_it_runs(tmp_path: Path) -> None:
    """The file goes, its end does not write it again, and the next prompt is learned anew."""
    habits, clock = tmp_path / "habits.json", FakeClock()
    engine = Engine(Settings(), FakeParts(), clock, learned=habits)
    engine.start()
    for event in (PromptArrived(), PromptFinished()):
        engine.post(event)
    engine.tick(clock.advance(memory.Memory.EVERY))
    wait_until(habits.exists, what="the file")
    engine.post(ForgetRequested())
    engine.tick(clock.advance(0.1))
    wait_until(lambda: not habits.exists(), what="the file to be gone")
    engine.close()
    assert not habits.exists()


def test_what_was_learned_can_be_forgotten_while_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving back may take seconds, and who asks meanwhile is told yes: the end writes nothing down first."""
    saved: list[bytes | None] = []
    monkeypatch.setattr(memory, "save", lambda _, content: saved.append(content))
    engine = Engine(Settings(), FakeParts(), FakeClock(), learned=tmp_path / "habits.json")
    engine.start()
    engine.post(PromptArrived())
    engine.tick(0.1)
    engine.post(ForgetRequested())
    engine.close()
    assert saved == [None]


def test_what_was_asked_for_in_vain_is_no_disappointment() -> None:
    """A new user who tries "prepare" first still sees the first guess: typing is enough."""
    rig = Rig(learned=True)
    rig.engine.post(PrepareRequested(1.0))
    assert rig.tick(20).state is State.COLD_IDLE
    assert rig.tick(20, typing=True).state is State.SPECULATIVE_PREPARED
    rig.engine.close()


def test_a_preparation_says_why(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """In the snapshot for as long as it lasts, and once in the log; by hand is a reason of its own."""
    with caplog.at_level(logging.INFO):
        assert rig.tick(20, typing=True).because.startswith("typing 0.")
        rig.engine.post(ReleaseRequested())
        assert rig.tick().because == ""
        rig.engine.post(PrepareRequested(5.0))
        assert rig.tick().because == "asked for by hand"
    assert "COLD_IDLE → SPECULATIVE_PREPARED (threshold: typing 0." in caplog.text
    assert "COLD_IDLE → SPECULATIVE_PREPARED (threshold: asked for by hand)" in caplog.text


def test_nothing_is_written_where_nothing_was_learned(tmp_path: Path) -> None:
    """A day without a prompt leaves no file."""
    engine = Engine(Settings(), FakeParts(), FakeClock(), learned=tmp_path / "habits.json")
    engine.start()
    engine.close()
    assert list(tmp_path.iterdir()) == []


def test_a_tick_is_booked_and_shown(tmp_path: Path) -> None:
    """Preparation, hit and held seconds are in the snapshot at once, and in the file at the end."""
    parts, clock, path = FakeParts(), FakeClock(), tmp_path / "benefit.json"
    engine = Engine(Settings(learned=False), parts, clock, days=path)
    engine.start()
    for _ in range(20):
        parts.keys.press(clock.advance(0.1))
        seen = engine.tick(clock.now())
    engine.post(PromptArrived())
    engine.post(PromptReport(reused=9, computed=900, seconds=1.0, restored=90, woken=None, server="one"))
    for _ in range(2):
        seen = engine.tick(clock.advance(0.1))
    assert seen.today is not None
    assert (seen.today.preparations, seen.today.hits, seen.today.reused) == (1, 1, 9)
    assert seen.today.saved == pytest.approx(0.01)
    assert 0 < seen.today.held_guessing < 2
    engine.close()
    assert days.load(path).days[0].hits == 1


def test_what_does_not_pay_is_not_prepared(tmp_path: Path) -> None:
    """Earlier prompts saved nothing, and the job is worth something."""
    clock, path = FakeClock(), tmp_path / "benefit.json"
    known = Day(days.local_date(clock.wall()), preparations=9, measured=9, held_guessing=90.0)
    path.write_bytes(msgspec.json.encode(days.Kept(days=[known])))
    states = []
    for worth in (0.1, 0.0):
        parts = FakeParts()
        engine = Engine(Settings(learned=False, job_worth=worth), parts, clock, days=path)
        engine.start()
        for _ in range(20):
            parts.keys.press(clock.advance(0.1))
            seen = engine.tick(clock.now())
        states.append(seen.state)
        engine.close()
    assert states == [State.COLD_IDLE, State.SPECULATIVE_PREPARED]
