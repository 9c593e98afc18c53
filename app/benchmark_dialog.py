"""Runs the benchmark in a process of its own, and shows cold, prepared and warm as bars with their ratios."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QProcess, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.bars import Bars
from engine import itself
from engine.config.settings import Settings

_PATIENCE: Final = 3000  # ms that a cancelled benchmark has to tidy up
_PROGRESS: Final = re.compile(r"progress (\d+) (\d+)")


class BenchmarkDialog(QDialog):
    """Measures against the stand-in, or the server of these settings; closing it cancels."""

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle(self.tr("Benchmark"))
        self.resize(620, 520)
        self.command = tuple(itself.told("benchmark", "--json"))
        self._figures: Mapping[str, Any] | None = None
        self._errors = ""
        self._cancelled = False
        self._process = QProcess(self)
        self._process.readyReadStandardError.connect(self._read_progress)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._failed)
        self._kill = QTimer(self)
        self._kill.setSingleShot(True)
        self._kill.setInterval(_PATIENCE)
        self._kill.timeout.connect(self._process.kill)
        self._build()
        theme.follow(self)
        self._idle()

    def _build(self) -> None:
        self._stand_in = QRadioButton(self.tr("The &stand-in: works anywhere, in a minute"))
        self._stand_in.setChecked(True)
        address = self._settings.server_url
        self._real = QRadioButton(self.tr("The &configured server, {address}").format(address=address))
        self._start = QPushButton(self.tr("&Run"))
        self._start.setProperty("role", "primary")
        self._start.clicked.connect(self.start)
        self._stop = QPushButton(self.tr("C&ancel"))
        self._stop.clicked.connect(self.cancel)
        self._copy = QPushButton(self.tr("&Copy"))
        self._copy.clicked.connect(self.copy)
        self._save = QPushButton(self.tr("&Save…"))
        self._save.clicked.connect(self._ask_where)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setAccessibleName(self.tr("Progress"))
        self._state = theme.label("", "muted")
        self._bars = Bars()
        self._arrange()

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 24, 24, 20)
        column.setSpacing(12)
        column.addWidget(theme.label(self.tr("Time to the first token"), "title"))
        text = self.tr(
            "Cold: the job holds the card and the context is lost. Prepared: as ZAT-SCS leaves it. "
            "Warm: as good as it gets."
        )
        column.addWidget(theme.label(text, "muted"))
        column.addWidget(self._stand_in)
        column.addWidget(self._real)
        run = QHBoxLayout()
        run.addWidget(self._start)
        run.addWidget(self._stop)
        run.addWidget(self._state, 1)
        column.addLayout(run)
        column.addWidget(self._progress)
        column.addWidget(self._bars, 1)
        below = QHBoxLayout()
        below.addStretch(1)
        below.addWidget(self._copy)
        below.addWidget(self._save)
        column.addLayout(below)

    # ---- running -----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Tell whether the benchmark is at work."""
        return self._process.state() is not QProcess.ProcessState.NotRunning

    def start(self) -> None:
        """Begin to measure."""
        if self.running:
            return
        self._figures, self._errors, self._cancelled = None, "", False
        server = ["--server", self._settings.server_url] if self._real.isChecked() else []
        self._progress.setRange(0, 0)
        self._progress.show()
        self._bars.draw(None)
        self._say(self.tr("Measuring…"), "muted")
        self._process.start(self.command[0], [*self.command[1:], *server])
        self._show_running()

    def cancel(self) -> None:
        """Stop it; what does not stop within three seconds is killed."""
        if self.running:
            self._cancelled = True
            self._say(self.tr("Stopping…"), "muted")
            self._process.terminate()
            self._kill.start()

    def _read_progress(self) -> None:
        text = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
        self._errors = (self._errors + text)[-4000:]
        steps = _PROGRESS.findall(self._errors)
        if steps and not self._cancelled:
            done, all_ = map(int, steps[-1])
            self._progress.setRange(0, all_)
            self._progress.setValue(done)
            self._say(self.tr("Measuring: {done} of {all}").format(done=done, all=all_), "muted")

    def _finished(self) -> None:
        self._kill.stop()
        self._read_progress()
        answer = bytes(self._process.readAllStandardOutput().data()).decode("utf-8", "replace")
        self._idle()
        if self._cancelled:
            self._say(self.tr("Cancelled."), "muted")
            return
        try:
            figures = json.loads(answer)
        except ValueError:
            self._say(self.tr("✗ It ended without a result. {reason}").format(reason=self._reason()), "bad")
            return
        self.show_figures(figures)

    def _failed(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._idle()
            self._say(self.tr("✗ It cannot be started: {reason}").format(reason=self._process.errorString()), "bad")

    def _reason(self) -> str:
        """Return the last line that it wrote for people."""
        lines = [line.strip() for line in self._errors.splitlines() if not _PROGRESS.match(line)]
        return next((line for line in reversed(lines) if line), "")

    # ---- showing -----------------------------------------------------------------------------------------------------

    def show_figures(self, figures: Mapping[str, Any]) -> None:
        """Show what was measured, in the shape of `benchmark --json`."""
        self._figures = figures
        self._bars.draw(figures)
        self._idle()
        if figures["cold_over_prepared"] is None:
            self._say(self.tr("✗ The runs cannot be compared. {reason}").format(reason=self._reason()), "bad")
        else:
            text = self.tr("✓ {server}, {tokens} tokens, {runs} runs each; medians")
            self._say(text.format(**{name: figures[name] for name in ("server", "tokens", "runs")}), "good")

    def _idle(self) -> None:
        self._progress.hide()
        self._show_running()

    def _show_running(self) -> None:
        for widget in (self._start, self._stand_in, self._real):
            widget.setEnabled(not self.running)
        self._stop.setEnabled(self.running)
        for button in (self._copy, self._save):
            button.setEnabled(self._figures is not None)

    def _say(self, text: str, role: str) -> None:
        self._state.setText(text)
        theme.play(self._state, role)

    # ---- keeping -----------------------------------------------------------------------------------------------------

    def copy(self) -> None:
        """Put the figures on the clipboard, as JSON."""
        QGuiApplication.clipboard().setText(self._as_text())
        self._say(self.tr("✓ Copied"), "good")

    def save(self, file: Path) -> None:
        """Write the figures to a file, as JSON."""
        try:
            file.write_text(self._as_text(), "utf-8")
        except OSError as error:
            self._say(self.tr("✗ Not written: {reason}").format(reason=error.strerror), "bad")
        else:
            self._say(self.tr("✓ Written to {file}").format(file=file), "good")

    def _as_text(self) -> str:
        return json.dumps(self._figures, indent=2) + "\n"

    def _ask_where(self) -> None:
        dialog = QFileDialog(self, self.tr("Save the figures"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile("benchmark.json")
        dialog.fileSelected.connect(self._chosen)
        dialog.open()

    def _chosen(self, file: str) -> None:
        self.save(Path(file))

    def reject(self) -> None:
        """Close, and leave nothing running behind."""
        self.cancel()
        super().reject()
