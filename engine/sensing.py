"""When to sense: opens and closes the sensors as the moment asks for, and tells what of them counts.

A full-screen program and another program that records are obstacles, unless the window in front is one that prompts
come from: a chat is used full-screen, and a prompt may be dictated.
"""

from dataclasses import replace

from engine.clock import Timeline
from engine.config.settings import Settings
from engine.parts import Parts
from engine.senses import Senses
from engine.telemetry.evidence import Readings
from engine.telemetry.habits import Habits
from engine.telemetry.moments import FULL_SCREEN, IN_CALL, AnyMoment


class Sensing:
    """The sensors and the moment. Belongs to the loop's thread; nothing here blocks it."""

    def __init__(self, parts: Parts, moments: AnyMoment, settings: Settings) -> None:
        self._senses = Senses(parts)
        self._moments = moments
        self._settings = settings
        self._told: tuple[bool | str | None, ...] = ()  # by what the sensors were last opened or closed
        self._masked = False  # the sound is somebody else's
        self.not_guessing: str | None = None  # why this is no moment to guess

    def start(self) -> None:
        """Begin to look and to sense."""
        self._moments.start()
        self._obey(paused=False)

    def close(self) -> None:
        """Look and sense no more; takes some seconds at most."""
        self._moments.close()
        self._senses.close(wait=True)

    def configure(self, settings: Settings) -> None:
        """Take over settings; sensors follow with the next mind()."""
        self._settings = settings
        self._moments.configure(settings)

    def mind(self, habits: Habits, *, paused: bool) -> bool:
        """Open and close what the moment asks for; True if it has just become one not to guess in."""
        before, reason = self.not_guessing, self._moments.reason
        self.not_guessing = None if reason == FULL_SCREEN and self._at_home(habits) else reason
        self._obey(paused=paused)
        return before is None and self.not_guessing is not None

    def read(self, habits: Habits, timeline: Timeline) -> Readings:
        """Return what was heard since the last read; its times lie on `timeline`."""
        readings = self._senses.read()
        self._moments.listening = readings.microphone
        self._masked = readings.microphone and self._moments.in_call and not self._at_home(habits)
        if self._masked:
            readings = replace(readings, db=None, voice=None)
        keys = tuple(replace(press, at=timeline.at(press.at)) for press in readings.keys)
        return replace(readings, keys=keys) if keys else readings

    def person_at(self, timeline: Timeline) -> float | None:
        """Return when somebody was last seen where no sensor can tell, None: not since the last suspend."""
        seen_at = self._moments.person_at
        wanted = self.not_guessing is None and self._settings.keyboard
        return timeline.at(seen_at) if wanted and seen_at is not None else None

    def woke(self) -> None:
        """Take note of a suspend: who was there before it may be gone."""
        self._moments.person_at = None

    def states(self) -> dict[str, str]:
        """Return each sensor's state: "on", "off" or "unavailable: reason"."""
        states = self._senses.states()
        return {**states, "microphone": IN_CALL} if self._masked and states["microphone"] == "on" else states

    def _obey(self, *, paused: bool) -> None:
        """Tell the sensors, if it is anything new."""
        settings = self._settings
        wanted = (settings.keyboard, settings.microphone, settings.watches_window, self._knows_places())
        told = (paused, self.not_guessing, *wanted)
        if told == self._told:
            return
        self._told = told
        if not paused and self.not_guessing is None:
            self._senses.open(settings)
        else:
            # Whether another window comes to the front, or another page in this one, only the window sensor can tell.
            may_end = self.not_guessing == FULL_SCREEN and self._knows_places()
            self._senses.close(wait=False, but_window=may_end and not paused)

    def _at_home(self, habits: Habits) -> bool:
        """Tell whether the window in front is one that prompts come from."""
        front = self._senses.front() if self._knows_places() else None
        return front is not None and habits.home(front)

    def _knows_places(self) -> bool:
        """Tell whether windows are known by what came of writing in them."""
        return self._settings.watches_window and self._settings.learned and self._settings.evidence == "adaptive"
