"""Why something was prepared, in words: by the score, by the rules and by the founding text."""

import pytest

from engine.config.settings import Settings
from engine.telemetry import reasons, weights
from engine.telemetry.evidence import KeyKind, KeyPress, Readings, Window
from engine.telemetry.processor import Fusion
from engine.telemetry.reasons import Ground, in_words

CHAT = Window("assistant", ("secret talk",))


class Desk:
    """A fusion with somebody at it."""

    def __init__(self, **settings: object) -> None:
        self.fusion = Fusion(Settings(**settings))  # type: ignore[arg-type]
        self.now = 0.0

    def write(self, seconds: float, window: Window | None = None) -> str:
        """Write five characters a second; return why P is what it is."""
        for n in range(round(seconds * 10)):
            self.now += 0.1
            keys = (KeyPress(self.now, KeyKind.TEXT),) if n % 2 else ()
            self.fusion.step(self.now, Readings(keys, window=window))
        return self.fusion.because(asked=False)

    def speak(self, seconds: float, window: Window | None = None) -> str:
        """Speak; return why P is what it is."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            self.fusion.step(self.now, Readings(db=-30.0, microphone=True, voice=0.95, window=window))
        return self.fusion.because(asked=False)

    def prompt(self) -> None:
        """Send; the answer takes three seconds."""
        self.fusion.prompted(self.now)
        self.now += 3.0
        self.fusion.replied(self.now)


def test_the_score_names_its_grounds() -> None:
    """The window that prompts come from, how long ago a reply was, and what is done; never a title or a program."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.prompt()
    sentence = desk.write(6.0, CHAT)
    assert sorted(sentence.split(", ")) == ["6 s after a reply", "a window that prompts come from", "typing"]
    assert "a voice" in desk.speak(5.0, CHAT)
    assert "assistant" not in sentence + desk.speak(1.0, CHAT)


def test_without_a_window_none_is_named() -> None:
    """Nor a reply of an hour ago."""
    desk = Desk()
    desk.write(5.0)
    desk.prompt()
    assert sorted(desk.write(6.0).split(", ")) == ["6 s after a reply", "typing"]
    desk.now += 3600.0
    assert desk.write(6.0) == "typing"


@pytest.mark.parametrize("settings", [{"learned": False}, {}], ids=["rules", "cold start"])
def test_the_rules_say_how_strong_their_evidence_is(settings: dict[str, object]) -> None:
    """By f_c and g_a; a reply counts for a minute."""
    desk = Desk(**settings)
    assert desk.write(4.0) == "typing 0.30"
    desk = Desk(**settings)
    assert desk.speak(4.0) == "a voice 0.20"
    desk.fusion.replied(desk.now)
    assert desk.speak(5.0).startswith("5 s after a reply, a voice 0.")


def test_the_founding_text_knows_keys_and_sound() -> None:
    """It hears no voices and knows no turns."""
    desk = Desk(evidence="seed")
    desk.fusion.replied(0.0)
    assert desk.write(4.0) == "typing 1.00"
    assert desk.speak(1.0) == "typing 1.00, sound 0.03"


def test_by_hand_is_a_reason_of_its_own() -> None:
    """Whatever was typed."""
    desk = Desk()
    desk.write(4.0)
    assert desk.fusion.because(asked=True) == reasons.ASKED


def test_the_strongest_comes_first_and_three_are_enough() -> None:
    """What speaks against is not named."""
    parts = {Ground.TYPING: 1.0, Ground.VOICE: 3.0, Ground.WINDOW: 2.0, Ground.PASTE: 0.5, Ground.TURN: -1.0}
    assert in_words(parts, 5.0) == "a voice, a window that prompts come from, typing"


def test_every_weight_without_a_window_has_its_ground_or_speaks_against() -> None:
    """A feature that nobody names would leave a hole in what is said."""
    nameless = {name for name in weights.PLAIN if reasons.ground_of(name) is None}
    assert nameless <= {"moves", "repeats", "shortcuts", "vain", "entered", "prompts"}
