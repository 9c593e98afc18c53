"""Parts of the engine with the shape of the real ones, which write down what they are told."""

from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.scripted import NoSound, ScriptedKeys, ScriptedWindow
from engine.config.settings import Settings
from engine.events import Event, ShareReport


class FakeShare:
    """Obeys at once and reports it, as the real one does from its thread."""

    def __init__(self, log: list[str], post: Callable[[Event], None]) -> None:
        self.log = log
        self._post = post
        self.share = 100
        self.lingers = False
        self.closes_in_time = True

    def start(self) -> None:
        """Report what was chosen."""
        self.log.append("share start")
        self._post(ShareReport(100, None, "process"))

    def request(self, percent: int, *, linger: bool = False) -> None:
        """Obey; the same wish twice is one."""
        self.lingers = linger
        if percent != self.share:
            self.share = percent
            self.log.append(f"share {percent}")
            self._post(ShareReport(percent, True if percent < 100 else None, "process"))

    def server_is(self, pid: int | None) -> None:
        """Take no note."""

    def expect(self) -> None:
        """Note it once."""
        if self.log[-1:] != ["share expect"]:
            self.log.append("share expect")

    def beat(self) -> None:
        """Do nothing: it comes with each tick."""

    def reopen(self, settings: Settings) -> None:
        """Note it."""
        self.log.append(f"share reopen {settings.background_method}")

    def close(self, timeout: float) -> bool:
        """Give back."""
        del timeout
        self.request(100)
        self.log.append("share close")
        return self.closes_in_time


class FakeLink:
    """Writes down what it is told."""

    def __init__(self, log: list[str], settings: Settings, post: Callable[[Event], None]) -> None:
        self.log = log
        self.url = settings.server_url
        self.post = post

    def start(self) -> None:
        """Note it."""
        self.log.append(f"link start {self.url}")

    def attend(self, hz: float) -> None:
        """Note it."""
        self.log.append(f"link attend {hz:g}")

    def prepare(self) -> None:
        """Note it."""
        self.log.append("link prepare")

    def cancel(self) -> None:
        """Note it."""
        self.log.append("link cancel")

    def keep(self) -> None:
        """Note it."""
        self.log.append("link keep")

    def reconfigure(self, settings: Settings) -> None:
        """Note it."""
        self.log.append(f"link reconfigure {'keep' if settings.keep_context else 'no keep'}")

    def close(self, timeout: float) -> None:
        """Note it."""
        del timeout
        self.log.append(f"link close {self.url}")


@dataclass
class FakeParts:
    """Makes the fakes; `log` is what all of them were told, in order."""

    log: list[str] = field(default_factory=list)
    keys: ScriptedKeys = field(default_factory=ScriptedKeys)
    front: ScriptedWindow = field(default_factory=ScriptedWindow)
    links: list[FakeLink] = field(default_factory=list)
    shares: list[FakeShare] = field(default_factory=list)

    def keyboard(self) -> ScriptedKeys:
        """Return the scripted keys."""
        return self.keys

    def microphone(self) -> NoSound:
        """Return a microphone that is off."""
        return NoSound()

    def window(self) -> ScriptedWindow:
        """Return the scripted window."""
        return self.front

    def share(self, settings: Settings, post: Callable[[Event], None]) -> FakeShare:
        """Make the share."""
        del settings
        self.shares.append(FakeShare(self.log, post))
        return self.shares[-1]

    def link(self, settings: Settings, post: Callable[[Event], None]) -> FakeLink:
        """Make the server's side."""
        self.links.append(FakeLink(self.log, settings, post))
        return self.links[-1]
