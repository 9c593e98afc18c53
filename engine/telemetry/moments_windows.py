"""What Windows tells about the moment. Written for, and tried on stand-ins of its calls only."""

import ctypes
import sys
from typing import Any

from engine.telemetry.moments import FULL_SCREEN

_SWITCH_DESKTOP = 0x0100  # the right that is refused while the lock screen has the input
_STATES = {1: "screen locked", 2: FULL_SCREEN, 3: FULL_SCREEN, 4: "presentation"}
_OFFLINE = 0


class _PowerStatus(ctypes.Structure):
    """SYSTEM_POWER_STATUS, of which the first byte tells whether there is mains."""

    _fields_ = (("mains", ctypes.c_ubyte), ("rest", ctypes.c_ubyte * 11))


class WindowsDesktop:
    """One desktop. `libraries`: has user32, shell32 and kernel32, as ctypes.windll has."""

    def __init__(self, libraries: Any = None) -> None:
        if sys.platform == "win32":  # elsewhere there are none
            libraries = libraries or ctypes.windll
        self._libraries = libraries
        # Handles are wider than the int that ctypes takes for granted.
        self._libraries.user32.OpenInputDesktop.restype = ctypes.c_void_p

    def obstacle(self) -> str | None:
        """Return "screen locked", "full-screen program" or "presentation", None where there is none of these."""
        desktop = self._libraries.user32.OpenInputDesktop(0, False, _SWITCH_DESKTOP)
        if not desktop:
            return "screen locked"
        self._libraries.user32.CloseDesktop(ctypes.c_void_p(desktop))
        state = ctypes.c_int()
        failed = self._libraries.shell32.SHQueryUserNotificationState(ctypes.byref(state))
        return None if failed else _STATES.get(state.value)

    def on_battery(self) -> bool:
        """Tell whether there is no mains; a desktop computer says that there is."""
        status = _PowerStatus()
        told = self._libraries.kernel32.GetSystemPowerStatus(ctypes.byref(status))
        return bool(told) and status.mains == _OFFLINE

    def active(self) -> bool:
        """Return False: the sensors work here."""
        return False

    def call(self) -> bool:
        """Return False: unknown."""
        return False

    def close(self) -> None:
        """Do nothing."""
