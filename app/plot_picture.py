"""What moves in the plot: the states behind the curve, the curve, and the marks. Painted in pixels, not in P."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QCoreApplication, QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPixmap, QPolygonF, QTransform

from app import theme
from app.history import History, Kind, Mark
from engine.events import State

TOP: Final = 1.16  # the marks have a lane of their own above P = 1
_LANE: Final = 1.08
_TINT: Final = 38  # of 255: the state's colour behind the curve
_AREA: Final = 34  # of 255: what lies under the curve
_STRIP: Final = 3.0  # px: the state's colour in full, on the ground line
_DOT: Final = 9.0  # px: the newest value
_MARK: Final = 11.0  # px
_KEPT: Final = 1 / 12  # of the span: so long a curve that is painted already is only moved to the left
_SAME: Final = 0.01  # s; less is the same point: times are counted back from now, and rounded by that
_CORNERS: Final = {  # in parts of a mark's size; a prompt is round
    Kind.FALSE_POSITIVE: ((-0.5, -0.5), (0.0, 0.5), (0.5, -0.5)),
    Kind.FALSE_NEGATIVE: ((0.0, -0.5), (0.4, 0.0), (0.0, 0.5), (-0.4, 0.0)),
}


def word(state: State) -> str:
    """Name a state in a word short enough to stand in its band."""
    tr = QCoreApplication.translate
    return {
        State.COLD_IDLE: tr("Plot", "waiting"),
        State.SPECULATIVE_PREPARED: tr("Plot", "prepared"),
        State.ACTIVE_INFERENCE: tr("Plot", "answering"),
        State.DEGRADED: tr("Plot", "no server"),
    }[state]


class _Layer(pg.GraphicsObject):  # type: ignore[misc]  # pyqtgraph has no types
    """Covers the whole view, and paints in pixels: type and marks would be stretched with the axes."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._span = 60.0
        self._theme = theme.LIGHT

    def set_span(self, seconds: float) -> None:
        """Show the last so many seconds."""
        self._span = seconds

    def boundingRect(self) -> QRectF:
        """Cover the whole view."""
        view: QRectF = self.viewRect()
        return view

    def viewTransformChanged(self) -> None:
        """Cover the whole view after it changed, too."""
        super().viewTransformChanged()  # forgets the old view; else only that would ever be painted again
        self.prepareGeometryChange()

    def paint(self, painter: QPainter, *_: object) -> None:
        """Paint what the history holds."""
        to_pixels = painter.transform()
        painter.resetTransform()
        if self._history.last is not None:
            self._paint(painter, to_pixels)

    def _paint(self, painter: QPainter, to_pixels: QTransform) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class _Painted:
    """A curve that is painted already: at what moment, to which point (Unix seconds), and for which place."""

    at: float
    until: float
    place: tuple[QTransform, float]
    picture: QPixmap


class Picture(_Layer):
    """The states and the curve. Antialiasing costs the most by far, so of the curve only what is new is painted."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self.setZValue(-10)
        self._font = QFont()
        self.newest = QPointF()  # in pixels, once the curve was painted
        self._painted: _Painted | None = None
        self._pen, self._brush = QPen(), QColor()

    def put_on(self, colours: theme.Theme, font: QFont) -> None:
        """Change colours and type."""
        self._theme = colours
        self._font = QFont(font)
        self._font.setPointSizeF(font.pointSizeF() * 0.9)
        self._pen = QPen(QColor(colours.accent), 2.0)
        self._pen.setCosmetic(True)  # as thin on a dense screen as the threshold
        self._pen.setCapStyle(Qt.PenCapStyle.FlatCap)  # pieces of the line would show, painted twice where they overlap
        self._brush = QColor(colours.accent)
        self._brush.setAlpha(_AREA)
        self._painted = None

    def _paint(self, painter: QPainter, to_pixels: QTransform) -> None:
        painter.setFont(self._font)
        for band in self._history.bands(self._span):
            corners = (QPointF(band.start, TOP), QPointF(band.end, 0.0))
            self._paint_band(painter, band.state, QRectF(*(to_pixels.map(corner) for corner in corners)))
        self._paint_curve(painter, to_pixels)

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

    def _paint_curve(self, painter: QPainter, to_pixels: QTransform) -> None:
        assert self._history.last
        now, place = self._history.last.at, (to_pixels, painter.device().devicePixelRatio())
        old = self._painted
        if old is None or old.place != place or not 0.0 <= now - old.at < self._span * _KEPT:
            old = self._painted = self._paint_past(now, place)
        # Moved by whole pixels it stays sharp; what is new goes by the same step, so that both meet.
        pixels = (now - old.at) * to_pixels.m11()
        moved = round(pixels * place[1]) / place[1]
        painter.drawPixmap(QPointF(-moved, 0.0), old.picture)
        times, heights = self._history.curve(self._span, now - old.until + _SAME)
        painter.translate(pixels - moved, 0.0)
        points = _points(to_pixels, times, heights)
        self.newest = points[-1]
        self._paint_line(painter, points, to_pixels)
        painter.translate(moved - pixels, 0.0)

    def _paint_past(self, now: float, place: tuple[QTransform, float]) -> _Painted:
        """Paint all but the newest point, which may still move."""
        to_pixels, ratio = place
        corner = to_pixels.map(QPointF(0.0, 0.0))
        picture = QPixmap(round((corner.x() + 1) * ratio), round((corner.y() + 1) * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        times, heights = self._history.curve(self._span)
        painter = QPainter(picture)
        self._paint_line(painter, _points(to_pixels, times[:-1], heights[:-1]), to_pixels)
        painter.end()
        return _Painted(now, now + times[-2] if len(times) > 1 else now - self._span, place, picture)

    def _paint_line(self, painter: QPainter, points: list[QPointF], to_pixels: QTransform) -> None:
        """Paint a piece of the curve, and the area under it."""
        if not points:
            return
        ground = to_pixels.map(QPointF(0.0, 0.0)).y()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(self._brush)
        painter.drawPolygon(QPolygonF([QPointF(points[0].x(), ground), *points, QPointF(points[-1].x(), ground)]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(self._pen)
        painter.drawLines([QLineF(one, other) for one, other in pairwise(points)])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)


class Marks(_Layer):
    """A dot on the newest value, where the picture below has it, and what happened."""

    def __init__(self, history: History, picture: Picture) -> None:
        super().__init__(history)
        self._picture = picture

    def put_on(self, colours: theme.Theme) -> None:
        """Change colours."""
        self._theme = colours

    def colour_of(self, kind: Kind) -> str:
        """Return the colour of what happened."""
        return {
            Kind.PROMPT: self._theme.accent,
            Kind.FALSE_POSITIVE: self._theme.prepared,
            Kind.FALSE_NEGATIVE: self._theme.bad,
        }[kind]

    def _paint(self, painter: QPainter, to_pixels: QTransform) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        for mark in self._history.marks(self._span):
            self._paint_mark(painter, mark, to_pixels.map(QPointF(mark.at, _LANE)))
        painter.setBrush(QColor(self.colour_of(Kind.PROMPT)))
        painter.drawEllipse(self._picture.newest, _DOT / 2, _DOT / 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)

    def _paint_mark(self, painter: QPainter, mark: Mark, centre: QPointF) -> None:
        painter.setBrush(QColor(self.colour_of(mark.kind)))
        corners = _CORNERS.get(mark.kind)
        if corners is None:
            painter.drawEllipse(centre, _MARK / 2, _MARK / 2)
        else:
            painter.drawPolygon(QPolygonF([centre + QPointF(x, y) * _MARK for x, y in corners]))


def _points(to_pixels: QTransform, times: Sequence[float], heights: Sequence[float]) -> list[QPointF]:
    return [to_pixels.map(QPointF(at, height)) for at, height in zip(times, heights, strict=True)]
