"""The real engine on a clock of its own, with parts that have no threads: hours pass in a moment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.scripted import NoSound, ScriptedKeys, ScriptedWindow
from diagnostics.stress_stage import Unmet
from engine.config.settings import Settings
from engine.events import Event, PromptArrived, PromptFinished, ServerBack, ShareReport, Snapshot, State
from engine.loop import Engine

KEY_EVERY = 0.12  # s


class VirtualClock:
    """Time that passes when it is told to; the wall's may jump by itself."""

    def __init__(self) -> None:
        self.monotonic, self.unix = 1000.0, 1_800_000_000.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.monotonic

    def slept(self) -> float:
        """Return 0: in a night, monotonic time goes on here."""
        return 0.0

    def wall(self) -> float:
        """Return Unix seconds."""
        return self.unix

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self.monotonic += seconds
        self.unix += seconds


class ObedientShare:
    """Does what is asked at once, and reports it as the real one does. `percent` is what is in force."""

    def __init__(self, post: Callable[[Event], None]) -> None:
        self.percent = 100
        self._post = post

    def start(self) -> None:
        """Do nothing."""

    def request(self, percent: int, *, linger: bool = False) -> None:
        """Obey."""
        del linger
        self.percent = percent
        self._post(ShareReport(percent, True if percent < 100 else None, "process"))

    def server_is(self, pid: int | None) -> None:
        """Take no note."""

    def expect(self) -> None:
        """Do nothing."""

    def beat(self) -> None:
        """Do nothing."""

    def reopen(self, settings: Settings) -> None:
        """Do nothing."""

    def close(self, timeout: float) -> bool:
        """Give back."""
        del timeout
        self.request(100)
        return True


class SilentLink:
    """A server's side on which nothing happens by itself."""

    def start(self) -> None:
        """Do nothing."""

    def attend(self, hz: float) -> None:
        """Do nothing."""

    def prepare(self) -> None:
        """Do nothing."""

    def cancel(self) -> None:
        """Do nothing."""

    def keep(self) -> None:
        """Do nothing."""

    def reconfigure(self, settings: Settings) -> None:
        """Do nothing."""

    def close(self, timeout: float) -> None:
        """Do nothing."""


@dataclass
class VirtualParts:
    """Parts without threads. `held` is the share in use."""

    keys: ScriptedKeys = field(default_factory=ScriptedKeys)
    held: ObedientShare = field(default_factory=lambda: ObedientShare(lambda _: None))

    def keyboard(self) -> ScriptedKeys:
        """Return the scripted keys."""
        return self.keys

    def microphone(self) -> NoSound:
        """Return a microphone that is off."""
        return NoSound()

    def window(self) -> ScriptedWindow:
        """Return a window of which nothing is known."""
        return ScriptedWindow()

    def share(self, settings: Settings, post: Callable[[Event], None]) -> ObedientShare:
        """Return one that obeys."""
        del settings
        self.held = ObedientShare(post)
        return self.held

    def link(self, settings: Settings, post: Callable[[Event], None]) -> SilentLink:
        """Return one that is silent."""
        del settings, post
        return SilentLink()


class Night:
    """The real engine, ticked by a clock of its own. `settings` decide how it reads evidence."""

    def __init__(self, settings: Settings) -> None:
        self.clock = VirtualClock()
        self.parts = VirtualParts()
        self.settings = settings
        self.engine = Engine(self.settings, self.parts, self.clock)
        self.engine.start()
        self._next_key = 0.0
        self.engine.post(ServerBack())
        self.seen = self.tick()

    def tick(self, *, typing: bool = False) -> Snapshot:
        """Let a tenth of a second pass."""
        self.clock.pass_by(0.1)
        now = self.clock.now()
        if typing and now >= self._next_key:
            self.parts.keys.press(now)
            self._next_key = now + KEY_EVERY
        self.seen = self.engine.tick(now)
        return self.seen

    def run(self, seconds: float, *, typing: bool = False) -> None:
        """Let seconds pass."""
        for _ in range(round(seconds * 10)):
            self.tick(typing=typing)

    def type_until_prepared(self) -> None:
        """Type until it prepares. Raises Unmet."""
        for _ in range(600):
            if self.tick(typing=True).state is State.SPECULATIVE_PREPARED:
                return
        raise Unmet(f"a minute of typing prepared nothing, with P {self.seen.probability:.2f}")

    def prompt(self) -> None:
        """Let a prompt come and go."""
        self.engine.post(PromptArrived())
        self.tick()
        self.engine.post(PromptFinished())
        self.tick()
