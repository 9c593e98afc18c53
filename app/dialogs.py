"""The dialogs: each at most once, none of them in the way of anything, imported when asked for."""

import importlib.metadata
from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QDialog, QMessageBox

from app import icons, theme
from app.actions import PREPARE_KEYS
from app.hotkey import COMMAND
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.config.store import Loaded


class Dialogs(QObject):
    """Opens dialogs, or brings the one that is open to the front. What comes of them goes to the functions given."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._open: dict[str, QDialog] = {}

    def first_run(self, loaded: Loaded, answered: Callable[[dict[str, Value]], None]) -> None:
        """Ask the questions of the first start."""
        from app.first_run import FirstRun  # noqa: PLC0415 - once in a life

        def make() -> QDialog:
            dialog = FirstRun(loaded)
            dialog.answered.connect(answered)
            return dialog

        self._show("first run", make)

    def settings(self, loaded: Loaded, applied: Callable[[Settings], None]) -> None:
        """Edit the settings."""
        from app.settings_dialog import SettingsDialog  # noqa: PLC0415

        def make() -> QDialog:
            dialog = SettingsDialog(loaded)
            dialog.applied.connect(applied)
            return dialog

        self._show("settings", make)

    def benchmark(self, settings: Settings, measuring: Callable[[bool], None]) -> None:
        """Run the benchmark; `measuring` is told when it comes to the user's own server, and when it leaves."""
        from app.benchmark_dialog import BenchmarkDialog  # noqa: PLC0415

        def make() -> QDialog:
            dialog = BenchmarkDialog(settings)
            dialog.measuring.connect(measuring)
            return dialog

        self._show("benchmark", make)

    def stress(self) -> None:
        """Run the stress test."""
        from app.stress_dialog import StressDialog  # noqa: PLC0415

        self._show("stress", StressDialog)

    def forget(self, confirmed: Callable[[], None]) -> None:
        """Ask whether saved contexts are to be deleted."""
        self._ask(
            "forget",
            self.tr("Delete all saved contexts?"),
            self.tr("After its next restart or sleep, the server reads conversations anew."),
            self.tr("&Delete"),
            confirmed,
        )

    def forget_habits(self, confirmed: Callable[[], None]) -> None:
        """Ask whether what was learned is to be forgotten."""
        self._ask(
            "forget habits",
            self.tr("Forget what was learned of your habits?"),
            self.tr("That is where prompts come from and what precedes them. It takes some days to be learned anew."),
            self.tr("&Forget"),
            confirmed,
        )

    def about(self, key_state: str) -> None:
        """Say what this is, which version, and how to prepare by a key."""

        def make() -> QDialog:
            box = QMessageBox()
            theme.follow(box)
            box.setIconPixmap(icons.pixmap(icons.APP, 64))
            box.setText(f"<b>ZAT-SCS {importlib.metadata.version('zat-scs')}</b>")
            what = self.tr("Frees the graphics card and restores the context before you press Enter.")
            promise = self.tr("It notices how you type and speak, never what. Nothing leaves this machine.")
            box.setInformativeText(f"<p>{what}</p><p>{promise}</p><p>{key_in_words(self, key_state)}</p>")
            return box

        self._show("about", make)

    def close(self) -> None:
        """Close all of them."""
        for dialog in self._open.values():
            dialog.close()

    def _ask(self, name: str, question: str, consequence: str, yes: str, confirmed: Callable[[], None]) -> None:
        def make() -> QDialog:
            box = QMessageBox()
            theme.follow(box)
            box.setIcon(QMessageBox.Icon.Question)
            box.setText(question)
            box.setInformativeText(consequence)
            box.addButton(yes, QMessageBox.ButtonRole.AcceptRole).clicked.connect(confirmed)
            box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
            return box

        self._show(name, make)

    def _show(self, name: str, make: Callable[[], QDialog]) -> None:
        dialog = self._open.get(name)
        # One that was closed while it ran may still be tidying up.
        if dialog is None or not (dialog.isVisible() or getattr(dialog, "running", False)):
            if dialog is not None:
                dialog.deleteLater()
            dialog = self._open[name] = make()
            dialog.setWindowIcon(icons.icon(icons.APP))
            if not dialog.windowTitle():
                dialog.setWindowTitle("ZAT-SCS")
        dialog.show()
        dialog.raise_()
        dialog.activateWindow()


def key_in_words(speaker: QObject, state: str) -> str:
    """Say by which key one prepares, or which command to bind to one."""
    if state == "on":
        return speaker.tr("{keys} prepares now, in every window.").format(keys=PREPARE_KEYS)
    reason = state.partition(": ")[2]
    text = speaker.tr("To prepare by a key, bind one to the command “{command}” in the settings of your desktop")
    return text.format(command=COMMAND) + (f" ({reason})." if reason else ".")
