#!/usr/bin/env python3
"""Takes the pictures of the README: screenshots.py [FOLDER]. Needs Xvfb, openbox, tint2 and xdotool.

Each function of PICTURES takes its own, under a name that ends with the colours of the desktop.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from helpers import tray_host  # noqa: E402 - found only now
from helpers.desktop import display, xdotool  # noqa: E402
from PySide6.QtCore import QRect, Qt  # noqa: E402
from PySide6.QtGui import QColor, QImage, QPainter, QPixmap  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402
from Xlib import X  # noqa: E402

from app import theme  # noqa: E402
from app.actions import Actions  # noqa: E402
from app.first_run import FirstRun  # noqa: E402
from app.tray import Tray  # noqa: E402
from engine.config import store  # noqa: E402
from engine.config.settings import Settings  # noqa: E402
from engine.events import ServerState, Snapshot, State  # noqa: E402

IDLE = Snapshot(at=0.0, state=State.COLD_IDLE, probability=0.08, backend="process", server=ServerState.UP)
PREPARED = replace(
    IDLE,
    state=State.SPECULATIVE_PREPARED,
    probability=0.71,
    background_share=10,
    background_verified=True,
    background_detail="fahclient: stopped; memory of the card stays taken",
    deadline_in=12.0,
)
MARKS = {
    "waiting": IDLE,
    "prepared": PREPARED,
    "server at work": replace(PREPARED, state=State.ACTIVE_INFERENCE, background_share=0, deadline_in=None),
    "no server": replace(IDLE, state=State.DEGRADED, server=ServerState.DOWN),
    "paused": replace(IDLE, paused=True, paused_for=840.0),
    "not set up": None,
}
WIDTH, HEIGHT = 800, 600  # pixels, of the screen
CELL = 128


class Desktop:
    """One desktop: an X server with a panel in these colours."""

    def __init__(self, screen: str, *, dark: bool) -> None:
        self.screen = screen
        self.name = "dark" if dark else "light"
        self.panel = tray_host.DARK if dark else tray_host.LIGHT
        self.colours = theme.DARK if dark else theme.LIGHT
        with tray_host.connection(screen) as seen:
            root = seen.screen().root
            root.change_attributes(background_pixel=0x101216 if dark else 0xCDD5DF)
            root.clear_area()
            seen.sync()

    def corner(self, width: int, height: int) -> QImage:
        """Return what is shown in the corner of the tray."""
        return self.picture(QRect(WIDTH - width, HEIGHT - height, width, height))

    def picture(self, place: QRect) -> QImage:
        """Return what the screen shows there."""
        with tray_host.connection(self.screen) as seen:
            shape = (place.x(), place.y(), place.width(), place.height())
            raw = seen.screen().root.get_image(*shape, X.ZPixmap, 0xFFFFFFFF)
        return QImage(raw.data, place.width(), place.height(), QImage.Format.Format_RGB32).copy()

    def icon(self) -> QRect:
        """Wait for the icon; return where it is."""
        wait(lambda: tray_host.icon_place(self.screen) is not None)
        place = tray_host.icon_place(self.screen)
        assert place
        return QRect(*place)


def wait(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Let Qt work until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        settle(0.02)


def settle(seconds: float = 0.4) -> None:
    """Let Qt, the panel and the X server draw what is due."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.01)


@contextlib.contextmanager
def tray() -> Iterator[tuple[Tray, Actions]]:
    """Show the icon while the block lasts."""
    actions = Actions()
    shown = Tray(actions)
    shown.start()
    try:
        yield shown, actions
    finally:
        shown.stop()
        settle()


def states(desktop: Desktop, folder: Path) -> None:
    """Show the icon in each state, as it is in the panel and twice as large, with its name."""
    sheet = QPixmap(CELL * len(MARKS), 140)
    sheet.fill(QColor(desktop.colours.window))
    painter = QPainter(sheet)
    painter.setPen(QColor(desktop.colours.text))
    with tray() as (shown, _):
        for column, (name, snapshot) in enumerate(MARKS.items()):
            shown.render(snapshot, answered=snapshot is not None)
            settle()
            middle = desktop.icon().center()
            strip = desktop.picture(QRect(middle.x() - 15, middle.y() - 15, 30, 30))
            x = CELL * column
            painter.drawImage(QRect(x + 49, 8, 30, 30), strip)
            painter.drawImage(QRect(x + 34, 46, 60, 60), strip)
            painter.drawText(QRect(x, 112, CELL, 20), Qt.AlignmentFlag.AlignCenter, name)
    painter.end()
    sheet.save(str(folder / f"tray-states-{desktop.name}.png"))


def menu(desktop: Desktop, folder: Path) -> None:
    """Open the menu by a right click, while prepared."""
    with tray() as (shown, actions):
        shown.render(PREPARED, answered=True)
        actions.render(PREPARED)
        middle = desktop.icon().center()
        xdotool(desktop.screen, "mousemove", str(middle.x()), str(middle.y()), "click", "3")
        wait(lambda: tray_host.popup_heights(desktop.screen))
        settle(0.6)
        desktop.corner(720, 450).save(str(folder / f"tray-menu-{desktop.name}.png"))
        xdotool(desktop.screen, "key", "Escape")
        settle()


def tooltip(desktop: Desktop, folder: Path) -> None:
    """Show the tooltip under the mouse, while prepared."""
    with tray() as (shown, _):
        shown.render(PREPARED, answered=True)
        middle = desktop.icon().center()
        xdotool(desktop.screen, "mousemove", str(middle.x()), str(middle.y()))
        settle(0.2)
        xdotool(desktop.screen, "mousemove_relative", "1", "1")
        settle(2.0)
        desktop.corner(540, 110).save(str(folder / f"tray-tooltip-{desktop.name}.png"))
        xdotool(desktop.screen, "mousemove", "10", "10")


def first_run(desktop: Desktop, folder: Path) -> None:
    """Ask the questions of the first start."""
    dialog = FirstRun(store.Loaded(Settings(), {}, (), Path("settings.toml")))
    dialog.show()
    settle()
    dialog.grab().save(str(folder / f"first-run-{desktop.name}.png"))
    dialog.close()


PICTURES: list[Callable[[Desktop, Path], None]] = [states, menu, tooltip, first_run]


def main() -> None:
    """Take all pictures, in both colours."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "resources" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    with display() as screen, tray_host.window_manager(screen), tempfile.TemporaryDirectory() as temporary:
        os.environ.update(DISPLAY=screen, QT_QPA_PLATFORM="xcb", DBUS_SESSION_BUS_ADDRESS="disabled:")
        application = QApplication(["zat-scs"])
        for dark in (False, True):
            desktop = Desktop(screen, dark=dark)
            application.setPalette(theme.palette(desktop.colours))  # this desktop has no light or dark of its own
            with tray_host.panel(screen, Path(temporary), desktop.panel):
                for take in PICTURES:
                    take(desktop, folder)
        application.shutdown()


if __name__ == "__main__":
    main()
