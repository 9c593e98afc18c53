"""Traces: what was sensed and what happened in a day, as JSON lines; times and kinds only, never content.

The first line is a header `{"trace":1,"hz":10,"duration":S}`, then one event a line, sorted by `t` (seconds from the
start). Titles of windows are lists of keyed hashes; the key is kept elsewhere.
"""

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import msgspec

from engine.errors import TraceError
from engine.telemetry.evidence import KeyKind

VERSION = 1
_LONGEST_LINE = 8 << 20  # bytes; a day of sound in one line stays below

Time = Annotated[float, msgspec.Meta(ge=0)]


class Header(msgspec.Struct, frozen=True):
    """First line. `duration` in seconds; `settings`: NAME → value as recorded."""

    trace: Literal[1]
    hz: Annotated[int, msgspec.Meta(ge=1, le=50)]
    duration: Time
    settings: dict[str, bool | int | float | str] = {}


class Key(msgspec.Struct, frozen=True, tag_field="e", tag="key"):
    """A key went down."""

    t: Time
    kind: KeyKind


class Audio(msgspec.Struct, frozen=True, tag_field="e", tag="audio"):
    """Loudness, one value a tick from `t` on, in dBFS; `voice`: probability of a voice in percent, may be absent."""

    t: Time
    db: list[float]
    voice: list[float] = []


class Window(msgspec.Struct, frozen=True, tag_field="e", tag="window"):
    """Another window came to the front. `title`: opaque segments."""

    t: Time
    app: str
    title: list[str] = []


class Prompt(msgspec.Struct, frozen=True, tag_field="e", tag="prompt"):
    """A prompt arrived at the server."""

    t: Time


class Reply(msgspec.Struct, frozen=True, tag_field="e", tag="reply"):
    """The server finished a reply."""

    t: Time


class Server(msgspec.Struct, frozen=True, tag_field="e", tag="server"):
    """The server was lost or came back; without any such event it is up."""

    t: Time
    up: bool


class Pause(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="e", tag="pause"):
    """The user paused (`on`) or resumed. `release`: both are one wish to give the card back and wait for quiet."""

    t: Time
    on: bool
    release: bool = False


class SensorChange(msgspec.Struct, frozen=True, tag_field="e", tag="sensor"):
    """A sensor came or went."""

    t: Time
    name: Literal["keyboard", "microphone", "window"]
    on: bool


class Gap(msgspec.Struct, frozen=True, tag_field="e", tag="gap"):
    """Nothing was recorded for so many seconds: the machine slept, or the recording was off."""

    t: Time
    seconds: Time


Event = Key | Audio | Window | Prompt | Reply | Server | Pause | SensorChange | Gap
_decode_header = msgspec.json.Decoder(Header).decode
_decode_event = msgspec.json.Decoder(Event).decode


def read(path: Path) -> tuple[Header, Iterator[Event]]:
    """Open a trace, gzipped or not. Raises TraceError, also while iterating, naming file, line and what is wrong."""
    lines = _lines(path)
    try:
        _, first = next(lines)
    except StopIteration:
        raise TraceError(f"{path}: it is empty") from None
    try:
        header = _decode_header(first)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: line 1: not the header of a trace: {error}") from None
    return header, _events(path, lines)


def _events(path: Path, lines: Iterator[tuple[int, bytes]]) -> Iterator[Event]:
    before = 0.0
    for number, line in lines:
        if not line.strip():
            continue
        try:
            event: Event = _decode_event(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"{path}: line {number}: {error}") from None
        if event.t < before:
            raise TraceError(f"{path}: line {number}: t = {event.t:g} comes after {before:g}: expected rising times")
        before = event.t
        yield event


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if packed else raw
            number = 0
            while line := file.readline(_LONGEST_LINE + 1):
                number += 1
                if len(line) > _LONGEST_LINE:
                    raise TraceError(f"{path}: line {number}: longer than {_LONGEST_LINE} bytes")
                yield number, line
    except (OSError, EOFError) as error:
        raise TraceError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


class Writer:
    """Writes a trace line by line, so that a crash loses the last second at most. Belongs to one thread."""

    def __init__(self, file: BinaryIO, header: Header) -> None:
        self._file = io.BufferedWriter(file) if isinstance(file, io.RawIOBase) else file
        self._encode = msgspec.json.Encoder().encode
        self._file.write(self._encode(header) + b"\n")

    def write(self, event: Event) -> None:
        """Add one event; its time must not be before the last one's."""
        self._file.write(self._encode(event) + b"\n")

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()
