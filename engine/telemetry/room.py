"""The sound of the room: tells speech from noise, by loudness or by a detector's word. Pure."""

import math
from collections import deque


class Room:
    """Sound: how far it stands over the room's own noise, and whether it lasts as speech does. `hz`: ticks a second."""

    ABOVE = 6.0  # dB over the noise floor
    RANGE = 18.0  # dB from there to full height
    FOOT = 0.35
    START = -50.0  # dBFS
    FALL = 30.0  # dB a second, of the noise floor
    RISE = 1.0
    SHARE = 0.5  # of the last second must be voice: clicks of keys and a cough are not

    def __init__(self, hz: int = 10) -> None:
        self._hz = hz
        self._floor = self.START
        self._above: float | None = None
        self._voiced: deque[bool] = deque(maxlen=hz)

    def take(self, db: float | None, voice: float | None) -> None:
        """Take in the loudness of one tick, in dBFS, and the probability of a voice if it is known."""
        if db is None or math.isinf(db):
            # Digital silence is a muted or empty source: it says nothing about the room, so the floor stays.
            self._above = None
            self._voiced.append(False)
            return
        if db < self._floor:
            self._floor = max(db, self._floor - self.FALL / self._hz)
        elif voice is None or voice < 0.5:
            self._floor += min(self.RISE / self._hz, db - self._floor)
        self._above = db - self._floor
        self._voiced.append(self._above >= self.ABOVE if voice is None else voice >= 0.5)

    @property
    def speech(self) -> bool:
        """Tell whether somebody has been speaking for the last second."""
        return self.share >= self.SHARE

    @property
    def share(self) -> float:
        """Return the share of the last second that was voice."""
        return sum(self._voiced) / self._hz

    def height(self) -> float:
        """Return how much this looks like speech meant to be heard."""
        if self._above is None or not self.speech:
            return 0.0
        return min(1.0, max(0.0, (self._above - self.ABOVE) / self.RANGE + self.FOOT))
