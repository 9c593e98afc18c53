"""One setting in the dialog: title, editor, help, reset, what is wrong with it, and what is offered beside it."""

import re
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app import theme
from app.editors import editor
from app.picker import ProcessPicker, ServerTest, programs
from engine.config.settings import Settings, specs
from engine.config.spec import Spec
from engine.errors import SettingsError


class SettingRow(QWidget):
    """Shows one declaration. `locked`: why it cannot be changed here, empty if it can."""

    changed = Signal()
    test_asked = Signal(object)

    def __init__(self, spec: Spec, locked: str) -> None:
        super().__init__()
        self._spec = spec
        self.locked = bool(locked)
        self.editor = editor(spec)
        self._field = cast("QWidget", self.editor)
        self._error = theme.label("", "bad")
        self._answer = theme.label("", "muted")
        self._picker: ProcessPicker | None = None
        self._reset = QPushButton(self.tr("Reset"))
        self._reset.setProperty("role", "link")
        self._reset.setToolTip(self.tr("Default: {value}").format(value=spec.show(spec.default) or self.tr("empty")))
        self._reset.setAccessibleName(self.tr("Reset {title}").format(title=spec.title))
        self._reset.clicked.connect(self.reset)
        self._test: ServerTest | None = None
        self._arrange(locked)
        self._field.setEnabled(not self.locked)
        self.editor.changed.connect(self._changed)
        self._changed()

    def _arrange(self, locked: str) -> None:
        title = QLabel(self._spec.title)
        title.setProperty("role", "headline")
        title.setBuddy(self._field)
        line = QHBoxLayout()
        line.setSpacing(10)
        line.addWidget(self._field)
        if self._spec.hint and not locked:
            line.addWidget(self._offer(self._spec.hint))
        line.addWidget(self._reset)
        line.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(5)
        column.addWidget(title)
        column.addLayout(line)
        column.addWidget(self._error)
        column.addWidget(self._answer)
        column.addWidget(theme.label(self._help(), "muted"))
        if locked:
            column.addWidget(theme.label(locked))
        self._answer.hide()

    def _help(self) -> str:
        """Return the help, with what is allowed, what a change does, and what messages and documents call it."""
        parts = [self._spec.help]
        if self._spec.low is not None:
            parts.append(self.tr("Allowed: {allowed}.").format(allowed=self._spec.allowed))
        if not self._spec.live:
            parts.append(self.tr("↻ A change gives the job back first, then reopens this part."))
        parts.append(self.tr("In settings.toml: {name}.").format(name=self._spec.name))
        return " ".join(parts)

    def _offer(self, hint: str) -> QPushButton:
        if hint == "server":
            self._test = ServerTest()
            self._test.clicked.connect(self._ask_for_test)
            self._test.said.connect(self._said)
            return self._test
        button = QPushButton(self.tr("Choose…"))
        button.setProperty("role", "small")
        button.clicked.connect(self.pick)
        return button

    # ---- what the dialog calls ---------------------------------------------------------------------------------------

    def check(self) -> str:
        """Say what is wrong with the value in the field, nothing if it is allowed."""
        try:
            self._spec.check(self.editor.value())
        except SettingsError as error:
            return str(error)
        return ""

    def show_error(self, message: str) -> None:
        """Show what is wrong beside the field, with settings called as they are called here."""
        for spec in specs():
            message = re.sub(rf"\b{spec.name}\b", f"“{spec.title}”", message)
        self._error.setText(f"✗ {message}" if message else "")
        self._error.setVisible(bool(message))
        self._field.setAccessibleDescription(message or self._spec.help)

    def reset(self) -> None:
        """Put the default into the field, unless it is locked."""
        if not self.locked:
            self.editor.set_value(self._spec.default)

    def test(self, settings: Settings) -> None:
        """Ask the server that these settings name."""
        if self._test:
            self._test.ask(settings)

    # ---- slots -------------------------------------------------------------------------------------------------------

    def pick(self) -> None:
        """Offer the programs that run now."""
        self._picker = ProcessPicker(programs(), self)
        self._picker.chosen.connect(self.editor.set_value)
        self._picker.open()

    def _changed(self) -> None:
        self._reset.setEnabled(not self.locked and self.editor.value() != self._spec.default)
        self._answer.hide()
        self.changed.emit()

    def _ask_for_test(self) -> None:
        self.test_asked.emit(self)

    def _said(self, sentence: str, good: bool) -> None:
        self._answer.setText(sentence)
        theme.play(self._answer, "good" if good else "bad")
        self._answer.show()
