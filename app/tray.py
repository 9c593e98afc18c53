"""The icon in the desktop's tray: made only once there is a tray, for an icon made too early may never appear."""

import sys

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from app import icons, texts, theme
from app.actions import Actions
from engine.events import Snapshot

LOOK_EVERY = 1.0  # s
PATIENCE = 30.0  # s without a tray after which a window is shown instead
LONGEST_TIP = 127 if sys.platform == "win32" else 2000  # characters; Windows cuts the rest off
_TIP_EVERY = 1.0  # s


class Tray(QObject):
    """Shows the state as an icon, with a tooltip and the menu, wherever a tray comes up, however late.

    `patience`: s until `missing` is emitted. An icon that is there once comes back with its tray by itself.
    """

    appeared = Signal()
    missing = Signal()
    opened = Signal()  # a plain click

    def __init__(self, actions: Actions, parent: QObject | None = None, *, patience: float = PATIENCE) -> None:
        super().__init__(parent)
        self._actions = actions
        self._looks_left = round(patience / LOOK_EVERY)
        self._patience = self._looks_left
        self._icon: QSystemTrayIcon | None = None
        self._menu: QMenu | None = None
        self._host = False
        self._mark = icons.mark(None, answered=True)
        self._tip = "ZAT-SCS"
        self._tip_at = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(round(LOOK_EVERY * 1000))
        self._timer.timeout.connect(self.look)

    @property
    def there(self) -> bool:
        """Whether a tray shows the icon, as far as can be known."""
        return self._host and self._icon is not None

    def start(self) -> None:
        """Look for a tray now, and every second from now on."""
        self.look()
        self._timer.start()

    def stop(self) -> None:
        """Take the icon away; some desktops would keep it."""
        self._timer.stop()
        if self._icon is not None:
            self._icon.hide()

    def look(self) -> None:
        """Make the icon if there is a tray by now; lose patience if there is none for long."""
        before, self._host = self._host, QSystemTrayIcon.isSystemTrayAvailable()
        if self._host:
            self._looks_left = self._patience
            if self._icon is None:
                self._make()
            if not before:
                self.appeared.emit()
            return
        self._looks_left -= 1
        if self._looks_left == 0:
            self.missing.emit()

    def render(self, snapshot: Snapshot | None, *, answered: bool) -> None:
        """Show how things are; no snapshot: nothing is known yet."""
        mark = icons.mark(snapshot, answered=answered)
        changed = mark != self._mark
        self._mark = mark
        if changed and self._icon is not None:
            self._icon.setIcon(icons.icon(mark))
        at = snapshot.at if snapshot else 0.0
        if changed or not 0.0 <= at - self._tip_at < _TIP_EVERY:  # in between only its figures differ
            self._tip_at = at
            known = texts.tooltip(snapshot) if snapshot else "ZAT-SCS"
            self._show_tip(known if answered else self.tr("ZAT-SCS: not set up yet, nothing is sensed"))

    def tell(self, title: str, text: str) -> bool:
        """Show a notification; False where there is no tray to show it by."""
        if self._icon is None or not self.there:
            return False
        self._icon.showMessage(title, text, icons.icon(icons.APP))
        return True

    def _show_tip(self, text: str) -> None:
        text = text[:LONGEST_TIP]
        if text != self._tip:
            self._tip = text
            if self._icon is not None:
                self._icon.setToolTip(text)

    def _make(self) -> None:
        self._menu = QMenu()
        theme.follow(self._menu)
        self._actions.fill(self._menu)
        self._icon = QSystemTrayIcon(icons.icon(self._mark), self)
        self._icon.setContextMenu(self._menu)
        self._icon.setToolTip(self._tip)
        self._icon.activated.connect(self._activated)
        self._icon.show()

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self.opened.emit()
