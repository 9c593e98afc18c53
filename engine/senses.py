"""The sensors as one part: opened and closed together, read once a tick, each with its state."""

from engine.config.settings import Settings
from engine.parts import Parts
from engine.telemetry.evidence import Readings


class Senses:
    """Keyboard and microphone. Belongs to the loop's thread; nothing here blocks it."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._keyboard = parts.keyboard()
        self._microphone = parts.microphone()

    def open(self, settings: Settings) -> None:
        """Open what the settings want and close the rest."""
        self._settings = settings
        for wanted, sensor in ((settings.keyboard, self._keyboard), (settings.microphone, self._microphone)):
            if wanted:
                sensor.start()
            else:
                sensor.stop(wait=False)

    def close(self, *, wait: bool) -> None:
        """Close all; `wait` until they are closed, some seconds at most."""
        self._keyboard.stop(wait=wait)
        self._microphone.stop(wait=wait)

    def read(self) -> Readings:
        """Return what was heard since the last read."""
        keyboard, microphone = self._keyboard.state == "on", self._microphone.state == "on"
        return Readings(
            keys=self._keyboard.read() if keyboard else (),
            keyboard=keyboard,
            db=self._microphone.read() if microphone else None,
            microphone=microphone,
        )

    def states(self) -> dict[str, str]:
        """Return each sensor's state: "on", "off" or "unavailable: reason"."""
        window = "unavailable: not part of this version" if self._settings.window_filter else "off"
        return {"keyboard": self._keyboard.state, "microphone": self._microphone.state, "window": window}
