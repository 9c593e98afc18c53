"""The status window's heading: the state as a picture, in words, and with what it rests on."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app import icons, texts, theme
from app.meters import show
from app.steady import Steady
from engine.events import Snapshot


class _Line(QLabel):
    """One line in a muted colour: as much of it as there is room for, all of it as a tooltip."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "muted")
        self.setTextFormat(Qt.TextFormat.PlainText)
        kept = self.sizePolicy()
        kept.setRetainSizeWhenHidden(True)  # what stands below would jump with each preparation
        kept.setHorizontalPolicy(QSizePolicy.Policy.Ignored)
        self.setSizePolicy(kept)

    def setText(self, text: str) -> None:
        """Show other words."""
        super().setText(text)
        self.setToolTip(text)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint what there is room for."""
        del event
        area = self.contentsRect()
        shown = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, area.width())
        at = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        self.style().drawItemText(
            QPainter(self), area, at, self.palette(), self.isEnabled(), shown, self.foregroundRole()
        )


class Heading(QWidget):
    """The state as a picture, in words, and with its figures."""

    def __init__(self) -> None:
        super().__init__()
        self._picture = QLabel()
        self._title = theme.label("", "title", wrap=False)
        self._sentence = Steady(theme.label("", "muted"))  # it may count seconds
        self._because = _Line()
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._sentence)
        words.addWidget(self._because)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(14)
        row.addWidget(self._picture)
        row.addLayout(words, 1)
        self._shown = ""

    def draw(self, snapshot: Snapshot | None) -> None:
        """Show this snapshot; None: the engine has not begun."""
        name = icons.mark(snapshot, answered=True)
        if name != self._shown:
            self._shown = name
            self._picture.setPixmap(icons.icon(name).pixmap(44, 44))
        show(self._title, texts.title(snapshot) if snapshot else self.tr("Starting"))
        show(self._sentence, texts.sentence(snapshot) if snapshot else self.tr("Waiting for the engine."))
        show(self._because, texts.because(snapshot) if snapshot else "")
