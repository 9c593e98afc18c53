"""What macOS tells about the moment. Written for, and tried on stand-ins of its answers only."""

import importlib
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

BATTERY_AGAIN = 30.0  # s; asking starts a program


class MacDesktop:
    """One desktop. `session`: what Quartz knows of the session; `power`: what `pmset -g batt` prints."""

    def __init__(
        self, session: Callable[[], Mapping[str, Any] | None] | None = None, power: Callable[[], str] | None = None
    ) -> None:
        self._session = session or _session()
        self._power = power or _power
        self._battery = False
        self._battery_again = float("-inf")

    def obstacle(self) -> str | None:
        """Return "screen locked" or None; full-screen programs are not known here."""
        return "screen locked" if (self._session() or {}).get("CGSSessionScreenIsLocked") else None

    def on_battery(self) -> bool:
        """Tell whether this machine runs on its battery."""
        if time.monotonic() >= self._battery_again:
            self._battery_again = time.monotonic() + BATTERY_AGAIN
            self._battery = "'Battery Power'" in self._power()
        return self._battery

    def active(self) -> bool:
        """Return False: the sensors work here."""
        return False

    def call(self) -> bool:
        """Return False: unknown."""
        return False

    def close(self) -> None:
        """Do nothing."""


def _session() -> Callable[[], Mapping[str, Any] | None]:
    try:
        quartz = importlib.import_module("Quartz")  # comes with pynput, on macOS only
    except ImportError:
        return lambda: None
    asked: Callable[[], Mapping[str, Any] | None] = quartz.CGSessionCopyCurrentDictionary
    return asked


def _power() -> str:
    try:
        command = ["/usr/bin/pmset", "-g", "batt"]
        return subprocess.run(command, capture_output=True, text=True, timeout=2, check=False).stdout  # noqa: S603 - fixed words
    except (OSError, subprocess.TimeoutExpired):
        return ""
