"""Texts that change all the time without moving, or even laying out, what stands around them."""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from app import theme


class Figure(QWidget):
    """A word at the right edge, whose room does not change with it. Where there is less than `widest` needs, it is cut.

    `narrowest`: what there is room for in any case.
    """

    def __init__(self, widest: str, narrowest: str) -> None:
        super().__init__()
        self._text = ""
        self._widest, self._narrowest = widest, narrowest
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Ask for room for the longest word."""
        return self._size_of(self._widest)

    def minimumSizeHint(self) -> QSize:
        """Need room for a number."""
        return self._size_of(self._narrowest)

    def _size_of(self, word: str) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance(word) + 4, self.fontMetrics().height())

    def text(self) -> str:
        """Return the word."""
        return self._text

    def set_text(self, text: str) -> None:
        """Show another word."""
        if text != self._text:
            self._text = text
            self.setAccessibleName(text)
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the word."""
        del event
        painter = QPainter(self)
        painter.setPen(QColor(theme.of(self).text))
        shown = self.fontMetrics().elidedText(self._text, Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, shown)


class Steady(QWidget):
    """Holds a label, but has no layout: around it all is laid out anew only when the words need another height."""

    def __init__(self, label: QLabel) -> None:
        super().__init__()
        self._label = label
        self._height = 0  # px that the words need at this width
        label.setParent(self)
        label.show()
        self.setSizePolicy(label.sizePolicy())

    def text(self) -> str:
        """Return the words."""
        return self._label.text()

    def setText(self, text: str) -> None:
        """Show other words."""
        self._label.setText(text)

    def sizeHint(self) -> QSize:
        """Ask for as much room as the label."""
        return self._label.sizeHint()

    def minimumSizeHint(self) -> QSize:
        """Need as much room as the label."""
        return self._label.minimumSizeHint()

    def hasHeightForWidth(self) -> bool:
        """Be as high as the words, broken into lines, want it."""
        return self._label.hasHeightForWidth()

    def heightForWidth(self, width: int) -> int:
        """Return the height that the words need."""
        return self._label.heightForWidth(width)

    def event(self, event: QEvent) -> bool:
        """Hear of it when the label's words have changed."""
        if event.type() is QEvent.Type.LayoutRequest and self.heightForWidth(self.width()) != self._height:
            self._height = self.heightForWidth(self.width())
            self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the label all there is."""
        super().resizeEvent(event)
        self._label.setGeometry(self.rect())
        self._height = self.heightForWidth(self.width())
