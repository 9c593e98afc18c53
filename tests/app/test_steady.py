"""Texts that change all the time: what stands around them is left alone."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QLabel, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.steady import Steady


class Layouts(QObject):
    """Counts how often a widget is asked to lay out what it holds."""

    def __init__(self, watched: QWidget) -> None:
        super().__init__()
        self.count = 0
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - overrides Qt's
        """Count, and let everything pass."""
        del watched
        self.count += event.type() is QEvent.Type.LayoutRequest
        return False


def test_around_it_all_is_laid_out_only_for_another_height(qtbot: QtBot) -> None:
    """Words of as many lines as before change nothing; more lines push down what stands below."""
    window, below = QWidget(), QLabel("below")
    qtbot.addWidget(window)
    steady = Steady(theme.label("in 12 s"))
    column = QVBoxLayout(window)
    for widget in (steady, below):
        column.addWidget(widget)
    column.addStretch(1)
    window.resize(200, 400)
    window.show()
    QApplication.processEvents()
    top, layouts = below.y(), Layouts(window)
    for seconds in range(11, 0, -1):
        steady.setText(f"in {seconds} s")
        QApplication.processEvents()
    assert (layouts.count, steady.text()) == (0, "in 1 s")
    steady.setText("a reason that is far too long for one line of this window, and for two of them as well")
    qtbot.waitUntil(lambda: below.y() > top, timeout=5000)
    assert layouts.count > 0
    steady.setText("in 1 s")
    qtbot.waitUntil(lambda: below.y() == top, timeout=5000)
