"""A night in suspend: the monotonic clock stands still meanwhile, and the loop notices all the same."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.fake_parts import FakeParts

from engine import trace
from engine.clock import SystemClock, Timeline
from engine.config.settings import Settings
from engine.events import Paused, PromptArrived, Snapshot, State
from engine.loop import Engine
from engine.recorder import Recorder

NIGHT = 8 * 3600.0


class Rig:
    """An engine on fakes and fixed rules, ticked by hand and recorded."""

    def __init__(self, path: Path) -> None:
        self.clock, self.parts = FakeClock(), FakeParts()
        settings = Settings(learned=False)
        self.recorder = Recorder(path, settings)
        self.engine = Engine(settings, self.parts, self.clock, recorder=self.recorder)
        self.engine.start()

    def tick(self, count: int = 1, *, typing: bool = False) -> Snapshot:
        """Let so many ticks pass; return the last snapshot."""
        for _ in range(count):
            now = self.clock.advance(0.1)
            if typing:
                self.parts.keys.press(now)
            snapshot = self.engine.tick(now)
        return snapshot

    def close(self) -> None:
        """End it; once."""
        self.engine.close()
        self.recorder.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return a started engine; it is closed at the end."""
    rig = Rig(tmp_path / "day.jsonl")
    rig.tick()
    yield rig
    rig.close()


def test_what_was_sensed_before_a_night_says_nothing_after_it(rig: Rig) -> None:
    """P begins anew, keys that were still unread are dropped, and new ones lead to a guess."""
    assert rig.tick(4, typing=True).probability > 0.2
    rig.clock.suspend(NIGHT)
    assert rig.tick(typing=True).probability == 0.0
    assert rig.tick(20, typing=True).state is State.SPECULATIVE_PREPARED


def test_a_pause_ends_on_time_however_much_of_it_was_slept(rig: Rig) -> None:
    """For an hour means for an hour."""
    rig.engine.post(Paused(3600.0))
    assert rig.tick().paused
    rig.clock.suspend(1800.0)
    assert rig.tick().paused_for == pytest.approx(1799.9)
    rig.clock.suspend(1800.0)
    assert not rig.tick().paused


def test_a_night_is_a_gap_in_the_trace(rig: Rig, tmp_path: Path) -> None:
    """What comes after it is recorded that much later, keys too."""
    rig.tick(5)
    rig.clock.suspend(NIGHT)
    rig.tick()
    rig.tick(typing=True)
    rig.close()
    gap, key = [event for event in trace.read(tmp_path / "day.jsonl")[1] if isinstance(event, trace.Gap | trace.Key)]
    assert isinstance(gap, trace.Gap)
    assert gap.seconds == pytest.approx(NIGHT, abs=0.2)
    assert key.t == pytest.approx(gap.t + NIGHT, abs=0.3)


def test_a_night_during_a_prompt_is_no_cost(rig: Rig) -> None:
    """Whoever slept has held nothing meanwhile."""
    rig.engine.post(PromptArrived())
    rig.tick(10)
    rig.clock.suspend(NIGHT)
    today = rig.tick(10).today
    assert today is not None
    assert 1.0 < today.held_serving < 3.0


def test_the_line_of_time() -> None:
    """Two clocks are never read at the same instant, so a little is no suspend; short ones add up."""
    clock = FakeClock()
    clock.suspend(100.0)  # before it began
    line = Timeline(clock)
    clock.suspend(0.6)
    assert not line.look()
    assert line.at(5.0) == 5.0
    clock.suspend(0.6)
    assert line.look()
    assert not line.look()
    assert line.at(5.0) == pytest.approx(6.2)
    clock.suspend(-0.1)
    assert not line.look()


@pytest.mark.parametrize(
    ("platform", "with_sleep", "without"),
    [("linux", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC"), ("darwin", "CLOCK_MONOTONIC_RAW", "CLOCK_UPTIME_RAW")],
)
def test_two_clocks_tell_what_was_slept(
    monkeypatch: pytest.MonkeyPatch, platform: str, with_sleep: str, without: str
) -> None:
    """One of each pair goes on in suspend; on Windows the only one does."""
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(time, with_sleep, "with", raising=False)
    monkeypatch.setattr(time, without, "without", raising=False)
    monkeypatch.setattr(time, "clock_gettime", {"with": 500.0, "without": 200.0}.__getitem__)
    assert SystemClock().slept() == 300.0
    monkeypatch.setattr(sys, "platform", "win32")
    assert SystemClock().slept() == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="the clocks of Linux")
def test_this_machine_tells_what_it_slept() -> None:
    """Its two clocks run alike while it is awake."""
    clock = SystemClock()
    assert abs(clock.slept() - clock.slept()) < 0.5
