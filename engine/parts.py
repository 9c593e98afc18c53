"""The parts that the loop wires, as it sees them, and the real ones. Tests and the demo bring some of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from engine.client.link import ServerLink
from engine.clock import Clock
from engine.config.settings import Settings
from engine.config.store import data_folder, state_folder
from engine.events import Event
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger
from engine.orchestration.mps import BackgroundShare
from engine.telemetry.audio import MicrophoneSensor
from engine.telemetry.evidence import KeyPress, Sound, Window
from engine.telemetry.keyboard import KeyboardSensor
from engine.telemetry.window import WindowSensor, window_key

_Heard_co = TypeVar("_Heard_co", covariant=True)


class Sensor(Protocol[_Heard_co]):
    """A keyboard, a microphone, or who watches the window in front. None of its methods blocks the loop."""

    @property
    def state(self) -> str:
        """Return "on", "off" or "unavailable: reason"."""

    def start(self) -> None:
        """Open it."""

    def stop(self, *, wait: bool = True) -> None:
        """Close it; `wait` until it is closed."""

    def read(self) -> _Heard_co:
        """Return what was heard since the last read."""


class WindowWatch(Sensor[Window | None], Protocol):
    """Who watches the window in front."""

    resting: bool  # looks no more often than every few seconds, whatever changes: nobody types for a prompt now


class Share(Protocol):
    """Whoever holds the background job back."""

    def start(self) -> None:
        """Undo what an earlier run left, and choose a way."""

    def request(self, percent: int, *, linger: bool = False) -> None:
        """Leave this much to the job; the newest request counts. `linger`: a job that loses work by it may wait."""

    def server_is(self, pid: int | None) -> None:
        """Know the server's process."""

    def expect(self) -> None:
        """Be ready: a request may come soon."""

    def beat(self) -> None:
        """Show the guardian that the loop is alive."""

    def reopen(self, settings: Settings) -> None:
        """Give back, then choose a way anew."""

    def close(self, timeout: float) -> bool:
        """Give back and end; True if everything was given back in time."""


class Link(Protocol):
    """The server's side."""

    def start(self) -> None:
        """Begin to watch."""

    def attend(self, hz: float) -> None:
        """Look so often."""

    def prepare(self) -> None:
        """Wake and restore."""

    def cancel(self) -> None:
        """Drop what is queued."""

    def keep(self) -> None:
        """Save after the turn."""

    def reconfigure(self, settings: Settings) -> None:
        """Take over what applies live."""

    def close(self, timeout: float) -> None:
        """Stop."""


class Parts(Protocol):
    """Makes the parts."""

    def keyboard(self) -> Sensor[tuple[KeyPress, ...]]:
        """Make the keyboard sensor: presses."""

    def microphone(self) -> Sensor[Sound | None]:
        """Make the microphone sensor: loudness and voice, None unknown."""

    def window(self) -> WindowWatch:
        """Make the window sensor: the one in front, None unknown."""

    def share(self, settings: Settings, post: Callable[[Event], None]) -> Share:
        """Make whoever holds the background job back."""

    def link(self, settings: Settings, post: Callable[[Event], None]) -> Link:
        """Make the server's side."""


@dataclass(frozen=True)
class RealParts:
    """The real parts. `state`: folder of the ledger; `data`: of the list of saved contexts and the key of titles."""

    clock: Clock
    state: Path
    data: Path

    @classmethod
    def of_user(cls, clock: Clock) -> "RealParts":
        """Keep files where this user's programs keep them."""
        return cls(clock, state_folder(), data_folder())

    @property
    def ledger(self) -> Path:
        """Return where the record of what to undo lies."""
        return self.state / "ledger.json"

    @property
    def contexts(self) -> Path:
        """Return where the list of saved contexts lies."""
        return self.data / "contexts.json"

    @property
    def learned(self) -> Path:
        """Return where what was learned lies."""
        return self.data / "habits.json"

    @property
    def days(self) -> Path:
        """Return where the daily sums of what helping brought and cost lie."""
        return self.data / "benefit.json"

    @property
    def traces(self) -> Path:
        """Return the program's own folder of recordings."""
        return self.data / "traces"

    def keyboard(self) -> KeyboardSensor:
        """Make the keyboard sensor."""
        return KeyboardSensor(self.clock)

    def microphone(self) -> MicrophoneSensor:
        """Make the microphone sensor."""
        return MicrophoneSensor(self.clock)

    def window(self) -> WindowSensor:
        """Make the window sensor, with the key that this user's titles are hashed by."""
        return WindowSensor(self.clock, window_key(self.data / "window.key"))

    def share(self, settings: Settings, post: Callable[[Event], None]) -> BackgroundShare:
        """Make whoever holds the background job back."""
        return BackgroundShare(settings, post, Ledger(self.ledger), Guardian(self.ledger), self.clock)

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:
        """Make the server's side."""
        return ServerLink(settings, self.contexts, self.clock, post)
