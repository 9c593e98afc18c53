"""Whether somebody is there, on Wayland: the desktop's idle time, which tells no keys from the mouse.

Weak evidence: it adds nothing to P. It only makes a prompt attended, so that a missed one teaches.
"""

from engine.telemetry.bus import Bus

# Name, path, interface and method of who tells it: GNOME in milliseconds, others in a unit of their own.
_MONITORS = (
    ("org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core", "GetIdletime"),
    ("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver", "GetSessionIdleTime"),
)


class IdleMonitor:
    """Remembers the last idle time; only its falling says something, whatever its unit."""

    def __init__(self) -> None:
        self._last: int | None = None

    def active(self, bus: Bus) -> bool:
        """Tell whether a key or the mouse was used since the last question. Raises OSError when the bus is lost."""
        answers = (bus.call(name, path, name, member) for name, path, member in _MONITORS)
        now = next((answer for answer in answers if answer is not None), None)
        before, self._last = self._last, now
        # One that says 0 for ever, as some do on Wayland, never falls and so says nothing.
        return now is not None and before is not None and now < before
