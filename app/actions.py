"""Everything that a person can ask for: each action once, shown by the tray's menu and by the window's."""

from typing import Final

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from app import texts
from engine.events import Snapshot, State

PREPARE_KEYS: Final = "Ctrl+Alt+Shift+P"
PAUSES: Final = (15 * 60.0, 60 * 60.0, None)  # seconds; None: until resumed


class Actions(QObject):
    """The actions, as attributes; whoever acts connects to their `triggered`.

    `status` is no action but the state as a sentence, which is why it cannot be clicked. `menu_groups`: the same
    actions by the titles of a window's menus.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.status = self._add(self.tr("Starting…"))
        self.status.setEnabled(False)
        self.setup = self._add(self.tr("Set up…"))
        self.prepare = self._add(self.tr("&Prepare now"))
        self.give_back = self._add(self.tr("&Give the card back now"))
        self.window = self._add(self.tr("Show &window"))
        self.pauses = (
            self._add(self.tr("Pause for &15 minutes")),
            self._add(self.tr("Pause for an &hour")),
            self._add(self.tr("Pause &until resumed")),
        )
        self.resume = self._add(self.tr("&Resume"))
        self.microphone = self._add(self.tr("&Microphone"), checkable=True)
        self.benchmark = self._add(self.tr("Run &benchmark…"))
        self.stress = self._add(self.tr("Run s&tress test…"))
        self.settings = self._add(self.tr("&Settings…"))
        self.autostart = self._add(self.tr("Start on &login"), checkable=True)
        self.forget = self._add(self.tr("&Forget saved contexts…"))
        self.forget_habits = self._add(self.tr("Forget w&hat was learned…"))
        self.logs = self._add(self.tr("Open l&og folder"))
        self.about = self._add(self.tr("About &ZAT-SCS"))
        self.quit = self._add(self.tr("&Quit"))
        self.settings.setMenuRole(QAction.MenuRole.PreferencesRole)  # where a Mac looks for them
        self.about.setMenuRole(QAction.MenuRole.AboutRole)
        self.quit.setMenuRole(QAction.MenuRole.QuitRole)
        self.setup.setVisible(False)
        self.resume.setVisible(False)
        self.give_back.setVisible(False)
        self._pause_menus: list[QMenu] = []
        self.menu_groups: list[tuple[str, list[QAction]]] = [
            (self.tr("&Engine"), [self.setup, self.prepare, self.give_back, *self.pauses, self.resume, self.quit]),
            (self.tr("&Tools"), [self.benchmark, self.stress, self.forget, self.forget_habits, self.logs]),
            (self.tr("Sett&ings"), [self.settings, self.microphone, self.autostart]),
            (self.tr("&Help"), [self.about]),
        ]

    def fill(self, menu: QMenu) -> None:
        """Put all of them into a menu, in the order in which they are wanted."""
        menu.addAction(self.status)
        menu.addSeparator()
        menu.addActions((self.setup, self.prepare, self.give_back, self.window))
        pause = menu.addMenu(self.tr("P&ause"))  # of its own for each menu: a system's menu takes none twice
        pause.addActions(self.pauses)
        self._pause_menus.append(pause)
        menu.addActions((self.resume, self.microphone))
        menu.addSeparator()
        menu.addActions((self.benchmark, self.stress, self.forget, self.forget_habits))
        menu.addSeparator()
        menu.addActions((self.settings, self.autostart, self.logs, self.about))
        menu.addSeparator()
        menu.addAction(self.quit)

    def render(self, snapshot: Snapshot, *, answered: bool = True) -> None:
        """Show what can be asked for now."""
        before = "" if answered else self.tr("Not set up yet. ")
        _set_text(self.status, before + texts.sentence(snapshot))
        prepared = snapshot.state is State.SPECULATIVE_PREPARED
        self.prepare.setEnabled(snapshot.state is State.COLD_IDLE and not snapshot.paused)
        self.give_back.setVisible(prepared or (snapshot.state is State.COLD_IDLE and snapshot.background_share < 100))
        self.resume.setVisible(snapshot.paused)
        if snapshot.paused and snapshot.paused_for is not None:
            left = self.tr("&Resume (paused for another {time})").format(time=texts.duration(snapshot.paused_for))
        else:
            left = self.tr("&Resume")
        _set_text(self.resume, left)
        for action in (*self.pauses, *(menu.menuAction() for menu in self._pause_menus)):
            action.setVisible(not snapshot.paused)

    def show_key(self, *, works: bool) -> None:
        """Name the key for preparing only where it works in every window; a menu that names it promises that."""
        self.prepare.setShortcut(QKeySequence(PREPARE_KEYS) if works else QKeySequence())

    def show_set_up(self, *, answered: bool) -> None:
        """Offer the first questions again for as long as they are not answered."""
        self.setup.setVisible(not answered)

    def _add(self, text: str, *, checkable: bool = False) -> QAction:
        action = QAction(text, self)
        action.setCheckable(checkable)
        action.setMenuRole(QAction.MenuRole.NoRole)
        return action


def _set_text(action: QAction, text: str) -> None:
    """Change a text only where it differs: each change goes to the desktop."""
    if action.text() != text:
        action.setText(text)
