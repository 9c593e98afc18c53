"""Recording: what a live engine shows is written as a trace that replays to the same transitions, and nothing else."""

import gzip
import logging
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.engine_process import user_folders
from helpers.fake_parts import FakeParts
from helpers.wait import wait_until

from diagnostics import replay
from engine import daemon, recorder, trace
from engine.assembly import assemble
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.store import load
from engine.errors import TraceError
from engine.events import (
    Event,
    Moved,
    Paused,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    Resumed,
    ServerBack,
    ServerLost,
    Snapshot,
)
from engine.loop import Engine
from engine.parts import RealParts
from engine.recorder import Recorder
from engine.telemetry.evidence import KeyKind, KeyPress, Readings, Sound, Window
from engine.telemetry.moments import AnyMoment

KIND = KeyKind.TEXT
QUICK = {"INACTIVITY_TIMER": 2.0}


class Voice:
    """A microphone that hears what the test says."""

    def __init__(self) -> None:
        self.state = "off"
        self.sound: Sound | None = Sound(-70.0, 0.02)

    def start(self) -> None:
        """Open it."""
        self.state = "on"

    def stop(self, *, wait: bool = True) -> None:
        """Close it."""
        del wait
        self.state = "off"

    def read(self) -> Sound | None:
        """Return the sound of the moment."""
        return self.sound


class Parts(FakeParts):
    """Fakes with a microphone."""

    def __init__(self) -> None:
        super().__init__()
        self.voice = Voice()

    def microphone(self) -> Voice:
        """Return the microphone of the test."""
        return self.voice


class Story:
    """Moves an engine through a day of its own, with ticks as uneven as real ones, and keeps its transitions."""

    def __init__(self, path: Path, **changes: object) -> None:
        self.clock, self.parts = FakeClock(), Parts()
        settings = Settings().replace({**QUICK, **changes})
        self.settings = settings
        self.recorder = Recorder(path, settings)
        self.moments = AnyMoment()
        self.engine = Engine(settings, self.parts, self.clock, recorder=self.recorder, moments=self.moments)
        self.moves: list[tuple[float, Moved]] = []
        self.ticks = 0
        self.engine.start()
        self.start = self.clock.now()

    def run(self, seconds: float, *, typing: bool = False) -> None:
        """Let time pass; a key every fifth of a second while typing."""
        for _ in range(round(seconds * 10)):
            self.ticks += 1
            uneven = 0.004 * (self.ticks % 5)
            now = self.clock.advance(self.start + self.ticks / 10 + uneven - self.clock.now())
            if typing and self.ticks % 2:
                self.parts.keys.press(now - 0.03, KIND)
            self.moves += [(now - self.start, move) for move in self.engine.tick(now).moves]

    def sleep(self, seconds: float) -> None:
        """Miss ticks, as a machine that is suspended."""
        self.ticks += round(seconds * 10)

    def post(self, *events: Event) -> None:
        """Let something happen."""
        for event in events:
            self.engine.post(event)

    def prompt(self) -> None:
        """Send a prompt and get its reply."""
        self.parts.keys.press(self.clock.now() + 0.05, KeyKind.ENTER)
        self.post(PromptArrived())
        self.run(1.5)
        self.post(PromptFinished())
        self.run(0.5)

    def end(self) -> None:
        """Close engine and recording."""
        self.engine.close()
        self.recorder.close()


def names(moves: list[tuple[float, Moved]]) -> list[tuple[str, str, str]]:
    """Return transitions as words."""
    return [(move.source.value, move.target.value, move.why.value) for _, move in moves]


def same_in_replay(path: Path, settings: Settings, moves: list[tuple[float, Moved]]) -> None:
    """Check that a replay of the recording goes the same way, within two ticks."""
    played = replay.play(path, settings)
    assert names(played.moves) == names(moves)
    for (replayed, _), (lived, _) in zip(played.moves, moves, strict=True):
        assert replayed == pytest.approx(lived, abs=0.21)


def tell(story: Story) -> None:
    """Live through what can happen: hits, misses, false alarms, speech, windows, pauses, losses, a night."""
    chat, other = Window("assistant", ("a1", "b2")), Window("editor", ("c3",))
    story.parts.front.front = other
    story.run(5.0)
    story.run(4.0, typing=True)
    story.run(40.0)
    story.parts.front.front = chat
    for _ in range(3):
        story.run(4.0, typing=True)
        story.prompt()
    story.parts.voice.sound = Sound(-35.0, 0.93)
    story.run(3.0)
    story.parts.voice.sound = Sound(-70.0, 0.02)
    story.prompt()
    story.post(ServerLost("gone"))
    story.run(3.0, typing=True)
    story.post(ServerBack())
    story.run(1.0)
    story.post(Paused())
    story.run(5.0)
    story.post(Resumed())
    story.run(35.0)
    story.run(4.0, typing=True)
    story.post(ReleaseRequested())
    story.run(1.0)
    story.sleep(60.0)
    story.run(5.0)
    story.run(4.0, typing=True)
    story.parts.front.front = None
    story.parts.voice.sound = None
    story.run(40.0)


@pytest.mark.parametrize("learned", [True, False], ids=["learned", "rules"])
@pytest.mark.parametrize("name", ["day.jsonl", "day.jsonl.gz"])
def test_a_replay_of_a_recording_goes_as_the_live_engine_went(tmp_path: Path, name: str, learned: bool) -> None:
    """The same transitions for the same reasons, each within two ticks, over all that can happen in a day."""
    story = Story(tmp_path / name, LEARNED=learned)
    tell(story)
    lived = list(story.moves)
    story.end()
    assert {("SPECULATIVE_PREPARED", "COLD_IDLE", "timeout"), ("ACTIVE_INFERENCE", "COLD_IDLE", "finished")} <= set(
        names(lived)
    )
    same_in_replay(tmp_path / name, story.settings, lived)


def test_what_was_given_back_by_hand_stays_so_in_a_replay(tmp_path: Path) -> None:
    """It waits for quiet, as the live engine does: no typing that goes on prepares again."""
    story = Story(tmp_path / "day.jsonl", LEARNED=False)
    story.run(4.0, typing=True)
    story.post(ReleaseRequested())
    story.run(8.0, typing=True)
    lived = list(story.moves)
    story.end()
    assert [move.why.value for _, move in lived] == ["threshold", "paused"]
    same_in_replay(tmp_path / "day.jsonl", story.settings, lived)
    old = [event for event in trace.read(tmp_path / "day.jsonl")[1] if isinstance(event, trace.Pause)]
    assert [(event.on, event.release) for event in old] == [(True, True), (False, True)]


def test_a_locked_screen_clears_the_evidence_in_a_replay_too(tmp_path: Path) -> None:
    """P that stood just under the threshold is gone, and what is typed after it begins at nothing."""
    story = Story(tmp_path / "day.jsonl", LEARNED=False)
    lived: list[float] = []
    story.engine.subscribe(lambda seen: lived.append(seen.probability))
    for locked in (None, "the screen is locked", None):
        story.moments.reason = locked
        story.run(0.8, typing=not locked)
    assert story.moves == []
    story.end()
    played: list[float] = []
    replay.play(tmp_path / "day.jsonl", story.settings, lambda _now, p, _machine: played.append(p))
    assert played == pytest.approx(lived[: len(played)], abs=0.02)
    assert lived[7] > 0.5 > lived[8] == 0.0


def test_a_run_in_real_time_is_recorded_as_it_was(tmp_path: Path) -> None:
    """With the real clock and the loop's own thread; the keys come from another one, as those of a listener do."""
    path = tmp_path / "live.jsonl"
    settings = Settings().replace({**QUICK, "LEARNED": False})
    parts, clock = FakeParts(), SystemClock()
    recording = Recorder(path, settings)
    engine = Engine(settings, parts, clock, recorder=recording)
    moves: list[tuple[float, Moved]] = []
    begun = clock.now()
    engine.subscribe(lambda seen: moves.extend((clock.now() - begun, move) for move in seen.moves))
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        type_until(parts, clock, lambda: len(moves) >= 1)
        engine.post(PromptArrived())
        wait_until(lambda: len(moves) >= 2, what="the prompt")
        engine.post(PromptFinished())
        wait_until(lambda: len(moves) >= 3, what="the reply")
        type_until(parts, clock, lambda: len(moves) >= 4)
        wait_until(lambda: len(moves) >= 5, what="the false positive")
    finally:
        engine.stop()
        thread.join(20)
        recording.close()
    assert names(moves)[:5] == names(replay.play(path, settings).moves)
    for (replayed, _), (lived, _) in zip(replay.play(path, settings).moves, moves, strict=False):
        assert replayed == pytest.approx(lived, abs=1.0)  # a busy machine may tick late


def type_until(parts: FakeParts, clock: SystemClock, done: Callable[[], bool]) -> None:
    """Press keys like a person until something has happened."""

    def press() -> bool:
        parts.keys.press(clock.now())
        time.sleep(0.1)
        return done()

    wait_until(press, what="typing to be noticed")


def recorded(path: Path, readings: list[Readings]) -> list[trace.Event]:
    """Record one reading a tick; return what was written."""
    recording = Recorder(path, Settings())
    for number, each in enumerate(readings, 1):
        recording.heard(100.0 + number / 10, each)
    recording.close()
    return list(trace.read(path)[1])


def test_sound_is_written_by_the_second_and_silence_as_a_number(tmp_path: Path) -> None:
    """Ten values a line; digital silence is -120; a tick without a value leaves a gap; voice only where it is known."""
    loud = [Readings(db=-40.0 - n / 10, microphone=True) for n in range(12)]
    quiet = [Readings(db=float("-inf"), microphone=True), Readings(microphone=True)]
    spoken = [Readings(db=-30.0, microphone=True, voice=0.875)] * 3
    events = recorded(tmp_path / "day.jsonl", [*loud, *quiet, *spoken])
    sounds = [event for event in events if isinstance(event, trace.Audio)]
    assert [(sound.t, len(sound.db)) for sound in sounds] == [(0.0, 10), (1.0, 3), (1.4, 3)]
    assert sounds[1].db == [-41.0, -41.1, -120.0]
    assert [sound.voice for sound in sounds] == [[], [], [87.5] * 3]


def test_windows_are_written_when_they_change(tmp_path: Path) -> None:
    """As the sensor gives them: a program's name and hashes; unknown is a sensor that went."""
    one, two = Window("browser", ("0a1b", "ffee")), Window("browser", ("77aa", "ffee"))
    events = recorded(tmp_path / "day.jsonl", [Readings(window=window) for window in (None, one, one, two, None)])
    assert [event for event in events if isinstance(event, trace.Window)] == [
        trace.Window(0.2, "browser", ["0a1b", "ffee"]),
        trace.Window(0.4, "browser", ["77aa", "ffee"]),
    ]
    changes = [
        (event.t, event.on) for event in events if isinstance(event, trace.SensorChange) if event.name == "window"
    ]
    assert changes == [(0.1, False), (0.2, True), (0.5, False)]


def test_missed_ticks_are_a_gap(tmp_path: Path) -> None:
    """More than five seconds without a tick are named, shorter ones are not."""
    recording = Recorder(tmp_path / "day.jsonl", Settings())
    for now in (100.0, 104.0, 204.0):
        recording.heard(now, Readings())
    recording.close()
    header, events = trace.read(tmp_path / "day.jsonl")
    assert [event for event in events if isinstance(event, trace.Gap)] == [trace.Gap(4.1, 100.0)]
    assert header.duration == pytest.approx(104.1)


def test_the_header_tells_neither_secret_nor_name(tmp_path: Path) -> None:
    """Numbers and choices of prediction and sensors only; the file is its owner's alone."""
    path = tmp_path / "day.jsonl"
    Recorder(
        path, Settings().replace({"API_KEY": "canary", "SERVER_URL": "http://canary:1", "QUIET_PROGRAMS": "canary"})
    ).close()
    assert b"canary" not in path.read_bytes()
    assert trace.read(path)[0].settings["INITIAL_THRESHOLD"] == 0.65
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_recording_can_be_read_at_any_moment(tmp_path: Path) -> None:
    """Whatever ends the program, what was written is a whole trace with a true duration, packed or not."""
    for name, every in (("day.jsonl", 1.0), ("day.jsonl.gz", 60.0)):
        recording = Recorder(tmp_path / name, Settings())
        for number in range(1, 1300):
            recording.heard(number / 10, Readings(keys=(KeyPress(number / 10, KIND),)))
        expected = 129.9 // every * every

        def written(path: Path = tmp_path / name) -> float:
            return trace.read(path)[0].duration

        wait_until(lambda: written() == pytest.approx(expected, abs=1.1), what="the last chunk")  # noqa: B023
        keys = [event for event in trace.read(tmp_path / name)[1] if isinstance(event, trace.Key)]
        assert len(keys) == pytest.approx(10 * expected, abs=11)
        recording.close()


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """An earlier recording, a link and a folder that is not there are refused, each with a sentence."""
    path = tmp_path / "day.jsonl"
    path.write_text("mine", "ascii")
    (tmp_path / "link").symlink_to(path)
    for refused in (path, tmp_path / "link", tmp_path / "nowhere" / "day.jsonl"):
        with pytest.raises(TraceError, match=refused.name):
            Recorder(refused, Settings())
    assert path.read_text("ascii") == "mine"


@pytest.mark.parametrize("bound", ["LONGEST", "LARGEST"])
def test_a_recording_ends_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, bound: str
) -> None:
    """After 24 hours or 64 MB: one line says so, and nothing is written any more."""
    monkeypatch.setattr(recorder, bound, {"LONGEST": 3.0, "LARGEST": 3000}[bound])
    caplog.set_level(logging.INFO, "engine.recorder")
    path = tmp_path / "day.jsonl"
    recording = Recorder(path, Settings())
    wait_until(lambda: step(recording) and "ended" in caplog.text, what="the end")
    size = path.stat().st_size
    for _ in range(100):
        step(recording)
    recording.close()
    assert path.stat().st_size == size
    assert caplog.text.count("the recording ended") == 1


def step(recording: Recorder, clock: FakeClock = FakeClock()) -> bool:  # noqa: B008 - time goes on from call to call
    """Let a second pass with much typing."""
    for _ in range(10):
        now = clock.advance(0.1)
        recording.heard(now, Readings(keys=(KeyPress(now, KIND),) * 3))
    return True


def test_a_disk_that_is_full_ends_the_recording_not_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, and the engine goes on."""
    recording = Recorder(tmp_path / "day.jsonl", Settings())

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording._file, "add", full)
    wait_until(lambda: step(recording) and "No space left" in caplog.text, what="the warning")
    recording.close()
    assert caplog.text.count("cannot be written") == 1


def test_old_recordings_of_its_own_folder_are_deleted(tmp_path: Path) -> None:
    """After 14 days; younger ones, other files and what links point to stay."""
    old = time.time() - recorder.KEPT - 60
    for name in ("old.jsonl", "old.jsonl.gz", "young.jsonl", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    for name in ("old.jsonl", "old.jsonl.gz", "notes.txt"):
        recorder.os.utime(tmp_path / name, (old, old))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "notes.txt")
    recorder.delete_old(tmp_path)
    recorder.delete_old(tmp_path / "nowhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.jsonl", "notes.txt", "young.jsonl"]


def test_old_recordings_go_whoever_starts_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tray and command put it together in one place."""
    for variable, folder in user_folders(tmp_path).items():
        monkeypatch.setenv(variable, folder)
    recording = RealParts.of_user(FakeClock()).traces / "old.jsonl"
    recording.parent.mkdir(parents=True)
    recording.write_bytes(b"x")
    old = time.time() - recorder.KEPT - 60
    recorder.os.utime(recording, (old, old))
    assemble(Settings(), FakeClock(), parts=FakeParts())
    assert not recording.exists()


def test_the_command_records_and_refuses_by_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`engine --record` in the program's own folder makes it; where a file is there already it ends with 1."""
    for variable, folder in (("XDG_DATA_HOME", "data"), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(variable, str(tmp_path / folder))
    path = tmp_path / "data" / "zat-scs" / "traces" / "day.jsonl.gz"
    seen: list[int] = []

    def serve(*shown: object, **more: object) -> int:
        seen.append(sum(isinstance(one, Recorder) for one in (*shown, *more.values())))
        return 0

    monkeypatch.setattr(daemon, "serve", serve)
    monkeypatch.setattr(daemon, "configure_log", lambda: None)
    loaded = load(tmp_path / "none.toml", {}, [])
    assert daemon.run(loaded) == 0
    assert daemon.run(loaded, record=path) == 0
    assert seen == [0, 1]
    assert gzip.decompress(path.read_bytes()).startswith(b'{"trace":1,"hz":10,')
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert daemon.run(loaded, record=path) == 1
    assert "there is a file of that name already" in capsys.readouterr().err


def test_nothing_is_recorded_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine without a recorder opens no file for it."""
    monkeypatch.setattr(recorder, "_open", lambda path: pytest.fail(f"{path} was opened"))
    engine = Engine(Settings(), FakeParts(), FakeClock())
    engine.start()
    shown: Snapshot = engine.tick(1000.1)
    engine.close()
    assert shown.sensors
    assert list(tmp_path.iterdir()) == []
