"""The microphone sensor: how loud it is, unknown where it cannot know; on a real sound server and on fakes."""

import gc
import math
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.desktop import needs, pactl, sound_server, sound_variables, speak
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.telemetry import audio, supervisor
from engine.telemetry.audio import MicrophoneSensor
from engine.telemetry.evidence import Sound

NEEDS_SOUND = needs("pulseaudio", "pactl", "paplay", "espeak-ng")


class HandClock(SystemClock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """Return the time it was moved to."""
        return self.time


class PortAudioError(Exception):
    """The shape of sounddevice's error: a text, and mostly a code."""


class FakeStream:
    """The shape of sounddevice's InputStream."""

    def __init__(self, fake: "FakeSounddevice", **asked: Any) -> None:
        if fake.errors:
            error = fake.errors.pop(0)
            if error is not None:
                raise error
        self.fake = fake
        self.asked = asked
        self.samplerate = float(asked["samplerate"])
        self.running = False
        self.looks = 0
        fake.log.append("open")
        fake.streams.append(self)

    @property
    def active(self) -> bool:
        """Tell whether it runs, and count who asks."""
        self.looks += 1
        return self.running

    def start(self) -> None:
        """Begin to call back."""
        self.running = True

    def close(self) -> None:
        """End."""
        self.running = False
        self.fake.log.append("close")

    def deliver(self, *levels: float) -> None:
        """Call back once for each level, with a block of that amplitude."""
        for level in levels:
            block = np.full((self.asked["blocksize"], 1), level, dtype=np.float32)
            self.asked["callback"](block, len(block), None, None)


class FakeSounddevice:
    """The shape of the module sounddevice with one microphone. `errors` are raised by the next opens, in order."""

    PortAudioError = PortAudioError

    def __init__(self) -> None:
        self._initialized = 1
        self.errors: list[Exception | None] = []
        self.streams: list[FakeStream] = []
        self.log: list[str] = []
        self.device: dict[str, Any] | None = {"name": "Built-in", "hostapi": 0, "default_samplerate": 48000.0}
        self.hostapi = "ALSA"

    def _terminate(self) -> None:
        assert all(not stream.running for stream in self.streams), "this would have ended an open stream"
        self._initialized -= 1

    def _initialize(self) -> None:
        self._initialized += 1
        self.log.append("list devices")

    def query_devices(self, kind: str) -> dict[str, Any]:
        """Return the default microphone, or raise what PortAudio raises where there is none."""
        assert kind == "input"
        if self.device is None:
            raise PortAudioError("Error querying device -1")
        return self.device

    def query_hostapis(self, index: int) -> dict[str, str]:
        """Return the sound system."""
        assert index == 0
        return {"name": self.hostapi}

    def InputStream(self, **asked: Any) -> FakeStream:  # noqa: N802 - sounddevice's own name
        """Open a stream."""
        return FakeStream(self, **asked)


class FakeVoice:
    """The shape of Voice: says what it is told to, and writes down what it is asked."""

    def __init__(self, *answers: float) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def judge(self, samples: Any, square: float) -> float:
        """Give the next answer once it may."""
        del square
        self.asked.append(f"judge {samples[0]:.2f}")
        assert self.go_on.wait(20)
        return self.answers.pop(0)

    def forget(self) -> None:
        """Note it."""
        self.asked.append("forget")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSounddevice:
    """Give a sounddevice without devices of this machine, and a supervisor that is quick."""
    fake = FakeSounddevice()
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    monkeypatch.setattr(audio, "open_voice", lambda _: None)
    monkeypatch.setattr(audio, "_default_source", lambda: "alsa_input.pci.analog-stereo\n")
    monkeypatch.setattr(supervisor, "CHECK_EVERY", 0.01)
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.01)
    return fake


@pytest.fixture
def clock() -> HandClock:
    """Give a clock that is moved by hand."""
    return HandClock()


@pytest.fixture
def microphone(clock: HandClock) -> Iterator[MicrophoneSensor]:
    """Give a sensor that is not started."""
    sensor = MicrophoneSensor(clock)
    yield sensor
    sensor.stop()
    assert sensor.state == "off"
    assert sensor.read() is None


def opened(microphone: MicrophoneSensor, fake: FakeSounddevice) -> FakeStream:
    """Start the sensor and return its stream."""
    microphone.start()
    wait_until(lambda: microphone.state == "on", what="the microphone")
    return fake.streams[-1]


def heard(microphone: MicrophoneSensor, stream: FakeStream, *levels: float) -> Sound:
    """Deliver a block for each level and return what the sensor tells once the worker has taken them."""
    before = len(microphone._blocks)
    stream.deliver(*levels)
    await_blocks(microphone, before + sum(math.isfinite(level) for level in levels))
    sound = microphone.read()
    assert sound is not None
    return sound


def await_blocks(microphone: MicrophoneSensor, count: int) -> None:
    """Wait until so many blocks were taken and not yet read."""
    wait_until(lambda: len(microphone._blocks) == count, what=f"{count} blocks")


def reason(microphone: MicrophoneSensor) -> str:
    """Start the sensor and return why it is not available."""
    microphone.start()
    wait_until(lambda: microphone.state != "unavailable: starting", what="an answer")
    assert microphone.read() is None
    return microphone.state


# ---- loudness --------------------------------------------------------------------------------------------------------


def test_loudness_of_what_was_heard_since_the_last_read(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """Blocks are averaged by power; digital silence has no decibels."""
    stream = opened(microphone, fake)
    assert heard(microphone, stream, 0.1).db == pytest.approx(-20, abs=0.01)
    assert heard(microphone, stream, 1.0, 0.0).db == pytest.approx(-3.01, abs=0.01)
    assert heard(microphone, stream, 0.0).db == -math.inf


def test_the_level_holds_for_half_a_second(
    microphone: MicrophoneSensor, fake: FakeSounddevice, clock: HandClock
) -> None:
    """A tick without a block is not silence; after half a second nothing is known any more."""
    stream = opened(microphone, fake)
    assert microphone.read() is None
    heard(microphone, stream, 0.1)
    for wait, known in ((0.0, True), (0.4, True), (0.2, False)):
        clock.time += wait
        assert (microphone.read() is not None) is known


def test_no_number_is_no_level(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """A broken driver's values change nothing."""
    stream = opened(microphone, fake)
    assert heard(microphone, stream, math.nan, math.inf, 0.1).db == pytest.approx(-20, abs=0.01)


def test_a_new_start_knows_nothing_of_before(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """What was heard before a pause is gone."""
    stream = opened(microphone, fake)
    heard(microphone, stream, 0.1, 0.1)
    stream.deliver(0.1)
    microphone.stop()
    opened(microphone, fake)
    assert microphone.read() is None


def test_only_numbers_are_kept(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """Of a block, its time, its mean square and what was judged remain; its samples are nowhere."""
    opened(microphone, fake).deliver(0.25, 0.25, 0.25)
    await_blocks(microphone, 3)
    assert list(microphone._blocks) == [(1000.0, pytest.approx(0.0625), None)] * 3
    wait_until(lambda: not [a for a in kept_arrays() if a.size and np.all(a == np.float32(0.25))], what="no samples")


def kept_arrays() -> list[Any]:
    """Return the arrays that somebody still holds."""
    frames = [value for frame in sys._current_frames().values() for value in frame.f_locals.values()]
    held = [value for thing in gc.get_objects() for value in (gc.get_referents(thing) if not callable(thing) else ())]
    # By its type: a weak proxy that other tests left behind raises when it is asked what it is.
    return [thing for thing in frames + held if type(thing) is np.ndarray and thing.dtype == np.float32]


# ---- voice -----------------------------------------------------------------------------------------------------------


def voiced(monkeypatch: pytest.MonkeyPatch, *answers: float) -> FakeVoice:
    """Let the next stream have a voice detector with these answers."""
    voice = FakeVoice(*answers)
    monkeypatch.setattr(audio, "open_voice", lambda _: voice)
    return voice


def test_the_likeliest_voice_since_the_last_read(
    microphone: MicrophoneSensor, fake: FakeSounddevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several blocks the highest probability counts, and it is told until the next block comes."""
    voiced(monkeypatch, 0.2, 0.9, 0.4, 0.1)
    stream = opened(microphone, fake)
    assert heard(microphone, stream, 0.1, 0.1, 0.1).voice == 0.9
    assert microphone.read() == Sound(pytest.approx(-20, abs=0.01), 0.9)
    assert heard(microphone, stream, 0.1).voice == 0.1


def test_without_a_detector_nobody_knows(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """Loudness stays known."""
    assert heard(microphone, opened(microphone, fake), 0.1).voice is None


def test_a_worker_that_is_behind_skips_blocks(
    microphone: MicrophoneSensor, fake: FakeSounddevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blocks may wait; of what comes after a gap the detector is told that it is something new."""
    voice = voiced(monkeypatch, *[0.5] * 9)
    stream = opened(microphone, fake)
    voice.go_on.clear()
    stream.deliver(0.01)
    wait_until(lambda: voice.asked == ["judge 0.01"], what="the first block to be judged")
    stream.deliver(0.02, 0.03, 0.04, 0.05, 0.06)
    voice.go_on.set()
    await_blocks(microphone, 4)
    assert voice.asked == ["judge 0.01", "forget", "judge 0.04", "judge 0.05", "judge 0.06"]


def test_a_block_that_is_no_sound_is_a_gap(
    microphone: MicrophoneSensor, fake: FakeSounddevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would spoil the state of the net for good."""
    voice = voiced(monkeypatch, 0.5, 0.5)
    heard(microphone, opened(microphone, fake), 0.1, math.nan, 0.2)
    assert voice.asked == ["judge 0.10", "forget", "judge 0.20"]


def test_the_worker_ends_with_the_stream(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """No thread is left after the microphone was given back."""
    opened(microphone, fake)
    microphone.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "microphone worker"]


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_opens_mono_in_tenths_of_a_second(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """44.1 kHz; the list of devices is read anew before."""
    asked = opened(microphone, fake).asked
    assert {name: asked[name] for name in ("samplerate", "blocksize", "channels", "dtype")} == {
        "samplerate": 44100,
        "blocksize": 4410,
        "channels": 1,
        "dtype": "float32",
    }
    assert fake.log == ["list devices", "open"]


def test_falls_back_to_the_rate_of_the_device(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """Blocks stay a tenth of a second."""
    fake.errors = [PortAudioError("Invalid sample rate", -9997)]
    asked = opened(microphone, fake).asked
    assert (asked["samplerate"], asked["blocksize"]) == (48000, 4800)


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (PortAudioError("Device unavailable", -9985), "the microphone is in use by another program"),
        (PortAudioError("Illegal combination of I/O devices", -9993), "the sound server does not answer"),
        (PortAudioError("Invalid device", -9996), "no microphone found"),
        (PortAudioError("Unanticipated host error", -9999, (0, 1, "")), "the microphone cannot be opened"),
        (ValueError("No input device matching"), "the microphone cannot be opened"),
        (OSError("gone"), "the microphone cannot be opened"),
    ],
)
def test_errors_have_reasons(microphone: MicrophoneSensor, fake: FakeSounddevice, error: Exception, shown: str) -> None:
    """Each is one that a person understands."""
    fake.errors = [error] * 100
    assert reason(microphone) == f"unavailable: {shown}"
    fake.errors = []
    wait_until(lambda: microphone.state == "on", what="the microphone to come by itself")


def test_without_a_microphone(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """PortAudio's error for it has no code."""
    fake.device = None
    assert reason(microphone) == "unavailable: no microphone found"


@pytest.mark.parametrize(
    ("name", "hostapi"),
    [
        ("bluez_input.00_11", "ALSA"),
        ("Headset (WH-1000)", "Windows WASAPI"),
        ("Hands-Free AG Audio", "MME"),
        ("Microphone", "Bluetooth"),
    ],
)
def test_a_headset_is_left_alone(microphone: MicrophoneSensor, fake: FakeSounddevice, name: str, hostapi: str) -> None:
    """Opening it would turn the music in it to telephone quality, whatever names it."""
    fake.device = {"name": name, "hostapi": 0, "default_samplerate": 16000.0}
    fake.hostapi = hostapi
    assert "headset" in reason(microphone)
    assert not fake.streams


def test_a_missing_library(microphone: MicrophoneSensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine runs on without it."""
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert reason(microphone) == "unavailable: the library sounddevice is missing"


def test_a_missing_portaudio(microphone: MicrophoneSensor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On Linux sounddevice brings no PortAudio and raises OSError when imported."""
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')\n")
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert reason(microphone) == "unavailable: the library PortAudio is missing"


def test_one_stream_at_a_time(microphone: MicrophoneSensor, fake: FakeSounddevice, clock: HandClock) -> None:
    """A second sensor waits: it may not refresh the list of devices under an open stream."""
    opened(microphone, fake)
    second = MicrophoneSensor(clock)
    assert reason(second) == "unavailable: the sound system does not answer"
    microphone.stop()
    wait_until(lambda: second.state == "on")
    second.stop()


# ---- watching --------------------------------------------------------------------------------------------------------


def test_a_stream_that_ended_is_opened_again(microphone: MicrophoneSensor, fake: FakeSounddevice) -> None:
    """The server was killed: closed first, then the list of devices is refreshed, then opened."""
    stream = opened(microphone, fake)
    heard(microphone, stream, 0.1)
    stream.running = False
    wait_until(lambda: len(fake.streams) == 2 and microphone.state == "on")
    assert fake.log == ["list devices", "open", "close", "list devices", "open"]


@pytest.mark.parametrize(("blocks", "patience"), [(1, 3.0), (0, 10.0)])
def test_a_stream_that_brings_nothing_is_opened_again(
    microphone: MicrophoneSensor, fake: FakeSounddevice, clock: HandClock, blocks: int, patience: float
) -> None:
    """A suspended source says that it is active; the first block may take longer than the next ones."""
    stream = opened(microphone, fake)
    stream.deliver(*[0.1] * blocks)
    clock.time += patience - 0.1
    stream.looks = 0
    wait_until(lambda: stream.looks >= 3, what="a few looks")
    assert len(fake.streams) == 1
    assert microphone.state == "on"
    assert microphone.read() is None
    clock.time += 0.2
    wait_until(lambda: len(fake.streams) == 2, what="another stream")
    assert "close" in fake.log


# ---- a real sound server ---------------------------------------------------------------------------------------------


@pytest.fixture
def ears(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MicrophoneSensor]:
    """Give a sensor that finds the sound server of `tmp_path`, where there is one."""
    for name, value in sound_variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PULSE_SERVER", raising=False)
    sensor = MicrophoneSensor(SystemClock())
    yield sensor
    sensor.stop()


@pytest.mark.real
@NEEDS_SOUND
def test_real_speech_is_louder_than_silence(ears: MicrophoneSensor, tmp_path: Path) -> None:
    """Unknown until the first sound comes, then silence, then speech, then silence."""
    with sound_server(tmp_path) as env:
        ears.start()
        wait_until(lambda: ears.state == "on", what="the microphone")
        wait_until(lambda: ears.read() is not None, what="the first sound")
        assert is_silence(ears.read())
        speak(env, "The quick brown fox jumps over the lazy dog.")
        sound = ears.read()
        assert sound is not None
        assert -40 < sound.db < 0
        assert sound.voice is not None
        assert sound.voice > 0.9
        wait_until(lambda: is_silence(ears.read()), what="silence after the speech")
        ears.stop()


@pytest.mark.real
@NEEDS_SOUND
def test_a_real_sound_server_may_die_and_come_back(ears: MicrophoneSensor, tmp_path: Path) -> None:
    """Meanwhile the state says so and the level is unknown, which is not silence."""
    with sound_server(tmp_path):
        ears.start()
        wait_until(lambda: ears.read() is not None, what="the first sound")
    wait_until(lambda: ears.state.startswith("unavailable: "), what="the state to say so")
    assert ears.read() is None
    with sound_server(tmp_path):
        wait_until(lambda: ears.state == "on", timeout=60, what="the microphone to come back")
        wait_until(lambda: ears.read() is not None, what="sound again")
        ears.stop()


@pytest.mark.real
@NEEDS_SOUND
def test_a_real_headset_is_known_by_its_source(ears: MicrophoneSensor, tmp_path: Path) -> None:
    """PortAudio only says "default"; the sound server tells what is behind it."""
    with sound_server(tmp_path) as env:
        assert pactl(env, "load-module", "module-remap-source", "source_name=bluez_input.00_11", "master=spk.monitor")
        assert pactl(env, "set-default-source", "bluez_input.00_11")
        assert "headset" in reason(ears)
        assert pactl(env, "set-default-source", "mic")
        wait_until(lambda: ears.read() is not None, what="the other microphone")
        ears.stop()


@pytest.mark.real
@NEEDS_SOUND
@needs("sox")
def test_real_noise_is_loud_but_no_voice(ears: MicrophoneSensor, tmp_path: Path) -> None:
    """What a threshold on loudness would take for speech."""
    with sound_server(tmp_path) as env:
        ears.start()
        wait_until(lambda: is_silence(ears.read()), what="the first sound")
        for effects in (["whitenoise"], ["pinknoise"], ["pluck", "A3"]):
            make_noise(env, tmp_path / "noise.wav", effects)
            sound = ears.read()
            assert sound is not None
            assert -40 < sound.db < 0
            assert sound.voice is not None
            assert sound.voice < 0.5, effects
        ears.stop()


def make_noise(env: dict[str, str], wave: Path, effects: list[str]) -> None:
    """Play a second and a half of what sox synthesizes; returns when it is over."""
    command = ["sox", "-n", "-r", "44100", "-c", "1", wave, "synth", "1.5", *effects, "gain", "-18"]
    for words in (command, ["paplay", wave]):
        subprocess.run(words, env={**os.environ, **env}, check=True, capture_output=True, timeout=60)


def is_silence(sound: Sound | None) -> bool:
    """Tell silence, digital or nearly so, from sound and from not knowing."""
    return sound is not None and sound.db < -60
