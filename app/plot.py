"""The live plot of P against the threshold. Importing this imports pyqtgraph, so it is done when the plot is shown."""

from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QFont, QFontMetrics, QHideEvent, QShowEvent
from PySide6.QtWidgets import QGraphicsItem, QWidget

from app import theme
from app.history import History
from app.plot_picture import TOP, Marks, Picture

_REDRAWS: Final = 200  # for the whole span, so that each moves the picture by four or five pixels
_SIDES: Final = ("left", "bottom")
_LEVEL: Final = 0.002  # of P: less is no pixel


class _Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """One axis, with its outermost words."""

    def boundingRect(self) -> QRectF:
        """Reach a little beyond its ends: "0" and "now" stand across them, and a word not wholly inside is left out."""
        half = QFontMetrics(self.style["tickFont"] or QFont()).height() / 2
        inside: QRectF = super().boundingRect()
        return inside.adjusted(0.0, 0.0, half, half)


class Plot(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """Draws a History while it is shown, and does nothing while it is not."""

    def __init__(self, history: History, parent: QWidget | None = None) -> None:
        super().__init__(parent, axisItems={side: _Axis(side) for side in _SIDES})
        self._history = history
        self._span = 60.0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.follow)
        self.setMinimumHeight(180)
        self.setFrameShape(self.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # there is nothing to do in it
        self.setAccessibleName(self.tr("Probability of a prompt over time"))
        self._prepare()
        self._picture = Picture(history)
        self._threshold = pg.InfiniteLine(angle=0, label="", labelOpts={"position": 0.0, "anchors": [(0, 1), (0, 1)]})
        self._marks = Marks(history, self._picture)
        self._said: tuple[str, str] = ("", "")  # of threshold and P
        self._drawn: object = None  # what a picture shows in which nothing moves; None: something moves
        for item in (self._picture, self._threshold, self._marks):
            self.addItem(item)
        self._fit_axes()
        self._recolour()
        self.set_span(self._span)

    def _prepare(self) -> None:
        """Take away what makes a plot look like an instrument: frames, buttons, menus, zoom."""
        plot = self.getPlotItem()
        plot.setMenuEnabled(False)
        plot.hideButtons()
        plot.setMouseEnabled(False, False)
        plot.setYRange(0.0, TOP, padding=0)
        plot.showGrid(y=True, alpha=0.16)
        for side in _SIDES:
            axis = plot.getAxis(side)
            axis.setStyle(tickLength=0, tickTextOffset=8)
            axis.setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)  # text and grid stay as they are
        plot.getAxis("left").setTicks([[(0.0, "0"), (0.25, ""), (0.5, "0.5"), (0.75, ""), (1.0, "1")]])

    def _fit_axes(self) -> None:
        """Give the axes the room that their words need; too little, and a word is left out."""
        metrics = QFontMetrics(self.font())
        plot = self.getPlotItem()
        for side in _SIDES:
            plot.getAxis(side).setTickFont(self.font())
        plot.getAxis("left").setWidth(metrics.horizontalAdvance("0.5") + 16)
        plot.getAxis("bottom").setHeight(metrics.height() + 12)

    def set_span(self, seconds: float) -> None:
        """Show the last so many seconds."""
        self._span = seconds
        for layer in (self._picture, self._marks):
            layer.set_span(seconds)
        plot = self.getPlotItem()
        plot.setXRange(-seconds, seconds / 30, padding=0)  # the room on the right keeps the newest dot and “now” whole
        plot.getAxis("bottom").setTicks([self._ticks()])
        self._timer.setInterval(round(1000 * max(0.2, seconds / _REDRAWS)))
        if self.isVisible():
            self.redraw()

    def _ticks(self) -> list[tuple[float, str]]:
        step, unit, size = (60, self.tr("min"), 60) if self._span > 120 else (10, self.tr("s"), 1)
        ticks = [(-at, f"{at // size} {unit}") for at in range(step, int(self._span), step)]
        return [*ticks, (0.0, self.tr("now"))]

    def follow(self) -> None:
        """Draw the history anew, unless the picture would be the same."""
        still = self._still()
        if still is None or still != self._drawn:
            self.redraw()
        self._drawn = still

    def _still(self) -> object:
        """Return what the picture shows if nothing in it moves: a level line in one state. None: something moves."""
        last, bands = self._history.last, self._history.bands(self._span)
        if last is None or len(bands) != 1 or bands[0].start > -self._span or self._history.marks(self._span):
            return None
        _, heights = self._history.curve(self._span)
        level = max(heights) - min(heights) < _LEVEL
        return (round(heights[-1] / _LEVEL), last.threshold, last.state) if level else None

    def redraw(self) -> None:
        """Draw the history as it is now."""
        last = self._history.last
        self._threshold.setVisible(last is not None)
        if last is None:
            return
        self._picture.update()  # the marks lie in it
        self._threshold.setValue(last.threshold)
        said = f"{last.threshold:.2f}", f"{last.probability:.2f}"
        if said == self._said:
            return
        if said[0] != self._said[0]:
            self._threshold.label.setFormat(self.tr("threshold {value}").format(value=said[0]))
        self._said = said
        sentence = self.tr("P is {now}, the threshold {threshold}")
        self.setAccessibleDescription(sentence.format(now=said[1], threshold=said[0]))

    def _recolour(self) -> None:
        colours = theme.of(self)
        self.setBackground(colours.window)
        for side in _SIDES:
            axis = self.getPlotItem().getAxis(side)
            axis.setPen(pg.mkPen(None))
            axis.setTickPen(pg.mkPen(colours.muted))  # the grid, very pale
            axis.setTextPen(pg.mkPen(colours.muted))
        self._threshold.setPen(pg.mkPen(colours.threshold, width=2, style=Qt.PenStyle.DashLine))
        self._threshold.label.setColor(colours.threshold)
        self._picture.put_on(colours, self.font())
        self._marks.put_on(colours)
        self.redraw()

    def sizeHint(self) -> QSize:
        """Ask for a flat picture; it takes what room there is."""
        return QSize(600, 240)

    def changeEvent(self, event: QEvent) -> None:
        """Turn light or dark with the window, and larger with its type."""
        super().changeEvent(event)
        if not hasattr(self, "_marks"):  # Qt calls this from its constructor
            return
        if event.type() is QEvent.Type.FontChange:
            self._fit_axes()
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._recolour()

    def showEvent(self, event: QShowEvent) -> None:
        """Begin to draw."""
        super().showEvent(event)
        self.redraw()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Draw nothing that nobody sees."""
        self._timer.stop()
        super().hideEvent(event)
