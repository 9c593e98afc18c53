"""Hears how loud it is around the microphone, and whether a voice is in it. Sound itself is never kept.

PortAudio's callback only hands a block on; a worker takes it, makes two numbers of it, and forgets it.
"""

import contextlib
import math
import shutil
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from engine.clock import Clock
from engine.errors import SensorUnavailable
from engine.telemetry.evidence import Sound
from engine.telemetry.processor import loudness
from engine.telemetry.supervisor import ON, SensorMissing, Supervisor
from engine.telemetry.voice import Voice, open_voice

Block = tuple[float, float, float | None]  # when, mean square, probability of a voice

RATE = 44_100  # Hz
BLOCKS = 10  # a second
UNREAD = 50  # blocks kept while nobody reads
LEVEL_HOLDS = 0.5  # s without a block until the level counts as unknown
SILENT = 3.0  # s without a block: the device is stuck, although its stream says that it is active
FIRST_BLOCK = 10.0  # s that the first block may take; about 1.5 s are usual
WAITING = 3  # blocks that the worker may be behind; older ones are dropped
HEADSETS = ("bluez", "bluetooth", "hands-free", "headset")
_REASONS = {  # PortAudio's error codes
    -9985: "the microphone is in use by another program",
    -9993: "the sound server does not answer",
    -9996: "no microphone found",
    -9997: "the microphone offers no usable sample rate",
    -9998: "the microphone does not record in mono",
}
_portaudio = threading.Lock()  # one stream at a time: the device list may only be refreshed while none is open


class MicrophoneSensor:
    """Hears the default microphone; `clock` gives the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._blocks: deque[Block] = deque(maxlen=UNREAD)
        self._heard_at = -math.inf
        self._sound: Sound | None = None
        self._supervisor = Supervisor("microphone", self._open, clock)

    @property
    def state(self) -> str:
        """Exactly "on", "off" or "unavailable: reason"."""
        return self._supervisor.state

    def start(self) -> None:
        """Begin to listen; returns at once."""
        self._supervisor.start()

    def stop(self, *, wait: bool = True) -> None:
        """Give the microphone back and forget what was not read; takes two seconds at most."""
        self._supervisor.stop(wait=wait)
        self._blocks.clear()
        self._heard_at = -math.inf

    def read(self) -> Sound | None:
        """Return what was heard since the last read: the mean power, the likeliest voice. None while it is unknown."""
        squares, voices = [], []
        while self._blocks:  # the worker may append meanwhile
            self._heard_at, square, voice = self._blocks.popleft()
            squares.append(square)
            if voice is not None:
                voices.append(voice)
        if squares:
            self._sound = Sound(loudness(squares), max(voices, default=None))
        fresh = self._clock.now() - self._heard_at <= LEVEL_HOLDS
        return self._sound if fresh and self.state == ON else None

    def _open(self) -> "Recording":
        sounddevice, numpy = _libraries()
        recording = Recording(self._clock, self._blocks, numpy.dot)
        with contextlib.ExitStack() as stack:
            if not _portaudio.acquire(timeout=1.0):
                raise SensorUnavailable("the sound system does not answer")
            stack.callback(_portaudio.release)
            with _translated(sounddevice.PortAudioError):
                recording.stream = _stream(sounddevice, recording.hear)
                stack.callback(recording.end)
                stack.callback(recording.stream.close)
                recording.work(open_voice(round(recording.stream.samplerate)))
                recording.stream.start()
            recording.closing = stack.pop_all()
        return recording


class Recording:
    """One stream from the microphone, and the worker that makes numbers of its blocks, into `blocks`."""

    stream: Any
    closing: contextlib.ExitStack

    def __init__(self, clock: Clock, blocks: deque[Block], dot: Any) -> None:
        self._clock = clock
        self._blocks = blocks
        self._dot = dot
        self._waiting: deque[tuple[int, float, Any]] = deque(maxlen=WAITING)  # number, when, samples
        self._number = 0
        self._called = threading.Event()
        self._ended = False
        self._worker: threading.Thread | None = None
        self._heard_at: float | None = None
        self._since = clock.now()

    def work(self, voice: Voice | None) -> None:
        """Start the worker; `voice` judges, None: nobody can."""
        self._worker = threading.Thread(target=self._work, args=(voice,), name="microphone worker", daemon=True)
        self._worker.start()

    def hear(self, block: Any, _frames: int, _time: Any, _status: Any) -> None:
        """Hand on one block: float32, shape (frames, 1), full scale = 1. Runs on PortAudio's own thread."""
        self._heard_at = self._clock.now()
        self._number += 1
        self._waiting.append((self._number, self._heard_at, block[:, 0].copy()))
        self._called.set()

    def _work(self, voice: Voice | None) -> None:
        expected = 1
        while self._called.wait() and not self._ended:
            self._called.clear()
            while self._waiting:
                number, at, samples = self._waiting.popleft()
                square = float(self._dot(samples, samples)) / len(samples)
                if not math.isfinite(square):  # a broken driver may deliver what is no number
                    continue
                if voice is not None and number != expected:
                    voice.forget()
                expected = number + 1
                self._blocks.append((at, square, None if voice is None else voice.judge(samples, square)))
                del samples  # it would live until the next block

    def end(self) -> None:
        """End the worker, and forget the blocks that still waited for it."""
        self._ended = True
        self._called.set()
        if self._worker is not None:
            self._worker.join()  # without a limit: until it ended, no other may use the net; the supervisor has one
        self._waiting.clear()

    def check(self) -> None:
        """Raise SensorUnavailable if no sound comes any more."""
        if not self.stream.active:
            raise SensorUnavailable("the microphone or the sound server went away")
        now = self._clock.now()
        stuck = now - self._since > FIRST_BLOCK if self._heard_at is None else now - self._heard_at > SILENT
        if stuck:
            raise SensorUnavailable("the microphone sends nothing")

    def close(self) -> None:
        """Close the stream."""
        with contextlib.suppress(Exception):  # a device that is gone may refuse even this
            self.closing.close()


def _libraries() -> tuple[Any, Any]:
    try:
        import numpy as np  # noqa: PLC0415 - memory and time only where the microphone is used
        import sounddevice  # noqa: PLC0415 - it connects to the sound system when imported
    except ImportError as error:
        raise SensorMissing(f"the library {error.name} is missing") from error
    except OSError as error:
        raise SensorMissing("the library PortAudio is missing") from error
    except Exception as error:
        # Its own error type is out of reach, as the import failed.
        raise SensorUnavailable("the sound system cannot be used") from error
    return sounddevice, np


def _stream(sounddevice: Any, hear: Any) -> Any:
    """Open the default microphone, at its own rate if it does not take ours."""
    # PortAudio lists the devices once, when it is initialised.
    while sounddevice._initialized:  # noqa: SLF001 - there is no public way
        sounddevice._terminate()  # noqa: SLF001 - as above
    sounddevice._initialize()  # noqa: SLF001 - as above
    device = sounddevice.query_devices(kind="input")
    _refuse_headset(f"{device['name']} {sounddevice.query_hostapis(device['hostapi'])['name']} {_default_source()}")
    try:
        return _mono(sounddevice, RATE, hear)
    except sounddevice.PortAudioError:
        return _mono(sounddevice, int(device["default_samplerate"]), hear)


def _mono(sounddevice: Any, rate: int, hear: Any) -> Any:
    return sounddevice.InputStream(
        samplerate=rate, blocksize=rate // BLOCKS, channels=1, dtype="float32", callback=hear
    )


def _refuse_headset(names: str) -> None:
    """Raise SensorUnavailable for a Bluetooth headset: opening its microphone turns music to telephone quality."""
    if any(word in names.lower() for word in HEADSETS):
        raise SensorUnavailable("the default microphone is a headset's; using it would spoil the sound in the headset")


def _default_source() -> str:
    """Return the sound server's name of the microphone, which PortAudio does not tell; empty where unknown."""
    program = shutil.which("pactl")
    if program is None:
        return ""
    try:
        answer = subprocess.run([program, "get-default-source"], capture_output=True, text=True, timeout=2, check=False)  # noqa: S603 - fixed words
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout


@contextlib.contextmanager
def _translated(portaudio_error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except portaudio_error as error:
        if "querying device -1" in str(error):  # it has no code
            raise SensorUnavailable("no microphone found") from error
        code = error.args[1] if len(error.args) > 1 else 0
        raise SensorUnavailable(_REASONS.get(code, "the microphone cannot be opened")) from error
    except (ValueError, OSError) as error:
        raise SensorUnavailable("the microphone cannot be opened") from error
