"""Days made by the generator: valid traces, the same for the same seed, each kind with what it is named after."""

from pathlib import Path

import pytest

from diagnostics import days
from engine import trace
from engine.telemetry.evidence import KeyKind

HOUR = 3600.0


@pytest.mark.parametrize("kind", days.KINDS)
def test_a_day_is_a_valid_trace(tmp_path: Path, kind: str) -> None:
    """Sorted, within the day, with prompts and as many replies; titles are opaque."""
    (number,) = [number for number, name in enumerate(days.KINDS) if name == kind]
    path = days.write(tmp_path, number + 1, 5, HOUR)[-1]
    header, found = trace.read(path)
    events = list(found)
    assert path.name.startswith(kind)
    assert header.duration == HOUR
    assert 0 <= events[0].t <= events[-1].t < HOUR
    prompts = sum(isinstance(event, trace.Prompt) for event in events)
    assert prompts == sum(isinstance(event, trace.Reply) for event in events)
    titles = {segment for event in events if isinstance(event, trace.Window) for segment in event.title}
    assert titles
    assert all(int(segment, 16) >= 0 for segment in titles)


def test_the_same_seed_gives_the_same_days(tmp_path: Path) -> None:
    """Byte by byte; another seed gives others."""
    same = [path.read_bytes() for folder in "ab" for path in days.write(tmp_path / folder, 2, 3, HOUR / 4)]
    assert same[:2] == same[2:]
    assert days.write(tmp_path / "c", 1, 4, HOUR / 4)[0].read_bytes() != same[0]


def test_each_kind_holds_what_it_is_named_after() -> None:
    """Prompts that nobody typed, writing to people, speech without a prompt, no key at all."""
    events = {kind: days.day(kind, 11, 8 * HOUR)[1] for kind in days.KINDS}
    assert not any(isinstance(event, trace.Key) for event in events["no-keyboard"])
    assert trace.SensorChange(0.0, "keyboard", False) in events["no-keyboard"]
    assert voiced(events["meetings"]) > voiced(events["normal"])
    assert shown(events["messaging"], "messenger") > shown(events["normal"], "messenger")
    assert unattended(events["agents"]) > 50 > unattended(events["messaging"])


def voiced(events: list[trace.Event]) -> float:
    """Count ticks with a voice."""
    return sum(voice >= 50 for event in events if isinstance(event, trace.Audio) for voice in event.voice)


def shown(events: list[trace.Event], app: str) -> int:
    """Count how often a program came to the front."""
    return sum(isinstance(event, trace.Window) and event.app == app for event in events)


def unattended(events: list[trace.Event]) -> int:
    """Count prompts without an Enter in the second before."""
    enters = [event.t for event in events if isinstance(event, trace.Key) and event.kind is KeyKind.ENTER]
    prompts = [event.t for event in events if isinstance(event, trace.Prompt)]
    return sum(not any(0 <= at - enter <= 1 for enter in enters) for at in prompts)


def test_the_command_writes_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names each file; a folder that cannot be made is an error of one sentence."""
    assert days.main([str(tmp_path / "made"), "--days", "1"]) == 0
    (path,) = (tmp_path / "made").iterdir()
    assert capsys.readouterr().out.strip() == str(path)
    (tmp_path / "file").write_bytes(b"")
    assert days.main([str(tmp_path / "file"), "--days", "1"]) == 1
    assert "cannot be written" in capsys.readouterr().err
