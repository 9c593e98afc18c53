"""A bar a day: upwards the time saved, downwards the background work given up for it."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QDate, QEvent, QLocale, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.stats import span
from engine.account import Day

_BAR: Final = 28.0  # px at most
_SMALL: Final = 0.9  # of the window's type
_LEAST_SAVED: Final = 1.0  # s at the height of the chart, at least: a fraction of a second is no success
_LEAST_HELD: Final = 60.0  # s, likewise
_BETWEEN: Final = 4.0  # px at least between the figures of two days


class DayChart(QWidget):
    """Paints the last days, oldest first; the last one is today. Saving and cost have a scale each, from zero."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._days: Sequence[Day] = ()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(self.tr("Time saved and background work given up, by day"))

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
        return QSize(480, max(220, round(10 * self._label())))

    def event(self, event: QEvent) -> bool:
        """Say a day's figures where the mouse rests on it."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            column = int((event.pos().x() - self._left()) // self._step())
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
        painter.setFont(self._small())
        colours, room = theme.of(self), self.height() - 3.3 * self._label()  # names, and a figure on each side
        ground = self._label() + room / 2
        painter.setPen(QColor(colours.line))
        painter.drawLine(QPointF(self._left(), ground), QPointF(self.width(), ground))
        self._paint_sides(painter, ground, colours)
        tallest = max(_LEAST_SAVED, *(day.saved for day in self._days))
        deepest = max(_LEAST_HELD, *(_held(day) for day in self._days))
        for column, day in enumerate(self._days):
            middle = self._left() + self._step() * (column + 0.5)
            self._paint_saved(painter, day, middle, ground, (room / 2 - 4) / tallest)
            self._paint_held(painter, day, middle, ground, (room / 2 - 4) / deepest)
            self._paint_name(painter, day, middle, today=column == len(self._days) - 1)

    def _small(self) -> QFont:
        small = QFont(self.font())
        small.setPointSizeF(small.pointSizeF() * _SMALL)
        return small

    def _advance(self, text: str) -> float:
        return QFontMetricsF(self._small()).horizontalAdvance(text)

    def _label(self) -> float:
        """Return the height of a line of small type, with room around it."""
        return QFontMetricsF(self._small()).height() * 1.3

    def _left(self) -> float:
        """Return how wide what each side means is."""
        return max(map(self._advance, self._sides())) + 2 * self._advance("n")

    def _step(self) -> float:
        return (self.width() - self._left()) / max(1, len(self._days))

    def _sides(self) -> tuple[str, str]:
        return self.tr("saved"), self.tr("given up")

    def _paint_sides(self, painter: QPainter, ground: float, colours: theme.Theme) -> None:
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        saved, given_up = self._sides()
        for text, colour, top in (
            (saved, colours.accent, ground - self._label() - 4),
            (given_up, colours.muted, ground + 4),
        ):
            painter.setPen(QColor(colour))
            painter.drawText(QRectF(0, top, self._left(), self._label()), left, text)

    def _paint_saved(self, painter: QPainter, day: Day, middle: float, ground: float, scale: float) -> None:
        colours = theme.of(self)
        if day.hits and not day.measured:
            self._write(painter, "?", colours.muted, middle, ground - self._label() - 2)
            return
        height = day.saved * scale
        self._bar(painter, colours.accent, QRectF(middle - self._width() / 2, ground - height, self._width(), height))
        if day.measured:
            self._write(painter, self._figure(day.saved), colours.text, middle, ground - height - self._label())

    def _paint_held(self, painter: QPainter, day: Day, middle: float, ground: float, scale: float) -> None:
        colours, left, top = theme.of(self), middle - self._width() / 2, ground + 1
        for seconds, colour in ((day.held_guessing, colours.prepared), (day.held_serving, colours.active)):
            self._bar(painter, colour, QRectF(left, top, self._width(), seconds * scale))
            top += seconds * scale
        if _held(day):
            self._write(painter, self._figure(_held(day)), colours.muted, middle, top + 1)

    def _paint_name(self, painter: QPainter, day: Day, middle: float, *, today: bool) -> None:
        colours, date = theme.of(self), QDate.fromString(day.date, Qt.DateFormat.ISODate)
        long = self.tr("today") if today else QLocale().toString(date, "ddd d")
        name = long if self._fits(self.tr("today") if today else "Wed 30") else QLocale().toString(date, "d")
        self._write(painter, name, colours.text if today else colours.muted, middle, self.height() - self._label())

    def _write(self, painter: QPainter, text: str, colour: str, middle: float, top: float) -> None:
        painter.setPen(QColor(colour))
        if self._fits(text):
            area = QRectF(middle - self._step() / 2, top, self._step(), self._label())
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)

    def _figure(self, seconds: float) -> str:
        whole = span(seconds)
        return whole if self._fits(whole) else span(seconds, short=True)

    def _fits(self, text: str) -> bool:
        return self._advance(text) + _BETWEEN <= self._step()

    def _bar(self, painter: QPainter, colour: str, bar: QRectF) -> None:
        painter.fillRect(bar.toRect(), QColor(colour))  # whole pixels: no seam between two that touch

    def _width(self) -> float:
        return min(_BAR, self._step() * 0.5)

    def _in_words(self, day: Day) -> str:
        date = QLocale().toString(QDate.fromString(day.date, Qt.DateFormat.ISODate), QLocale.FormatType.LongFormat)
        saved = self.tr("{time} saved").format(time=span(day.saved)) if day.measured else self.tr("saving unknown")
        held = self.tr("{guesses} given up for guesses, {prompts} for prompts").format(
            guesses=span(day.held_guessing), prompts=span(day.held_serving)
        )
        counts = self.tr("{hits} of {all} preparations in time, {alarms} false alarms").format(
            hits=day.hits, all=day.preparations, alarms=day.false_alarms
        )
        return f"{date}: {saved}; {held}; {counts}"


def _held(day: Day) -> float:
    return day.held_guessing + day.held_serving
