"""Three bars: the time to the first token cold, prepared and warm, and how they compare."""

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme

_BAR = 26  # px
_ROW = 46


class Bars(QWidget):
    """Paints figures in the shape of `benchmark --json`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: list[tuple[str, float, bool]] = []
        self._ratios = ""
        self._empty = self.tr("Nothing measured yet.")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.draw(None)

    def draw(self, figures: Mapping[str, Any] | None) -> None:
        """Show these figures; None: none yet. What was not measured has no bar."""
        names = (("cold_ms", self.tr("Cold")), ("prepared_ms", self.tr("Prepared")), ("warm_ms", self.tr("Warm")))
        found = figures or {}
        self._rows = [
            (name, float(found[key]), key == "prepared_ms") for key, name in names if found.get(key) is not None
        ]
        self._ratios = self._in_words(found)
        spoken = [f"{name}: {_milliseconds(value)}" for name, value, _ in self._rows]
        self.setAccessibleName(". ".join([*spoken, self._ratios]) or self._empty)
        self.update()

    def _in_words(self, figures: Mapping[str, Any]) -> str:
        faster, rest = figures.get("cold_over_prepared"), figures.get("prepared_over_warm")
        sentences = []
        if faster is not None:
            sentences.append(self.tr("{ratio:.1f} times as fast as cold").format(ratio=faster))
        if rest is not None:
            sentences.append(self.tr("{ratio:.2f} times the time of warm").format(ratio=rest))
        return self.tr("Prepared: {ratios}").format(ratios=", ".join(sentences)) if sentences else ""

    def sizeHint(self) -> QSize:
        """Ask for room for three bars and a line."""
        return QSize(400, 4 * _ROW + 10)

    def minimumSizeHint(self) -> QSize:
        """Need no less."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the bars, longest first."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.of(self)
        if not self._rows:
            painter.setPen(QColor(colours.muted))
            painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self._empty)
            return
        metrics = self.fontMetrics()
        left = max(metrics.horizontalAdvance(name) for name, _, _ in self._rows) + 14
        right = max(metrics.horizontalAdvance(_milliseconds(value)) for _, value, _ in self._rows) + 14
        longest = max(value for _, value, _ in self._rows) or 1.0
        room = self.width() - left - right
        middle = Qt.AlignmentFlag.AlignVCenter
        for number, (name, value, ours) in enumerate(self._rows):
            top = number * _ROW + 10
            bar = QRectF(left, top, max(3.0, room * value / longest), _BAR)
            painter.setPen(QColor(colours.text))
            painter.drawText(QRectF(0, top, left, _BAR), middle, name)
            painter.drawText(QRectF(bar.right() + 10, top, right, _BAR), middle, _milliseconds(value))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.accent if ours else colours.muted))
            painter.drawRoundedRect(bar, 3, 3)
        self._paint_ratios(painter, len(self._rows) * _ROW + 10)

    def _paint_ratios(self, painter: QPainter, top: int) -> None:
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * 1.15)
        font.setWeight(QFont.Weight.DemiBold)
        painter.setFont(font)
        painter.setPen(QColor(theme.of(self).text))
        flags = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
        painter.drawText(QRectF(0, top, self.width(), self.height() - top), flags, self._ratios)


def _milliseconds(value: float) -> str:
    """Write a time with as many digits as it is known to."""
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"
