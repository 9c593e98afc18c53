"""Joins engine, tray, window and dialogs: every action lands here, and the engine hears of it by an event."""

import importlib.util
import logging
from collections import deque
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QSessionManager

from app import icons
from app.actions import PAUSES, Actions
from app.autostart import Autostart
from app.dialogs import Dialogs, key_in_words
from app.forgetting import Forgetting
from app.host import Host
from app.hotkey import HotKey
from app.notices import Notices
from app.preferences import Preferences
from app.tray import PATIENCE, Tray
from engine.config import store
from engine.config.store import Loaded
from engine.errors import ZatError
from engine.events import (
    Event,
    Paused,
    PrepareRequested,
    ReleaseRequested,
    Resumed,
    SettingsChanged,
    Snapshot,
)

if TYPE_CHECKING:
    from app.window import StatusWindow

log = logging.getLogger(__name__)

PAST = 3000  # snapshots kept for the plot of a window that is opened later: five minutes


class Shell(QObject):
    """The desktop side of the program. `on_login`: started by the login, so nothing may pop up.

    `patience`: s without a tray before the window is opened.
    """

    def __init__(
        self, loaded: Loaded, host: Host, autostart: Autostart, *, on_login: bool = False, patience: float = PATIENCE
    ) -> None:
        super().__init__()
        self._host = host
        self._autostart = autostart
        self._on_login = on_login
        self._last: Snapshot | None = None
        self._past: deque[Snapshot] = deque(maxlen=PAST)
        self.window: StatusWindow | None = None
        self.preferences = Preferences(loaded, self)
        self.actions = Actions(self)
        self.tray = Tray(self.actions, self, patience=patience)
        self.notices = Notices(self)
        self.dialogs = Dialogs(self)
        self._forgetting = Forgetting(self.dialogs, self._post, self._tell, self)
        self.hotkey = HotKey(self)
        self._connect()

    def start(self) -> None:
        """Show the icon first, then let the engine begin."""
        self._show_settings()
        self.tray.start()
        QTimer.singleShot(0, self._begin)

    def close(self) -> None:
        """Give the card back, then take everything away."""
        if self.window is not None:
            self.window.hide()
        self.dialogs.close()
        self.hotkey.stop()
        self._host.close()
        self.tray.stop()

    def quit(self) -> None:
        """End the program; no window can refuse, as it could with the one of Qt."""
        QCoreApplication.exit(0)

    def raise_window(self) -> None:
        """Show the status window in front of the others."""
        window = self._window()
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.show()
        window.raise_()
        window.activateWindow()

    def on_logout(self, manager: QSessionManager) -> None:
        """Give the card back when the session is about to end; should it go on after all, so does the engine."""
        manager.setRestartHint(QSessionManager.RestartHint.RestartNever)  # the login starts us, if it should
        self._post(ReleaseRequested())

    def _connect(self) -> None:
        """Connect bound methods only: they run on the main thread, whoever emits."""
        host, actions, tray = self._host, self.actions, self.tray
        host.seen.connect(self._seen)
        host.failed.connect(self._failed)
        host.opened.connect(self._opened)
        host.show_asked.connect(self.raise_window)
        host.quit_asked.connect(self.quit)
        tray.appeared.connect(self._tray_appeared)
        tray.missing.connect(self._tray_missing)
        tray.opened.connect(self._open)
        self.preferences.changed.connect(self._settings_changed)
        self.preferences.refused.connect(self._refused)
        self.notices.said.connect(self._tell)
        self.hotkey.pressed.connect(self._prepare)
        self.hotkey.settled.connect(self._show_key)
        for action, slot in (
            (actions.setup, self._ask),
            (actions.prepare, self._prepare),
            (actions.give_back, self._give_back),
            (actions.window, self.raise_window),
            *((pause, self._pause) for pause in actions.pauses),
            (actions.resume, self._resume),
            (actions.microphone, self.preferences.set_microphone),
            (actions.benchmark, self._benchmark),
            (actions.stress, self.dialogs.stress),
            (actions.settings, self._edit_settings),
            (actions.autostart, self._switch_autostart),
            (actions.forget, self._forgetting.contexts),
            (actions.forget_habits, self._forgetting.habits),
            (actions.logs, self._logs),
            (actions.about, self._about),
            (actions.quit, self.quit),
        ):
            action.triggered.connect(slot)

    # ---- the engine --------------------------------------------------------------------------------------------------

    @property
    def answered(self) -> bool:
        """Whether it is settled what may be sensed; an engine of another process goes by its own settings."""
        return self.preferences.answered or self._host.remote

    def _begin(self) -> None:
        self._host.open(self.preferences.in_force)
        self.hotkey.start()
        try:
            self._autostart.refresh()
        except OSError as error:
            log.warning("the entry for the login could not be put right: %s", error)

    def _opened(self) -> None:
        self._show_settings()
        if not self.answered and not self._on_login:
            self._ask()

    def _seen(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self.actions.render(snapshot, answered=self.answered)
        self.tray.render(snapshot, answered=self.answered)
        self.notices.watch(snapshot)
        if self.window is None:
            self._past.append(snapshot)
        else:
            self.window.render(snapshot)

    def _post(self, event: Event) -> None:
        try:
            self._host.post(event)
        except ZatError as error:
            self._tell("ZAT-SCS", str(error))

    def _settings_changed(self) -> None:
        """Let them be in force, here and in the engine."""
        self._show_settings()
        if self.window is not None:
            self.window.set_loaded(self.preferences.loaded)
        if self._host.remote:
            self._tell("ZAT-SCS", self.tr("Saved. The engine that runs outside of the tray reads it when it starts."))
        else:
            self._post(SettingsChanged(self.preferences.in_force))

    # ---- what a person asks for --------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self.dialogs.first_run(self.preferences.loaded, self.preferences.take_answer)

    def _open(self) -> None:
        if self.answered:
            self.raise_window()
        else:
            self._ask()

    def _prepare(self) -> None:
        self._post(PrepareRequested())

    def _give_back(self) -> None:
        self._post(ReleaseRequested())

    def _pause(self) -> None:
        for action, seconds in zip(self.actions.pauses, PAUSES, strict=True):
            if action is self.sender():
                self._post(Paused(seconds))

    def _resume(self) -> None:
        self._post(Resumed())

    def _switch_autostart(self, on: bool) -> None:
        try:
            (self._autostart.on if on else self._autostart.off)()
        except OSError as error:
            self._tell("ZAT-SCS", str(error))
        self._show_settings()

    def _edit_settings(self) -> None:
        self.dialogs.settings(self.preferences.loaded, self.preferences.take)

    def _benchmark(self) -> None:
        self.dialogs.benchmark(self.preferences.loaded.settings, self._make_room)

    def _make_room(self, measuring: bool) -> None:
        """Rest while the benchmark measures the user's own server: an engine of its own does what ours would."""
        if measuring:
            self._host.close()
        else:
            self._host.open(self.preferences.in_force)
        if self.window is not None:
            self.window.show_reason(self.tr("The benchmark measures your server; ZAT-SCS rests.") if measuring else "")

    def _about(self) -> None:
        self.dialogs.about(self.hotkey.state)

    def _logs(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(store.state_folder() / "log")))

    # ---- what is shown -----------------------------------------------------------------------------------------------

    def _window(self) -> "StatusWindow":
        if self.window is None:
            from app.window import StatusWindow  # noqa: PLC0415 - many never open it

            self.window = StatusWindow(self.actions)
            self.window.setWindowIcon(icons.icon(icons.APP))
            self.window.set_loaded(self.preferences.loaded)
            for snapshot in self._past:
                self.window.render(snapshot)
            self._past.clear()
        return self.window

    def _show_settings(self) -> None:
        """Let the check marks say what is so, and who else has a say in it."""
        actions, preferences = self.actions, self.preferences
        outside = preferences.from_outside("MICROPHONE") or self._host.remote
        actions.microphone.setChecked(preferences.in_force.microphone)
        actions.microphone.setEnabled(preferences.answered and not outside)
        actions.autostart.setChecked(self._autostart.is_on())
        actions.show_set_up(answered=self.answered)
        there = importlib.util.find_spec("diagnostics.stress_test") is not None
        actions.stress.setEnabled(there)
        actions.stress.setToolTip("" if there else self.tr("The stress test is not part of this version"))
        self.tray.render(self._last, answered=self.answered)
        self.notices.check(preferences.loaded)

    def _show_key(self) -> None:
        self.actions.prepare.setToolTip(key_in_words(self, self.hotkey.state))
        self.actions.show_key(works=self.hotkey.state == "on")

    def _refused(self, reason: str) -> None:
        self._show_settings()
        self._tell("ZAT-SCS", reason)

    def _failed(self, reason: str) -> None:
        self._tell(self.tr("There is no engine at the moment"), reason)

    def _tell(self, title: str, text: str) -> None:
        log.info("%s: %s", title, text)
        if not self.tray.tell(title, text) and self.window is not None:
            self.window.show_reason(f"{title}: {text}")

    def _tray_missing(self) -> None:
        """Stand in for the tray with a window, whose end is then the end of the program."""
        self.raise_window()
        self._window().show_reason(
            self.tr(
                "This desktop shows no tray, so this window stands in for it; closing it ends ZAT-SCS. "
                "On GNOME, the extension “AppIndicator and KStatusNotifierItem Support” adds a tray."
            )
        )
        QGuiApplication.setQuitOnLastWindowClosed(True)

    def _tray_appeared(self) -> None:
        QGuiApplication.setQuitOnLastWindowClosed(False)
        if self.window is not None:
            self.window.show_reason("")
