"""What counts as evidence: voices that last, and turns between a person and the server."""

import random

import pytest

from engine.telemetry.evidence import KeyKind, KeyPress, Readings, RuledEvidence, SeedEvidence, Turns
from engine.telemetry.room import Room


def enter(at: float) -> list[KeyPress]:
    """Return one press of Enter."""
    return [KeyPress(at, KeyKind.ENTER)]


def test_clicks_of_keys_are_not_speech() -> None:
    """One loud tick in three, far over the floor, for a minute: no speech."""
    room = Room()
    for n in range(600):
        room.take(-35.0 if n % 3 == 0 else -70.0, None)
        assert not room.speech
    assert room.height() == 0.0


def test_noise_that_jitters_is_not_speech() -> None:
    """The lowest level drags the floor down, so single ticks stand over it, but never half of a second."""
    room, noise = Room(), random.Random(3)
    heard = []
    for _ in range(6000):
        room.take(-78 + noise.uniform(-4, 4), None)
        heard.append(room.speech)
    assert sum(heard[300:]) < 60


def test_a_voice_detector_overrules_loudness() -> None:
    """Loud music with no voice in it is no speech; a quiet voice is."""
    room = Room()
    for _ in range(30):
        room.take(-70.0, 0.0)
    for _ in range(30):
        room.take(-30.0, 0.1)
    assert not room.speech
    room = Room()
    for _ in range(20):
        room.take(-62.0, 0.0)
    for _ in range(10):
        room.take(-60.0, 0.9)
    assert room.speech


def test_the_floor_does_not_rise_under_a_voice() -> None:
    """Two minutes of talk without a gap stay as loud over the room as they began."""
    room = Room()
    for _ in range(50):
        room.take(-60.0, 0.0)
    for _ in range(1200):
        room.take(-30.0, 0.95)
    assert room.height() == 1.0


@pytest.mark.parametrize("hz", [5, 10, 20, 50])
def test_what_is_speech_does_not_depend_on_the_pace_of_ticks(hz: int) -> None:
    """A cough of a fifth of a second is none at any; half a second of voice is; the floor moves by the second."""
    room = Room(hz)
    for seconds, voice in ((1.0, 0.0), (0.2, 0.9), (1.0, 0.0)):
        for _ in range(round(seconds * hz)):
            room.take(-40.0 if voice else -50.0, voice)
            assert not room.speech
    heard = []
    for _ in range(hz):
        room.take(-40.0, 0.9)
        heard.append(room.speech)
    assert heard.index(True) / hz == pytest.approx(0.5, abs=1.1 / hz)
    room = Room(hz)
    for _ in range(10 * hz):
        room.take(-30.0, 0.0)
    for _ in range(hz):
        room.take(-28.0, 0.9)
    assert room.height() == pytest.approx((12.0 - Room.ABOVE) / Room.RANGE + Room.FOOT)


def test_evidence_fades_after_a_reply() -> None:
    """It halves each minute, and never quite ends; before the first reply nothing is known of turns."""
    turns = Turns()
    assert turns.factor(1000.0) == 1.0
    turns.replied(1000.0)
    assert turns.factor(1000.0) == 1.0
    assert turns.factor(1060.0) == pytest.approx(0.5)
    assert turns.factor(5000.0) == Turns.LEAST


def test_an_enter_may_be_heard_after_its_prompt() -> None:
    """The loop takes prompts first, then hears the keys of the same tick: such an Enter is answered, too."""
    evidence = RuledEvidence()
    evidence.replied(100.0)
    evidence.prompted(110.0)
    evidence.hear(110.0, Readings((KeyPress(109.95, KeyKind.ENTER),)))
    evidence.replied(112.0)
    writing = tuple(KeyPress(120.0 + n / 10, KeyKind.TEXT) for n in range(5))
    evidence.hear(120.4, Readings(writing))
    answered, _ = evidence.terms(120.4, 0.0, 1.0, 1.0)
    assert answered == pytest.approx(RuledEvidence.KEY_HEIGHT * 2 ** (-8.4 / 60))


def test_enters_that_bring_no_prompt_are_held_against_what_follows() -> None:
    """Each halves the evidence for a minute; one that a prompt answers does not."""
    turns = Turns()
    turns.replied(100.0)
    turns.take(101.0, enter(101.0))
    assert turns.factor(102.0) == pytest.approx(2 ** (-2 / 60))
    assert turns.factor(105.0) == pytest.approx(2 ** (-5 / 60) / 2)
    turns.take(110.0, enter(110.0))
    turns.prompted(110.4)
    assert turns.factor(115.0) == pytest.approx(2 ** (-15 / 60) / 2)
    turns.take(162.0, [])
    assert turns.factor(162.0) == pytest.approx(2 ** (-62 / 60))


def test_ruled_evidence_takes_turns_and_seed_does_not() -> None:
    """The same typing counts less a long time after the last reply."""
    heights = {}
    for kind in (RuledEvidence, SeedEvidence):
        for reply in (0.0, 600.0):
            evidence = kind()
            evidence.replied(reply)
            evidence.prompted(reply)
            for n in range(10):
                now = 600.0 + n / 10
                evidence.hear(now, Readings((KeyPress(now, KeyKind.TEXT),)))
            heights[kind, reply] = evidence.terms(601.0, 0.0, 0.45, 0.35)[0]
    assert heights[RuledEvidence, 0.0] < heights[RuledEvidence, 600.0] / 10
    assert heights[SeedEvidence, 0.0] == heights[SeedEvidence, 600.0]
