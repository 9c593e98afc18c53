"""Traces on disk: what is written is what is read, and mistakes are named by file and line."""

import gzip
import io
from pathlib import Path

import pytest

from engine import trace
from engine.errors import TraceError
from engine.telemetry.evidence import KeyKind

EVENTS = [
    trace.Window(0.0, "editor", ["s1", "s2"]),
    trace.Audio(0.0, [-60.0, -61.5], [3.0, 4.0]),
    trace.Key(1.25, KeyKind.TEXT),
    trace.Prompt(2.0),
    trace.Reply(4.5),
    trace.Server(5.0, False),
    trace.Pause(6.0, True),
    trace.SensorChange(7.0, "microphone", False),
    trace.Gap(8.0, 100.0),
]


def written(*events: trace.Event) -> bytes:
    """Return a trace as it lies on disk."""
    file = io.BytesIO()
    writer = trace.Writer(file, trace.Header(1, 10, 10.0))
    for event in events:
        writer.write(event)
    writer.flush()
    return file.getvalue()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_what_is_written_is_what_is_read(tmp_path: Path, packed: bool) -> None:
    """Every kind of event, plain or packed; unknown fields are ignored."""
    content = written(*EVENTS).replace(b'"trace":1', b'"trace":1,"made_by":"someone"')
    path = tmp_path / "day"
    path.write_bytes(gzip.compress(content) if packed else content)
    header, events = trace.read(path)
    assert (header.hz, header.duration) == (10, 10.0)
    assert list(events) == EVENTS


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is empty"),
        (b"hello\n", "line 1: not the header of a trace"),
        (b'{"trace":2,"hz":10,"duration":1}\n', "line 1: not the header"),
        (written() + b'{"t":1,"e":"key","kind":"q"}\n', "line 2"),
        (written() + b'{"t":1,"e":"word","text":"secret"}\n', "line 2"),
        (written() + b'{"t":-1,"e":"prompt"}\n', "line 2"),
        (written(trace.Prompt(5.0), trace.Prompt(4.0)), "line 3: t = 4 comes after 5"),
        (gzip.compress(written(*EVENTS))[:-12], "cannot be read"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    """File, line, and what is wrong."""
    path = tmp_path / "day.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        list(trace.read(path)[1])
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """One sentence, no traceback of the system's."""
    with pytest.raises(TraceError, match="No such file"):
        trace.read(tmp_path / "nowhere")
