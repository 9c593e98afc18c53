"""Runs the stress test as a process of its own and shows what it prints."""

from PySide6.QtCore import QProcess
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app import theme
from app.fitting import open_at
from engine import itself

_GIVE_BACK = 10_000  # ms for it to end politely


class StressDialog(QDialog):
    """Starts at once; closing it ends the test, which gives everything back."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("ZAT-SCS: stress test"))
        open_at(self, 720, 420)
        theme.follow(self)
        self._state = QLabel(self.tr("Running; this takes about a quarter of an hour."))
        self._text = QPlainTextEdit(readOnly=True)
        self._text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._text.setAccessibleName(self.tr("What the stress test says"))
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for widget in (self._state, self._text, buttons):
            layout.addWidget(widget)
        self._process = QProcess(self)
        self._process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        self._process.readyRead.connect(self._read)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._broke)
        words = itself.told("stress")
        self._process.start(words[0], words[1:])

    def done(self, result: int) -> None:
        """End the test with the dialog."""
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._process.terminate()
            if not self._process.waitForFinished(_GIVE_BACK):
                self._process.kill()
        super().done(result)

    def _read(self) -> None:
        self._text.appendPlainText(bytes(self._process.readAll().data()).decode("utf-8", errors="replace").rstrip("\n"))

    def _finished(self, code: int) -> None:
        self._state.setText(self.tr("Passed.") if code == 0 else self.tr("Failed, with exit code {}.").format(code))

    def _broke(self) -> None:
        if self._process.state() == QProcess.ProcessState.NotRunning:
            self._state.setText(self.tr("Ended: {reason}").format(reason=self._process.errorString()))
