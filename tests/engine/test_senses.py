"""The sensors as one part: what each of them senses goes into one reading, and settings close them."""

from dataclasses import dataclass

from helpers.fake_parts import FakeParts

from diagnostics.scripted import ScriptedWindow
from engine.config.settings import Settings
from engine.senses import Senses
from engine.telemetry.evidence import Sound, Window

FRONT = Window("firefox", ("0123456789abcdef",))


class SteadySound(ScriptedWindow):
    """A microphone that hears the same all the time."""

    def read(self) -> Sound | None:  # type: ignore[override]  # it only borrows start and stop
        """Return it."""
        return Sound(-30.0, 0.9)


@dataclass
class HearingParts(FakeParts):
    """Fakes with a microphone that works."""

    def microphone(self) -> SteadySound:  # type: ignore[override]  # as above
        """Return it."""
        return SteadySound()


def test_one_reading_holds_what_all_sense() -> None:
    """Loudness, voice and the window in front; nothing of a sensor that is closed."""
    parts = HearingParts()
    parts.front.front = FRONT
    senses = Senses(parts)
    assert senses.read().window is None
    senses.open(Settings())
    readings = senses.read()
    assert (readings.db, readings.voice, readings.window) == (-30.0, 0.9, FRONT)
    assert (readings.keyboard, readings.microphone) == (True, True)
    senses.close(wait=True)
    readings = senses.read()
    assert (readings.db, readings.voice, readings.window, readings.microphone) == (None, None, None, False)


def test_the_window_filter_opens_the_window_sensor() -> None:
    """Off in the settings, it is off; its state is the sensor's own."""
    parts = FakeParts()
    parts.front.front = FRONT
    senses = Senses(parts)
    senses.open(Settings())
    assert senses.states() == {"keyboard": "on", "microphone": "off", "window": "on"}
    senses.open(Settings(window_filter=False))
    assert senses.states()["window"] == "off"
    assert senses.read().window is None
    senses.open(Settings(microphone=False))
    assert senses.states()["window"] == "on"
    senses.open(Settings(keyboard=False, microphone=False))  # alone it would foretell nothing
    assert senses.states()["window"] == "off"
    parts.front.state = "unavailable: Wayland does not tell which window is in front"
    assert senses.states()["window"].startswith("unavailable: ")


def test_the_window_alone_may_be_left_open() -> None:
    """It looks at its leisure then, opens if it was closed, and its window is no reading."""
    parts = HearingParts()
    parts.front.front = FRONT
    senses = Senses(parts)
    senses.close(wait=False, but_window=True)
    assert (senses.front(), senses.read().window, parts.front.resting) == (FRONT, None, True)
    assert senses.states() == {"keyboard": "off", "microphone": "off", "window": "on"}
    senses.open(Settings())
    assert (senses.front(), senses.read().window, parts.front.resting) == (FRONT, FRONT, False)
    senses.close(wait=False)
    assert (senses.front(), senses.states()["window"]) == (None, "off")
