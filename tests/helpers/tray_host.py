"""Desktops with a tray: a panel that embeds icons, and a stand-in for the service that modern desktops have instead."""

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Self

from dbus_fast import BusType, Message, MessageType, PropertyAccess, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal
from helpers.desktop import running
from helpers.wait import wait_until
from Xlib import X, display
from Xlib.error import BadDrawable, BadWindow
from Xlib.protocol import event

PANEL_HEIGHT = 32
_PANEL = """
rounded = 0
border_width = 0
background_color = {colour} 100
panel_items = FS
panel_size = 100% {height}
panel_position = bottom center horizontal
panel_background_id = 1
systray_padding = 6 4 8
systray_icon_size = {icon}
"""
DARK, LIGHT = "#26282c", "#f2f2f2"


@contextlib.contextmanager
def window_manager(screen: str) -> Iterator[None]:
    """Run one, as any desktop does: without it windows have no focus."""
    with running(["openbox"], {"DISPLAY": screen}):
        wait_until(lambda: _root_has(screen, "_NET_SUPPORTING_WM_CHECK"), what="the window manager")
        yield


@contextlib.contextmanager
def panel(screen: str, folder: Path, colour: str = DARK, icon: int = 22) -> Iterator[None]:
    """Run a panel with a tray of the old kind, which embeds the icon's window."""
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "tint2rc"
    configuration.write_text(_PANEL.format(height=PANEL_HEIGHT, colour=colour, icon=icon), "utf-8")
    with running(["tint2", "-c", str(configuration)], {"DISPLAY": screen}):
        wait_until(lambda: has_tray(screen), what="the panel's tray")
        yield


@contextlib.contextmanager
def connection(screen: str) -> Iterator[Any]:
    """Connect to the X server."""
    opened = display.Display(screen)
    try:
        yield opened
    finally:
        opened.close()


def has_tray(screen: str) -> bool:
    """Tell whether a panel takes icons."""
    with connection(screen) as seen:
        return seen.get_selection_owner(seen.intern_atom("_NET_SYSTEM_TRAY_S0")) != X.NONE


def _root_has(screen: str, name: str) -> bool:
    with connection(screen) as seen:
        return seen.screen().root.get_full_property(seen.intern_atom(name), X.AnyPropertyType) is not None


def icon_place(screen: str) -> tuple[int, int, int, int] | None:
    """Return where the panel shows the icon, as x, y, width and height; None while it does not."""
    with connection(screen) as seen:
        root = seen.screen().root
        bottom = root.get_geometry().height
        for window in _shown(root):
            with contextlib.suppress(BadWindow, BadDrawable):
                shape, origin = window.get_geometry(), window.translate_coords(root, 0, 0)
                x, y = -origin.x, -origin.y
                small = 8 <= shape.width <= 64 and 8 <= shape.height <= PANEL_HEIGHT
                if "zat-scs" in (window.get_wm_class() or ()) and small and y >= bottom - PANEL_HEIGHT:
                    return x, y, shape.width, shape.height
    return None


def windows(screen: str) -> list[str]:
    """Return the titles of our windows that the window manager knows: no menus, no icon, no notification."""
    found = []
    with connection(screen) as seen:
        known = seen.screen().root.get_full_property(seen.intern_atom("_NET_CLIENT_LIST"), X.AnyPropertyType)
        for number in known.value if known else ():
            with contextlib.suppress(BadWindow, BadDrawable):
                window = seen.create_resource_object("window", number)
                if "zat-scs" in (window.get_wm_class() or ()):
                    found.append(window.get_wm_name())
    return found


def popup_heights(screen: str) -> list[int]:
    """Return how high the menus are that are open."""
    found = []
    with connection(screen) as seen:
        kind = seen.intern_atom("_NET_WM_WINDOW_TYPE")
        menus = {seen.intern_atom(f"_NET_WM_WINDOW_TYPE_{name}") for name in ("POPUP_MENU", "DROPDOWN_MENU", "MENU")}
        for window in _shown(seen.screen().root):
            with contextlib.suppress(BadWindow, BadDrawable):
                types = window.get_full_property(kind, X.AnyPropertyType)
                if types and menus & set(types.value):
                    found.append(window.get_geometry().height)
    return found


def close_window(screen: str, title: str) -> None:
    """Ask a window to close, as its own button does."""
    with connection(screen) as seen:
        protocols, delete = seen.intern_atom("WM_PROTOCOLS"), seen.intern_atom("WM_DELETE_WINDOW")
        for window in _shown(seen.screen().root):
            with contextlib.suppress(BadWindow, BadDrawable):
                if window.get_wm_name() == title and window.get_wm_class():
                    data = (32, [delete, 0, 0, 0, 0])
                    window.send_event(event.ClientMessage(window=window, client_type=protocols, data=data))
        seen.sync()


def _shown(window: Any) -> Iterator[Any]:
    """Yield all windows inside that are shown; those that vanish meanwhile are left out."""
    with contextlib.suppress(BadWindow, BadDrawable):
        for child in window.query_tree().children:
            with contextlib.suppress(BadWindow, BadDrawable):
                if child.get_attributes().map_state == X.IsViewable:
                    yield child
            yield from _shown(child)


# ---- The service of modern desktops ----------------------------------------------------------------------------------


@contextlib.contextmanager
def session_bus() -> Iterator[str]:
    """Run a message bus of its own; yield its address."""
    command = ["dbus-daemon", "--session", "--nofork", "--print-address=1"]
    with running(command, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout
        address = daemon.stdout.readline().strip()
        assert address, "the message bus did not start"
        yield address


class _Watcher(ServiceInterface):
    """What org.kde.StatusNotifierWatcher offers to programs with an icon."""

    def __init__(self) -> None:
        super().__init__("org.kde.StatusNotifierWatcher")
        self.items: list[str] = []

    @dbus_method()
    def RegisterStatusNotifierItem(self, service: "s") -> None:  # noqa: F821, N802 - names and types of D-Bus
        self.items.append(service)
        self.StatusNotifierItemRegistered(service)

    @dbus_method()
    def RegisterStatusNotifierHost(self, service: "s") -> None:  # noqa: F821, N802
        del service

    @dbus_property(access=PropertyAccess.READ)
    def RegisteredStatusNotifierItems(self) -> "as":  # noqa: F722, N802
        return self.items

    @dbus_property(access=PropertyAccess.READ)
    def IsStatusNotifierHostRegistered(self) -> "b":  # noqa: F821, N802
        return True

    @dbus_property(access=PropertyAccess.READ)
    def ProtocolVersion(self) -> "i":  # noqa: F821, N802
        return 0

    @dbus_signal()
    def StatusNotifierItemRegistered(self, service: str) -> "s":  # noqa: F821, N802
        return service


class Notifier:
    """The desktop's side: it takes icons, reads their tooltips and menus, and clicks."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._watcher = _Watcher()
        self._bus: MessageBus

    @property
    def items(self) -> list[str]:
        """The bus names, or paths, under which icons registered so far."""
        return list(self._watcher.items)

    def value(self, name: str) -> Any:
        """Return a property of the newest icon."""
        answer = self._call("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", "ss", [_ITEM, name])
        return answer[0].value

    @property
    def tooltip(self) -> str:
        """The text that hovering shows."""
        return str(self.value("ToolTip")[2])

    def activate(self) -> None:
        """Click the icon."""
        self._call("/StatusNotifierItem", _ITEM, "Activate", "ii", [0, 0])

    def menu(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Return the visible entries, without their accelerators: label → number and properties."""
        _, layout = self._call("/MenuBar", _MENU, "GetLayout", "iias", [0, -1, []])
        return dict(_entries(layout))

    def click(self, label: str) -> None:
        """Click an entry of the menu."""
        number, _ = self.menu()[label]
        self._call("/MenuBar", _MENU, "Event", "isvu", [number, "clicked", Variant("i", 0), 0])

    def _call(self, path: str, interface: str, member: str, signature: str, body: list[Any]) -> list[Any]:
        message = Message(
            destination=self.items[-1].partition("/")[0],
            path=path,
            interface=interface,
            member=member,
            signature=signature,
            body=body,
        )
        answer = self._run(lambda: self._bus.call(message))
        assert answer.message_type is MessageType.METHOD_RETURN, answer.body
        return list(answer.body)

    def _run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return asyncio.run_coroutine_threadsafe(make(), self._loop).result(10)

    async def _open(self) -> None:
        self._bus = await MessageBus(self._address, BusType.SESSION).connect()
        self._bus.export("/StatusNotifierWatcher", self._watcher)
        await self._bus.request_name("org.kde.StatusNotifierWatcher")

    async def _close(self) -> None:
        self._bus.disconnect()
        await self._bus.wait_for_disconnect()

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


_ITEM = "org.kde.StatusNotifierItem"
_MENU = "com.canonical.dbusmenu"


def _entries(layout: Any) -> Iterator[tuple[str, tuple[int, dict[str, Any]]]]:
    number, properties, children = layout
    values = {name: variant.value for name, variant in properties.items()}
    if values.get("visible", True):
        if values.get("label"):
            yield values["label"].replace("_", ""), (number, values)
        for child in children:
            yield from _entries(child.value)
