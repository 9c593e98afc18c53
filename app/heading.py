"""The status window's heading: the state as a picture, in words, and with what it rests on."""

from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app import icons, texts, theme
from app.meters import show
from app.steady import Steady
from engine.events import Snapshot


class Heading(QWidget):
    """The state as a picture, in words, and with its figures."""

    def __init__(self) -> None:
        super().__init__()
        self._picture = QLabel()
        self._title = theme.label("", "title", wrap=False)
        self._sentence = Steady(theme.label("", "muted"))  # it may count seconds
        self._because = theme.label("", "muted", wrap=False)
        kept = self._because.sizePolicy()
        kept.setRetainSizeWhenHidden(True)  # what stands below would jump with each preparation
        kept.setHorizontalPolicy(QSizePolicy.Policy.Ignored)
        self._because.setSizePolicy(kept)
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
