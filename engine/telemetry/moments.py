"""When not to guess: on battery, behind a locked screen, during a full-screen program or a listed one.

It looks every few seconds on a thread of its own, since what it asks may be slow. What nobody knows is no obstacle.
"""

import logging
import sys
import threading
from collections.abc import Callable
from typing import Protocol

from engine.clock import Clock
from engine.config.settings import Settings

log = logging.getLogger(__name__)

LOOK = 2.5  # s between two looks at the desktop
SLOW = 5.0  # s between two looks at what changes rarely or costs more: battery, programs, calls
FULL_SCREEN = "full-screen program"  # the one obstacle that may be the very window that prompts come from
IN_CALL = "unavailable: in a call (another program records)"  # state of a microphone whose sound does not count
STOP_PATIENCE = 2.0  # s that close() waits


class Desktop(Protocol):
    """What one kind of system tells. Only the thread of Moments calls it; unknown is None or False."""

    def obstacle(self) -> str | None:
        """Return why this is no moment to guess, None: it is one."""

    def on_battery(self) -> bool:
        """Tell whether this machine runs on its battery."""

    def active(self) -> bool:
        """Tell whether somebody used this desktop since the last question, where no sensor can."""

    def call(self) -> bool:
        """Tell whether another program records from the microphone."""

    def close(self) -> None:
        """Hang up."""


class AnyMoment:
    """Guesses at any time: for the demo, replays and tests; and what the loop may ask of Moments."""

    reason: str | None = None  # why not to guess now
    person_at: float | None = None  # when somebody was last seen where no sensor can tell, monotonic
    in_call = False  # another program records from the microphone, too
    listening = False  # the microphone is open: told by the loop, since nobody asks for calls else

    def start(self) -> None:
        """Begin to look."""

    def close(self) -> None:
        """Look no more."""

    def configure(self, settings: Settings) -> None:
        """Take over settings."""


class Moments(AnyMoment):
    """Looks at the desktop. `lookout` makes, from QUIET_PROGRAMS, what names a listed program that runs."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        desktop: Callable[[], Desktop],
        lookout: Callable[[str], Callable[[], str | None]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._desktop_opener = desktop
        self._desktop: Desktop | None = None
        self._make_lookout = lookout
        self._lookout: Callable[[], str | None] = lambda: None
        self._watched = ""
        self._slow_again = float("-inf")
        self._standing: str | None = None  # the obstacle among what is looked at rarely
        self._stopped = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="moments", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Look no more; takes two seconds at most."""
        self._stopped = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(STOP_PATIENCE)

    def configure(self, settings: Settings) -> None:
        """Take over settings and look at once."""
        self._settings = settings
        self._slow_again = float("-inf")
        self._woken.set()

    def look(self) -> None:
        """Take one look. The thread does it; tests do it by hand."""
        if self._desktop is None:
            self._desktop = self._desktop_opener()
        now = self._clock.now()
        if now >= self._slow_again:
            self._slow_again = now + SLOW
            self._look_slowly(self._desktop)
        # What is looked at rarely goes first: it holds in any window, and a full-screen one may be the user's chat.
        self.reason = self._standing or self._desktop.obstacle()
        if self._settings.keyboard and self._desktop.active():  # before it may be sensed, nobody is looked for
            self.person_at = now

    def _look_slowly(self, desktop: Desktop) -> None:
        settings = self._settings
        if settings.quiet_programs != self._watched:
            self._watched = settings.quiet_programs
            self._lookout = self._make_lookout(self._watched)
        program = self._lookout()
        battery = not settings.guess_on_battery and desktop.on_battery()
        self._standing = "on battery" if battery else f"{program} is running" if program else None
        self.in_call = self.listening and desktop.call()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self.look()
            except Exception:  # the boundary of a part: a system may answer what nobody foresaw
                self.reason = None
                log.debug("a look at the desktop failed", exc_info=True)
            self._woken.wait(LOOK)
            self._woken.clear()
        if self._desktop is not None:
            self._desktop.close()


def desktop() -> Desktop:
    """Return the desktop of this system."""
    if sys.platform == "win32":
        from engine.telemetry.moments_windows import WindowsDesktop  # noqa: PLC0415 - one of the three is needed

        return WindowsDesktop()
    if sys.platform == "darwin":
        from engine.telemetry.moments_macos import MacDesktop  # noqa: PLC0415 - as above

        return MacDesktop()
    from engine.telemetry.moments_linux import LinuxDesktop  # noqa: PLC0415 - as above

    return LinuxDesktop()
