"""The live plot of P against the threshold. Importing this imports pyqtgraph, so it is done when the plot is shown."""

from collections.abc import Sequence
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication, QEvent, QPointF, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QHideEvent, QPainter, QPen, QShowEvent
from PySide6.QtWidgets import QGraphicsItem, QWidget

from app import theme
from app.history import Band, History, Kind
from engine.events import State

TOP: Final = 1.16  # the marks have a lane of their own above P = 1
_LANE: Final = 1.08
_TINT: Final = 38  # of 255: the state's colour behind the curve
_STRIP: Final = 3.0  # px: the state's colour in full, on the ground line
_REDRAWS: Final = 200  # for the whole span, so that each moves the picture by four or five pixels
_LEVEL: Final = 0.002  # of P: less is no pixel
SYMBOLS: Final = {Kind.PROMPT: "o", Kind.FALSE_POSITIVE: "t", Kind.FALSE_NEGATIVE: "d"}


def word(state: State) -> str:
    """Name a state in a word short enough to stand in its band."""
    tr = QCoreApplication.translate
    return {
        State.COLD_IDLE: tr("Plot", "waiting"),
        State.SPECULATIVE_PREPARED: tr("Plot", "prepared"),
        State.ACTIVE_INFERENCE: tr("Plot", "answering"),
        State.DEGRADED: tr("Plot", "no server"),
    }[state]


class Plot(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """Draws a History while it is shown, and does nothing while it is not."""

    def __init__(self, history: History, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._history = history
        self._span = 60.0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.follow)
        self.setMinimumHeight(180)
        self.setFrameShape(self.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)  # there is nothing to do in it
        self.setAccessibleName(self.tr("Probability of a prompt over time"))
        self._prepare()
        self._bands = _Bands()
        # Antialiasing costs the most by far: the area lies under the line, and the line needs no joins.
        self._area = pg.PlotCurveItem(fillLevel=0.0, pen=None, skipFiniteCheck=True)
        self._curve = pg.PlotCurveItem(antialias=True, skipFiniteCheck=True)
        self._curve.setSegmentedLineMode("on")
        self._threshold = pg.InfiniteLine(angle=0, label="", labelOpts={"position": 0.0, "anchors": [(0, 1), (0, 1)]})
        self._marks = pg.ScatterPlotItem(pen=None)  # and the newest value
        self._drawn: object = None  # what a picture shows in which nothing moves; None: something moves
        for item in (self._bands, self._area, self._curve, self._threshold, self._marks):
            self.addItem(item)
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
        for side in ("left", "bottom"):
            axis = plot.getAxis(side)
            axis.setStyle(tickLength=0, tickTextOffset=8)
            axis.setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)  # text and grid stay as they are
        plot.getAxis("left").setTicks([[(0.0, "0"), (0.25, ""), (0.5, "0.5"), (0.75, ""), (1.0, "1")]])
        plot.getAxis("left").setWidth(34)
        plot.getAxis("bottom").setHeight(28)

    def set_span(self, seconds: float) -> None:
        """Show the last so many seconds."""
        self._span = seconds
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
        times, heights = self._history.curve(self._span)
        for item in (self._area, self._curve):
            item.setData(times, heights)
        self._bands.show_bands(self._history.bands(self._span))
        self._threshold.setValue(last.threshold)
        self._threshold.label.setFormat(self.tr("threshold {value:.2f}"))
        self._show_marks(times[-1], heights[-1])
        sentence = self.tr("P is {now:.2f}, the threshold {threshold:.2f}")
        self.setAccessibleDescription(sentence.format(now=last.probability, threshold=last.threshold))

    def _show_marks(self, at: float, height: float) -> None:
        """Show a dot on the newest value, and what happened."""
        marks = self._history.marks(self._span)
        self._marks.setData(
            [at, *(mark.at for mark in marks)],
            [height] + [_LANE] * len(marks),
            size=[9] + [11] * len(marks),
            symbol=["o", *(SYMBOLS[mark.kind] for mark in marks)],
            brush=[pg.mkBrush(self._colour_of(kind)) for kind in (Kind.PROMPT, *(mark.kind for mark in marks))],
        )

    def _colour_of(self, kind: Kind) -> str:
        colours = theme.of(self)
        return {
            Kind.PROMPT: colours.accent,
            Kind.FALSE_POSITIVE: colours.prepared,
            Kind.FALSE_NEGATIVE: colours.bad,
        }[kind]

    def _recolour(self) -> None:
        colours = theme.of(self)
        self.setBackground(colours.window)
        for side in ("left", "bottom"):
            axis = self.getPlotItem().getAxis(side)
            axis.setPen(pg.mkPen(None))
            axis.setTickPen(pg.mkPen(colours.muted))  # the grid, very pale
            axis.setTextPen(pg.mkPen(colours.muted))
        area = QColor(colours.accent)
        area.setAlpha(34)
        pen = pg.mkPen(colours.accent, width=2)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)  # the pieces of the line would show, painted twice where they overlap
        self._curve.setPen(pen)
        self._area.setBrush(pg.mkBrush(area))
        self._threshold.setPen(pg.mkPen(colours.threshold, width=2, style=Qt.PenStyle.DashLine))
        self._threshold.label.setColor(colours.threshold)
        self._bands.put_on(colours, self.font())
        self.redraw()

    def sizeHint(self) -> QSize:
        """Ask for a flat picture; it takes what room there is."""
        return QSize(600, 240)

    def changeEvent(self, event: QEvent) -> None:
        """Turn light or dark with the window."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.StyleChange and hasattr(self, "_bands"):  # Qt calls this from its constructor
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


class _Bands(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph has no types
    """The states behind the curve: a tint, a strip on the ground, and the state's name where there is room."""

    def __init__(self) -> None:
        super().__init__()
        self.setZValue(-10)
        self._bands: Sequence[Band] = ()
        self._theme = theme.LIGHT
        self._font = QFont()

    def put_on(self, colours: theme.Theme, font: QFont) -> None:
        """Change colours and type."""
        self._theme = colours
        self._font = QFont(font)
        self._font.setPointSizeF(font.pointSizeF() * 0.9)

    def show_bands(self, bands: Sequence[Band]) -> None:
        """Show these from now on."""
        self._bands = bands
        self.update()

    def boundingRect(self) -> QRectF:
        """Cover the whole view."""
        view: QRectF = self.viewRect()
        return view

    def viewTransformChanged(self) -> None:
        """Cover the whole view after it changed, too."""
        self.prepareGeometryChange()

    def paint(self, painter: QPainter, *_: object) -> None:
        """Paint in pixels: type would be stretched with the axes."""
        transform = painter.transform()
        painter.resetTransform()
        painter.setFont(self._font)
        for band in self._bands:
            corners = (QPointF(band.start, TOP), QPointF(band.end, 0.0))
            self._paint_band(painter, band.state, QRectF(*(transform.map(corner) for corner in corners)))

    def _paint_band(self, painter: QPainter, state: State, area: QRectF) -> None:
        colour = QColor(self._theme.of_state(state))
        tint = QColor(colour)
        tint.setAlpha(0 if state is State.COLD_IDLE else _TINT)
        painter.fillRect(area, tint)
        painter.fillRect(area.adjusted(0, area.height() - _STRIP, 0, 0), colour)
        text = word(state)
        metrics = QFontMetricsF(self._font)
        if state is not State.COLD_IDLE and metrics.horizontalAdvance(text) + 12 < area.width():
            painter.setPen(QPen(colour))
            painter.drawText(QPointF(area.left() + 6, area.bottom() - 9), text)
