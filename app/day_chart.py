"""A bar a day: upwards the seconds saved, downwards the minutes of background work given up for them."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QDate, QEvent, QLocale, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.stats import number
from engine.account import Day

_BAR: Final = 28.0  # px at most
_LABEL: Final = 20.0  # px: the height of a line of small type
_FOOT: Final = 26.0  # px: the days' names
_LEFT: Final = 84.0  # px: what each side means
_BETWEEN: Final = 4.0  # px at least between the figures of two days


class DayChart(QWidget):
    """Paints the last days, oldest first; the last one is today. Saving and cost have a scale each, from zero."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._days: Sequence[Day] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(self.tr("Seconds saved and minutes of background work given up, by day"))

    def show_days(self, days: Sequence[Day]) -> None:
        """Show these from now on."""
        if days != self._days:
            self._days = days
            self.setAccessibleDescription("\n".join(self._in_words(day) for day in days if day != Day(day.date)))
            self.update()

    def sizeHint(self) -> QSize:
        """Ask for a flat picture; it takes what room there is."""
        return QSize(640, 280)

    def minimumSizeHint(self) -> QSize:
        """Keep room for the labels of both sides."""
        return QSize(480, 220)

    def event(self, event: QEvent) -> bool:
        """Say a day's figures where the mouse rests on it."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            column = int((event.pos().x() - _LEFT) // self._step()) if event.pos().x() >= _LEFT else -1
            if 0 <= column < len(self._days):
                QToolTip.showText(event.globalPos(), self._in_words(self._days[column]), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint both sides of the ground line."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small = QFont(self.font())
        small.setPointSizeF(small.pointSizeF() * 0.9)
        painter.setFont(small)
        colours, room = theme.of(self), self.height() - _FOOT - 2 * _LABEL
        ground = _LABEL + room / 2
        painter.setPen(QColor(colours.line))
        painter.drawLine(QPointF(_LEFT, ground), QPointF(self.width(), ground))
        self._paint_sides(painter, ground, colours)
        tallest = max((day.saved for day in self._days), default=0.0) or 1.0
        deepest = max((_held(day) for day in self._days), default=0.0) or 1.0
        for column, day in enumerate(self._days):
            middle = _LEFT + self._step() * (column + 0.5)
            self._paint_saved(painter, day, middle, ground, (room / 2 - 4) / tallest)
            self._paint_held(painter, day, middle, ground, (room / 2 - 4) / deepest)
            self._paint_name(painter, day, middle, today=column == len(self._days) - 1)

    def _step(self) -> float:
        return (self.width() - _LEFT) / max(1, len(self._days))

    def _paint_sides(self, painter: QPainter, ground: float, colours: theme.Theme) -> None:
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for text, colour, top in (
            (self.tr("saved"), colours.accent, ground - _LABEL - 4),
            (self.tr("given up"), colours.muted, ground + 4),
        ):
            painter.setPen(QColor(colour))
            painter.drawText(QRectF(0, top, _LEFT - 10, _LABEL), left, text)

    def _paint_saved(self, painter: QPainter, day: Day, middle: float, ground: float, scale: float) -> None:
        colours = theme.of(self)
        if day.hits and not day.measured:
            self._write(painter, "?", colours.muted, middle, ground - _LABEL - 2)
            return
        height = day.saved * scale
        self._bar(painter, colours.accent, QRectF(middle - self._width() / 2, ground - height, self._width(), height))
        if day.measured:
            text = self.tr("{seconds} s").format(seconds=number(day.saved))
            self._write(painter, text, colours.text, middle, ground - height - _LABEL)

    def _paint_held(self, painter: QPainter, day: Day, middle: float, ground: float, scale: float) -> None:
        colours, left, top = theme.of(self), middle - self._width() / 2, ground + 1
        for seconds, colour in ((day.held_guessing, colours.prepared), (day.held_serving, colours.active)):
            self._bar(painter, colour, QRectF(left, top, self._width(), seconds * scale))
            top += seconds * scale
        if _held(day):
            text = self.tr("{minutes} min").format(minutes=number(_held(day) / 60))
            self._write(painter, text, colours.muted, middle, top + 1)

    def _paint_name(self, painter: QPainter, day: Day, middle: float, *, today: bool) -> None:
        colours, date = theme.of(self), QDate.fromString(day.date, Qt.DateFormat.ISODate)
        room = self._step() >= QFontMetricsF(painter.font()).horizontalAdvance("Wed 30") + 6
        name = self.tr("today") if today else QLocale().toString(date, "ddd d" if room else "d")
        self._write(painter, name, colours.text if today else colours.muted, middle, self.height() - _LABEL)

    def _write(self, painter: QPainter, text: str, colour: str, middle: float, top: float) -> None:
        painter.setPen(QColor(colour))
        area = QRectF(middle - 60, top, 120, _LABEL)
        if QFontMetricsF(painter.font()).horizontalAdvance(text) + _BETWEEN <= self._step():
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)

    def _bar(self, painter: QPainter, colour: str, bar: QRectF) -> None:
        painter.fillRect(bar.toRect(), QColor(colour))  # whole pixels: no seam between two that touch

    def _width(self) -> float:
        return min(_BAR, self._step() * 0.5)

    def _in_words(self, day: Day) -> str:
        date = QLocale().toString(QDate.fromString(day.date, Qt.DateFormat.ISODate), QLocale.FormatType.LongFormat)
        saved = (
            self.tr("{seconds} s saved").format(seconds=number(day.saved))
            if day.measured
            else self.tr("saving unknown")
        )
        held = self.tr("{guesses} min given up for guesses, {prompts} min for prompts").format(
            guesses=number(day.held_guessing / 60), prompts=number(day.held_serving / 60)
        )
        counts = self.tr("{hits} of {all} preparations in time, {alarms} false alarms").format(
            hits=day.hits, all=day.preparations, alarms=day.false_alarms
        )
        return f"{date}: {saved}; {held}; {counts}"


def _held(day: Day) -> float:
    return day.held_guessing + day.held_serving
