"""Records a live run as a trace: times and kinds, levels, hashed titles; never content. Off unless asked for.

The loop's thread only collects. Another one writes, so that a slow disk never holds up a tick.
"""

import contextlib
import gzip
import io
import logging
import os
import queue
import stat
import threading
import time
from pathlib import Path
from typing import Literal

from engine import trace
from engine.config.settings import Settings, specs
from engine.errors import TraceError
from engine.events import (
    MachineEvent,
    Paused,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    Resumed,
    ServerBack,
    ServerLost,
)
from engine.telemetry.evidence import Readings, Window
from engine.telemetry.processor import GAP

log = logging.getLogger(__name__)

LONGEST = 24 * 3600.0  # s; then a recording ends by itself
LARGEST = 64 << 20  # bytes; the same
KEPT = 14 * 24 * 3600.0  # s; older recordings in the program's own folder are deleted
SILENCE = -120.0  # dBFS written for digital silence: JSON knows no infinity
PLAIN_EVERY = 1.0  # s between two writes; a crash loses no more than that
PACKED_EVERY = 60.0  # s; each write is a whole gzip member, so that the file can be read at any moment
SensorName = Literal["keyboard", "microphone", "window"]
_TOLD = ("Prediction", "Sensors")  # groups of settings that go into the header


class Recorder:
    """Writes what the loop shows it. `heard` and `happened` belong to the loop's thread."""

    def __init__(self, path: Path, settings: Settings) -> None:
        """Open the file. Raises TraceError where there is one of that name already, or it cannot be written."""
        self._hz = settings.telemetry_hz
        self._file = _File(path, settings)
        self._every = PACKED_EVERY if self._file.packed else PLAIN_EVERY
        self._start: float | None = None
        self._last = self._written = self._floor = 0.0
        self._events: list[trace.Event] = []
        self._sound: trace.Audio | None = None
        self._on: dict[SensorName, bool] = {"keyboard": True, "microphone": True, "window": True}
        self._window: Window | None = None
        self._chunks: queue.SimpleQueue[tuple[list[trace.Event], float] | None] = queue.SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()
        log.info(
            "recording to %s: times and kinds, never content, yet pseudonymous: a rhythm of typing can tell who. "
            "It ends after %d h or %d MB",
            path, LONGEST // 3600, LARGEST >> 20,
        )  # fmt: skip

    def heard(self, now: float, readings: Readings) -> None:
        """Take one tick's readings."""
        if self._ended:
            return
        at = self._at(now)
        if at - self._last > GAP:
            self._close_sound()
            self._add(trace.Gap(max(self._last, self._floor), round(at - self._last, 3)))
        self._take_sensors(at, readings)
        for press in readings.keys:
            # Within this tick, so that a replay hears it then, too, and not before what is written already.
            moment = min(press.at - (self._start or 0.0), at + 0.4 / self._hz)
            self._add(trace.Key(round(max(moment, self._floor), 3), press.kind))
        self._take_sound(at, readings)
        self._last = at
        if at - self._written >= self._every:
            self._flush(at)

    def happened(self, event: MachineEvent, now: float) -> None:
        """Take one event of the machine."""
        if self._ended:
            return
        at = self._at(now)
        match event:
            case PromptArrived():
                self._add(trace.Prompt(at))
            case PromptFinished():
                self._add(trace.Reply(at))
            case ServerLost() | ServerBack():
                self._add(trace.Server(at, isinstance(event, ServerBack)))
            case Paused() | Resumed():
                self._add(trace.Pause(at, isinstance(event, Paused)))
            case ReleaseRequested():  # to a reader that knows no release, a pause of no length: the nearest to it
                self._add(trace.Pause(at, on=True, release=True))
                self._add(trace.Pause(at, on=False, release=True))
            case _:
                pass

    def close(self) -> None:
        """Write what is left and end; once."""
        if not self._ended:
            self._flush(self._last)
        self._chunks.put(None)
        self._thread.join()

    def _at(self, now: float) -> float:
        """Return the seconds from the start, on the grid of ticks; the first tick is one period after it."""
        if self._start is None:
            self._start = now - 1.0 / self._hz
        return max(self._floor, round((now - self._start) * self._hz) / self._hz)

    def _add(self, event: trace.Event) -> None:
        self._events.append(event)

    def _take_sensors(self, at: float, readings: Readings) -> None:
        there: dict[SensorName, bool] = {
            "keyboard": readings.keyboard,
            "microphone": readings.microphone,
            "window": readings.window is not None,
        }
        for name, on in there.items():
            if self._on[name] is not on:
                self._add(trace.SensorChange(at, name, on))
        self._on = there
        if readings.window is not None and readings.window != self._window:
            self._add(trace.Window(at, readings.window.app, list(readings.window.title)))
        self._window = readings.window

    def _take_sound(self, at: float, readings: Readings) -> None:
        """Add this tick's loudness to the second in work; one value stands for one tick, without holes."""
        if readings.db is None:
            self._close_sound()
            return
        begin, sound = max(0.0, at - 1.0 / self._hz), self._sound
        if sound is not None:
            missed = round((begin - sound.t) * self._hz) - len(sound.db)
            if missed < 0:
                return  # a second tick in the same place
            told = bool(sound.voice) == (readings.voice is not None)
            if missed or not told or len(sound.db) >= self._hz:
                self._close_sound()
        if self._sound is None:
            self._sound = trace.Audio(round(max(begin, self._floor), 3), [], [])
        self._sound.db.append(round(max(readings.db, SILENCE), 1))
        if readings.voice is not None:
            self._sound.voice.append(round(100 * readings.voice, 1))

    def _close_sound(self) -> None:
        if self._sound is not None:
            self._add(self._sound)
            self._sound = None

    def _flush(self, at: float) -> None:
        self._close_sound()
        events, self._events = sorted(self._events, key=lambda event: event.t), []
        if events:
            self._floor = events[-1].t
        self._written = at
        self._chunks.put((events, at))

    def _write(self) -> None:
        """Write chunks until the end, or until the recording is as long or large as it may be."""
        while not self._ended and (chunk := self._chunks.get()) is not None:
            events, duration = chunk
            try:
                size = self._file.add(events, duration)
            except OSError as error:
                log.warning("the recording ended: it cannot be written: %s", error.strerror or error)
                self._ended = True
            else:
                if size >= LARGEST or duration >= LONGEST:
                    log.info("the recording ended: %.1f h, %.0f MB", duration / 3600, size / (1 << 20))
                    self._ended = True
        self._file.close()


class _File:
    """The file. Its header is written anew with each chunk, in place, so that its duration is always true."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.packed = path.suffix == ".gz"
        self._hz = settings.telemetry_hz
        self._settings = {
            spec.name: getattr(settings, spec.attribute)
            for spec in specs()
            if spec.group in _TOLD and (spec.kind is not str or spec.choices)  # a free text could name somebody
        }
        self._width = len(self._line(LONGEST)) + 16  # room for any duration
        self._file = os.fdopen(_open(path), "r+b", buffering=0)
        buffer = io.BytesIO()
        self._lines, self._buffer = trace.Writer(buffer, trace.Header(1, self._hz, 0.0)), buffer
        self.add([], 0.0)

    def add(self, events: list[trace.Event], duration: float) -> int:
        """Append events; return the size of the file in bytes. Raises OSError."""
        header = self._packed(self._line(duration)[:-1].ljust(self._width) + b"\n", 0)
        self._file.seek(0)
        self._file.write(header)
        self._buffer.seek(0)
        self._buffer.truncate()
        for event in events:
            self._lines.write(event)
        self._file.seek(0, os.SEEK_END)
        if events:
            self._file.write(self._packed(self._buffer.getvalue(), 6))
        return self._file.tell()

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def _line(self, duration: float) -> bytes:
        buffer = io.BytesIO()
        trace.Writer(buffer, trace.Header(1, self._hz, round(duration, 3), self._settings))
        return buffer.getvalue()

    def _packed(self, content: bytes, level: int) -> bytes:
        """Return a gzip member where the file is packed; at level 0 the same length has the same size."""
        return gzip.compress(content, level, mtime=0) if self.packed else content


def _open(path: Path) -> int:
    """Open a new or empty regular file for its owner alone; return the descriptor. Raises TraceError."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_size:
        os.close(descriptor)
        raise TraceError(f"{path}: there is a file of that name already; it is left as it is")
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, 0o600)
    return descriptor


def delete_old(folder: Path) -> None:
    """Delete the recordings in the program's own folder that are older than 14 days; others are not ours to delete."""
    for path in [*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]:
        with contextlib.suppress(OSError):  # it may just have been moved
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > KEPT:
                path.unlink()
                log.info("deleted a recording of more than 14 days: %s", path)
