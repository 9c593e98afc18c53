"""Parts for engines that are driven by a script: keys come from the program, files lie in a folder of their own."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.client.link import ServerLink
from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import Event
from engine.orchestration.mps import BackgroundShare
from engine.parts import RealParts
from engine.telemetry.evidence import KeyKind, KeyPress, Sound, Window


class ScriptedKeys:
    """A keyboard sensor whose presses come from `press()`."""

    def __init__(self) -> None:
        self.state = "off"
        self._presses: deque[KeyPress] = deque()

    def start(self) -> None:
        """Open it."""
        self.state = "on"

    def stop(self, *, wait: bool = True) -> None:
        """Close it."""
        del wait
        self.state = "off"

    def press(self, at: float, kind: KeyKind = KeyKind.TEXT) -> None:
        """Press a key at `at`, in monotonic seconds."""
        self._presses.append(KeyPress(at, kind))

    def read(self) -> tuple[KeyPress, ...]:
        """Return the presses since the last read."""
        heard = []
        while self._presses:
            heard.append(self._presses.popleft())
        return tuple(heard)


class NoSound:
    """A microphone sensor that is always off."""

    state = "off"

    def start(self) -> None:
        """Stay off."""

    def stop(self, *, wait: bool = True) -> None:
        """Stay off."""

    def read(self) -> Sound | None:
        """Return that nothing is known."""
        return None


class ScriptedWindow:
    """A window sensor that sees what `front` says, while it is open; None: unknown."""

    def __init__(self) -> None:
        self.state = "off"
        self.resting = False
        self.front: Window | None = None

    def start(self) -> None:
        """Open it."""
        self.state = "on"

    def stop(self, *, wait: bool = True) -> None:
        """Close it."""
        del wait
        self.state = "off"

    def read(self) -> Window | None:
        """Return the window in front."""
        return self.front if self.state == "on" else None


@dataclass
class ScriptedParts:
    """Real share and server's side, scripted keys and window.

    `folder` keeps ledger and list of contexts away from the user's.
    """

    clock: Clock
    folder: Path
    keys: ScriptedKeys = field(default_factory=ScriptedKeys)
    front: ScriptedWindow = field(default_factory=ScriptedWindow)

    def keyboard(self) -> ScriptedKeys:
        """Return the scripted keys."""
        return self.keys

    def microphone(self) -> NoSound:
        """Return a microphone that is off."""
        return NoSound()

    def window(self) -> ScriptedWindow:
        """Return the scripted window."""
        return self.front

    def share(self, settings: Settings, post: Callable[[Event], None]) -> BackgroundShare:
        """Make the real thing, with its ledger in the folder."""
        return self._real.share(settings, post)

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:
        """Make the real thing, with its list in the folder."""
        return self._real.link(settings, post)

    @property
    def _real(self) -> RealParts:
        return RealParts(self.clock, self.folder, self.folder)
