"""The sensors as one part: opened and closed together, read once a tick, each with its state."""

from engine.config.settings import Settings
from engine.parts import Parts
from engine.telemetry.evidence import Readings, Window


class Senses:
    """Keyboard, microphone and window in front. Belongs to the loop's thread; nothing here blocks it."""

    def __init__(self, parts: Parts) -> None:
        self._keyboard = parts.keyboard()
        self._microphone = parts.microphone()
        self._window = parts.window()
        self._window_counts = False

    def open(self, settings: Settings) -> None:
        """Open what the settings want and close the rest."""
        wishes = (
            (settings.keyboard, self._keyboard),
            (settings.microphone, self._microphone),
            (settings.watches_window, self._window),
        )
        for wanted, sensor in wishes:
            if wanted:
                sensor.start()
            else:
                sensor.stop(wait=False)
        self._window_counts, self._window.resting = True, False

    def close(self, *, wait: bool, but_window: bool = False) -> None:
        """Close all; `wait` until they are closed, some seconds at most. `but_window`: front() goes on."""
        self._window_counts = False
        self._window.resting = but_window
        self._keyboard.stop(wait=wait)
        self._microphone.stop(wait=wait)
        if but_window:
            self._window.start()
        else:
            self._window.stop(wait=wait)

    def front(self) -> Window | None:
        """Return the window in front, None while it is unknown."""
        return self._window.read() if self._window.state == "on" else None

    def read(self) -> Readings:
        """Return what was heard since the last read."""
        keyboard, microphone = self._keyboard.state == "on", self._microphone.state == "on"
        sound = self._microphone.read() if microphone else None
        return Readings(
            keys=self._keyboard.read() if keyboard else (),
            keyboard=keyboard,
            db=None if sound is None else sound.db,
            microphone=microphone,
            voice=None if sound is None else sound.voice,
            window=self.front() if self._window_counts else None,
        )

    def states(self) -> dict[str, str]:
        """Return each sensor's state: "on", "off" or "unavailable: reason"."""
        return {
            "keyboard": self._keyboard.state,
            "microphone": self._microphone.state,
            "window": self._window.state,
        }
