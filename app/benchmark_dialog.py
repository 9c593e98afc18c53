"""Runs the benchmark in a process of its own, and shows cold, prepared and warm as bars with their ratios."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QCoreApplication, QProcess, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.bars import Bars
from app.fitting import Scroll, open_at
from engine import daemon, itself
from engine.config.settings import Settings
from engine.config.store import state_folder

_PATIENCE: Final = 3000  # ms that a cancelled benchmark has to tidy up
_PATIENCE_AS_GUEST: Final = 70_000  # ms: restoring what a slot of the user's held may take a minute
_PATIENCE_AT_THE_END: Final = 5000  # ms that the end of this program waits for it
_PROGRESS: Final = re.compile(r"progress (\d+) (\d+)")


class BenchmarkDialog(QDialog):
    """Measures against the stand-in, or the server of these settings; closing it cancels.

    `measuring`: True before prompts go to the user's server, False after. No engine may take part meanwhile.
    """

    measuring = Signal(bool)

    def __init__(self, settings: Settings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self.setWindowTitle(self.tr("Benchmark"))
        self.command = tuple(itself.told("benchmark", "--json"))
        self._figures: Mapping[str, Any] | None = None
        self._errors = ""
        self._cancelled = False
        self._as_guest = False
        self._process = QProcess(self)
        self._process.readyReadStandardError.connect(self._read_progress)
        self._process.finished.connect(self._finished)
        self._process.errorOccurred.connect(self._failed)
        self._kill = QTimer(self)
        self._kill.setSingleShot(True)
        self._kill.timeout.connect(self._process.kill)
        self._question: QMessageBox | None = None
        program = QCoreApplication.instance()
        if program is not None:
            program.aboutToQuit.connect(self._leave)
        self._build()
        theme.follow(self)
        self._idle()
        wanted = self.sizeHint()  # what scrolls asks for all its room here, and does without it on a small screen
        open_at(self, max(620, wanted.width()), max(520, wanted.height()))

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
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(24, 24, 24, 12)
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
        below.setContentsMargins(24, 8, 24, 20)
        below.addStretch(1)
        below.addWidget(self._copy)
        below.addWidget(self._save)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(Scroll(page), 1)
        whole.addLayout(below)

    # ---- running -----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Tell whether the benchmark is at work."""
        return self._process.state() is not QProcess.ProcessState.NotRunning

    def start(self) -> None:
        """Begin to measure; on the user's own server only once that was agreed to."""
        if self.running:
            return
        if not self._real.isChecked():
            self._run(as_guest=False)
        elif daemon.running(state_folder()) in (None, os.getpid()):
            self._ask()
        else:  # it would refuse by itself, but only after it was agreed to
            self._say(self.tr("✗ The engine that runs outside of this program would take part: end it first."), "bad")

    def _ask(self) -> None:
        """Say what will be done to the user's server; nothing is started unless they agree."""
        from diagnostics.bench_users import SLOT  # noqa: PLC0415 - brings the whole benchmark, for one number

        box = self._question = QMessageBox(self)
        box.setIcon(QMessageBox.Icon.Question)
        box.setText(self.tr("Measure on {address}?").format(address=self._settings.server_url))
        box.setInformativeText(
            self.tr(
                "The benchmark sends prompts of its own to slot {slot} of that server. What the slot holds is saved "
                "before and restored after. A server without --slot-save-path cannot save it: then it is lost. "
                "Meanwhile nothing is foreseen, and no job held but the benchmark's own."
            ).format(slot=SLOT)
        )
        box.addButton(self.tr("&Measure"), QMessageBox.ButtonRole.AcceptRole).clicked.connect(self._run_as_guest)
        box.setDefaultButton(box.addButton(QMessageBox.StandardButton.Cancel))
        box.open()

    def _run_as_guest(self) -> None:
        self._run(as_guest=True)

    def _run(self, *, as_guest: bool) -> None:
        self._figures, self._errors, self._cancelled = None, "", False
        self._as_guest = as_guest
        if as_guest:
            self.measuring.emit(True)
        server = ["--server", self._settings.server_url, "--yes"] if as_guest else []
        self._progress.setRange(0, 0)
        self._progress.show()
        self._bars.draw(None)
        self._say(self.tr("Measuring…"), "muted")
        self._process.start(self.command[0], [*self.command[1:], *server])
        self._show_running()

    def cancel(self) -> None:
        """Stop it; what does not stop is killed after a while, which is longer where a slot is to be given back."""
        if self.running:
            self._cancelled = True
            self._say(self.tr("Stopping…"), "muted")
            self._process.terminate()
            self._kill.start(_PATIENCE_AS_GUEST if self._as_guest else _PATIENCE)

    def _leave(self) -> None:
        """Let it tidy up before this program ends; killed, it would leave its own prompts in the user's slot."""
        self._as_guest = False  # nobody needs to make use of the room that it leaves
        self.cancel()
        self._process.waitForFinished(_PATIENCE_AT_THE_END)

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
        self._make_room()
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
            self._make_room()
            self._idle()
            self._say(self.tr("✗ It cannot be started: {reason}").format(reason=self._process.errorString()), "bad")

    def _make_room(self) -> None:
        if self._as_guest:
            self._as_guest = False
            self.measuring.emit(False)

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
