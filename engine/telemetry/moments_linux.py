"""What a Linux desktop tells about the moment: by its X server, its message buses, /sys, and the sound server."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from engine.telemetry import x_server
from engine.telemetry.bus import SYSTEM, Bus, session_address
from engine.telemetry.idle import IdleMonitor
from engine.telemetry.moments import FULL_SCREEN

AGAIN = 60.0  # s before what could not be opened, or was lost, is tried again
OURS = "zat-scs"  # the class of our own windows
_SAVERS = ("org.gnome", "org.freedesktop", "org.cinnamon", "org.mate")  # who may know that the screen is locked
_LOGIN = "org.freedesktop.login1"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_FILTERS = frozenset(  # programs that record only to pass on what they hear: noise filters, equalizers, sound servers
    {"easyeffects", "jamesdsp", "noisetorch", "pipewire", "pipewire-pulse", "pulseaudio", "pulseeffects", "wireplumber"}
)


class _Closes(Protocol):
    def close(self) -> None: ...


_Open = TypeVar("_Open", bound=_Closes)
_Answer = TypeVar("_Answer")


class Line(Generic[_Open]):
    """A line that is opened when it is first needed, dropped when it fails, and then left alone for a minute."""

    def __init__(self, opener: Callable[[], _Open]) -> None:
        self._opener = opener
        self._open: _Open | None = None
        self._again = float("-inf")

    def ask(self, question: Callable[[_Open], _Answer]) -> _Answer | None:
        """Return the answer, None if there is none."""
        if self._open is None and time.monotonic() < self._again:
            return None
        with suppress(Exception):  # a lost X server raises what it likes
            self._open = self._open or self._opener()
            return question(self._open)
        self.close()
        self._again = time.monotonic() + AGAIN
        return None

    def close(self) -> None:
        """Hang up."""
        line, self._open = self._open, None
        if line is not None:
            with suppress(Exception):  # what is lost may refuse even this
                line.close()


class LinuxDesktop:
    """One desktop. `power`: where the kernel shows batteries; `system`: address of the system's bus."""

    def __init__(self, power: Path = Path("/sys/class/power_supply"), system: str = SYSTEM) -> None:
        self._power = power
        self._screen: Line[Screen] = Line(lambda: Screen(x_server.connect()))
        self._session = Line(lambda: Bus(session_address()))
        self._system = Line(lambda: Bus(system))
        self._idle = IdleMonitor()
        self._wayland = os.environ.get("XDG_SESSION_TYPE") == "wayland" or bool(os.environ.get("WAYLAND_DISPLAY"))

    def obstacle(self) -> str | None:
        """Return "screen locked", "screen saver" or "full-screen program", None where there is none of these."""
        if self._system.ask(_login_says_locked) or self._session.ask(_saver_says_active):
            return "screen locked"
        return self._screen.ask(lambda screen: screen.obstacle())

    def on_battery(self) -> bool:
        """Tell whether a battery of the machine itself is being emptied, with no mains or dock attached."""
        supplies = [_Supply(folder) for folder in self._power.glob("*")]
        return any(one.drains for one in supplies) and not any(one.feeds for one in supplies)

    def active(self) -> bool:
        """Tell whether somebody used the desktop, where Wayland keeps that from our sensors."""
        return self._wayland and bool(self._session.ask(self._idle.active))

    def call(self) -> bool:
        """Tell whether another program records from the default microphone."""
        pactl = shutil.which("pactl")
        return pactl is not None and _recorded_by_others(pactl)

    def close(self) -> None:
        """Hang up."""
        for line in (self._screen, self._session, self._system):
            line.close()


class Screen:
    """Our own line to the X server."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._root = display.screen().root
        self._savers = display.has_extension("MIT-SCREEN-SAVER")

    def obstacle(self) -> str | None:
        """Return what the X server knows of."""
        if self._savers and self._root.screensaver_query_info().state == 1:  # StateOn
            return "screen saver"
        from Xlib.error import BadWindow  # noqa: PLC0415 - there once the line is open

        with suppress(BadWindow):  # it was closed between two questions
            if self._full_screen():
                return FULL_SCREEN
        return None

    def close(self) -> None:
        """Hang up."""
        self._display.close()

    def _full_screen(self) -> bool:
        """Tell whether the active window covers the screen and is none of ours."""
        active = self._property(self._root, "_NET_ACTIVE_WINDOW")
        if not active or not active[0]:
            return False
        window = self._display.create_resource_object("window", active[0])
        state = self._display.intern_atom("_NET_WM_STATE_FULLSCREEN")
        return state in self._property(window, "_NET_WM_STATE") and OURS not in (window.get_wm_class() or ())

    def _property(self, window: Any, name: str) -> list[int]:
        found = window.get_full_property(self._display.intern_atom(name), 0)  # any type
        return [] if found is None else list(found.value)


class _Supply:
    """One folder of /sys/class/power_supply."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        kind = self._read("type")
        # A mouse has a battery, too: its scope is Device.
        self.drains = kind == "Battery" and self._read("scope") != "Device" and self._read("status") == "Discharging"
        self.feeds = kind in ("Mains", "USB", "Wireless") and self._read("online") == "1"

    def _read(self, name: str) -> str:
        with suppress(OSError, UnicodeDecodeError):
            return (self._folder / name).read_text("utf-8").strip()
        return ""


def _login_says_locked(bus: Bus) -> bool:
    session, interface = "/org/freedesktop/login1/session/auto", f"{_LOGIN}.Session"
    return bus.call(_LOGIN, session, _PROPERTIES, "Get", interface, "LockedHint") == 1


def _saver_says_active(bus: Bus) -> bool:
    return any(
        bus.call(f"{who}.ScreenSaver", f"/{who.replace('.', '/')}/ScreenSaver", f"{who}.ScreenSaver", "GetActive") == 1
        for who in _SAVERS
    )


def _recorded_by_others(pactl: str) -> bool:
    """Ask the sound server who records; one that does not say which process it is counts as ourselves."""
    streams = re.split(r"(?m)^Source Output #", _told(pactl, "source-outputs"))
    others = {_word(r"^\tSource: (\d+)$", one) for one in streams if _is_other(one)}
    if not others - {None}:
        return False
    default = _word(r"^Default Source: (.+)$", _told(pactl))
    sources = re.findall(r"(?m)^(\d+)\t(\S+)\t", _told(pactl, "sources", "short"))
    return any(name == default and number in others for number, name in sources)


def _is_other(stream: str) -> bool:
    process = _word(r'application\.process\.id = "(\d+)"', stream)
    corked, meter = "\tCorked: yes" in stream, "Resample method: peaks" in stream  # a meter shows, and keeps nothing
    names = (_word(rf'application\.{key} = "(.+)"', stream) or "" for key in (r"process\.binary", "name"))
    filters = any(name.lower() in _FILTERS for name in names)
    return process not in (None, str(os.getpid())) and not (corked or meter or filters)


def _word(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else None


def _told(pactl: str, *words: str) -> str:
    command = [pactl, *(("list", *words) if words else ("info",))]
    plain = {**os.environ, "LC_ALL": "C"}
    with suppress(OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return subprocess.run(command, capture_output=True, text=True, timeout=2, check=True, env=plain).stdout  # noqa: S603 - fixed words
    return ""
