"""One part of the set-up page, and the lines to be copied that it offers."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QCoreApplication, Qt, QTimer
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app import theme

_TOP = Qt.AlignmentFlag.AlignTop


class Snippet(QWidget):
    """A text to be copied, of one line or several, with a button that does it. `about`: what it is for, spoken."""

    def __init__(self, text: str, about: str) -> None:
        super().__init__()
        self._text = text
        self._field = theme.label(text.rstrip(), "code")
        self._field.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self._field.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._field.setAccessibleName(about)
        self._button = QPushButton(self._words())
        self._button.setProperty("role", "small")
        self._button.setAccessibleName(self.tr("Copy: {about}").format(about=about))
        self._button.clicked.connect(self.copy)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._field, 1)
        row.addWidget(self._button, alignment=_TOP)

    def copy(self) -> None:
        """Put the text on the clipboard, and say so for a moment."""
        QGuiApplication.clipboard().setText(self._text)
        self._button.setText(QCoreApplication.translate("Snippet", "✓ Copied"))
        QTimer.singleShot(2000, self, self._rest)

    def _rest(self) -> None:
        self._button.setText(self._words())

    def _words(self) -> str:
        return self.tr("Copy")


class Step(QWidget):
    """One part of the set-up: done or not, what was found, and what is missing."""

    def __init__(self, name: str, facts: list[str], advice: list[dict[str, Any]], done: bool) -> None:
        super().__init__()
        self.done = done
        self._column = QVBoxLayout()
        self._column.setSpacing(6)
        sign = theme.label("✓" if done else "○", "good" if done else "muted", wrap=False)
        sign.setAccessibleName(self.tr("done") if done else self.tr("to do"))
        sign.setFixedWidth(22)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(sign)
        row.addLayout(self._column, 1)
        row.setAlignment(sign, _TOP)
        self._column.addWidget(theme.label(name, "headline"))
        for fact in facts:
            self.say(fact)
        for entry in advice:
            self._advise(entry)

    def say(self, text: str) -> None:
        """Add a line."""
        line = theme.label(text, "muted")
        line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._column.addWidget(line)

    def _advise(self, entry: Mapping[str, Any]) -> None:
        self._column.addSpacing(6)
        optional = self.tr("○ {what} (optional)").format(what=entry["what"])
        self._column.addWidget(theme.label(optional) if entry["optional"] else theme.label(f"✗ {entry['what']}", "bad"))
        self._column.addWidget(theme.label(entry["cost"]))
        if entry["fix"]:
            self._column.addWidget(Snippet(entry["fix"], entry["what"]))
        if entry["place"]:
            where = self.tr("{place}, or in settings.toml").format(place=entry["place"])
            self._column.addWidget(theme.label(where, "muted"))

    def offer(self, command: str, drop_in: str) -> None:
        """Offer all that the server lacks at once, where its command line is known."""
        for text, name in (
            (command, self.tr("Start it like this, with all of it at once")),
            (drop_in, self.tr("Or, where systemd starts it, with this drop-in")),
        ):
            if text:
                self._column.addSpacing(6)
                self._column.addWidget(theme.label(name))
                self._column.addWidget(Snippet(text, name))
