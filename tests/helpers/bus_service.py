"""A message bus with services of a desktop's shape: idle time, screen saver, login session."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from dbus_fast import BusType, PropertyAccess
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property


class Desk:
    """What the services answer."""

    def __init__(self) -> None:
        self.idle = 0
        self.locked = False
        self.asked = 0


class _Mutter(ServiceInterface):
    def __init__(self, desk: Desk) -> None:
        super().__init__("org.gnome.Mutter.IdleMonitor")
        self._desk = desk

    @dbus_method()
    def GetIdletime(self) -> "t":  # noqa: F821, N802 - names and types of D-Bus
        self._desk.asked += 1
        return self._desk.idle


class _Saver(ServiceInterface):
    def __init__(self, desk: Desk, name: str) -> None:
        super().__init__(name)
        self._desk = desk

    @dbus_method()
    def GetActive(self) -> "b":  # noqa: F821, N802
        return self._desk.locked

    @dbus_method()
    def GetSessionIdleTime(self) -> "u":  # noqa: F821, N802
        return self._desk.idle

    @dbus_method()
    def Echo(self, first: "s", second: "s") -> "i":  # noqa: F821, N802
        return -len(first + second)

    @dbus_method()
    def Words(self) -> "s":  # noqa: F821, N802
        return "no number"


class _Session(ServiceInterface):
    def __init__(self, desk: Desk) -> None:
        super().__init__("org.freedesktop.login1.Session")
        self._desk = desk

    @dbus_property(access=PropertyAccess.READ)
    def LockedHint(self) -> "b":  # noqa: F821, N802
        return self._desk.locked


_SERVICES = {
    "org.gnome.Mutter.IdleMonitor": ("/org/gnome/Mutter/IdleMonitor/Core", _Mutter),
    "org.freedesktop.ScreenSaver": (
        "/org/freedesktop/ScreenSaver",
        lambda desk: _Saver(desk, "org.freedesktop.ScreenSaver"),
    ),
    "org.gnome.ScreenSaver": ("/org/gnome/ScreenSaver", lambda desk: _Saver(desk, "org.gnome.ScreenSaver")),
    "org.freedesktop.login1": ("/org/freedesktop/login1/session/auto", _Session),
}


@contextlib.contextmanager
def service(address: str, name: str) -> Iterator[Desk]:
    """Offer the service of this name on the bus; yield what it answers."""
    desk, loop = Desk(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    path, make = _SERVICES[name]

    async def offer() -> MessageBus:
        bus = await MessageBus(address, BusType.SESSION).connect()
        bus.export(path, make(desk))
        await bus.request_name(name)
        return bus

    async def withdraw(bus: MessageBus) -> None:
        bus.disconnect()
        await bus.wait_for_disconnect()

    bus = asyncio.run_coroutine_threadsafe(offer(), loop).result(10)
    try:
        yield desk
    finally:
        asyncio.run_coroutine_threadsafe(withdraw(bus), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
