"""The live plot: what it draws, when, and when not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, QPaintEvent, QPicture, QRegion, QTransform
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.history import History
from app.plot import Plot
from app.plot_picture import Picture, word
from engine.events import Moved, Snapshot, State, Why

AT = 1_790_000_000.0


def filled(seconds: int = 300) -> History:
    """Return a history with a prompt in it."""
    history = History()
    prompt = Moved(State.COLD_IDLE, State.ACTIVE_INFERENCE, Why.PROMPT)
    for tick in range(seconds * 10):
        answering = tick > seconds * 10 - 200
        history.add(
            Snapshot(
                at=AT + tick / 10,
                state=State.ACTIVE_INFERENCE if answering else State.COLD_IDLE,
                probability=float(0.5 + 0.4 * np.sin(tick / 40)),
                threshold=0.7,
                moves=(prompt,) if tick == seconds * 10 - 199 else (),
            )
        )
    return history


class Shown:
    """A plot in a dressed window, with a count of its redraws."""

    def __init__(self, qtbot: QtBot, history: History) -> None:
        self.window = QWidget()
        qtbot.addWidget(self.window)
        theme.follow(self.window)
        self.plot = Plot(history)
        QVBoxLayout(self.window).addWidget(self.plot)
        self.window.resize(600, 300)
        self.redraws = 0
        self.plot._timer.timeout.connect(self._count)

    def _count(self) -> None:
        self.redraws += 1


class Painted(QObject):
    """Remembers which part of the plot was painted."""

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self.region = QRegion()
        plot.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - overrides Qt's
        """Remember, and let everything pass."""
        del watched
        if isinstance(event, QPaintEvent):
            self.region += event.region()
        return False


def words_of(plot: Plot, side: str) -> list[str]:
    """Return the words that an axis has room for."""
    axis, picture = plot.getPlotItem().getAxis(side), QPicture()
    painter = QPainter(picture)
    painter.setFont(axis.style["tickFont"])
    words = [text for _, _, text in axis.generateDrawSpecs(painter)[2]]
    painter.end()
    return words


def place(plot: Plot, seconds: float, height: float) -> QPoint:
    """Return which pixel shows this height of P so many seconds from now."""
    spot: QPoint = plot.mapFromScene(plot.getViewBox().mapViewToScene(QPointF(seconds, height)))
    return spot


def is_like(colour: QColor, wanted: str) -> bool:
    """Return whether it is this colour, give or take what smooth edges take off."""
    return max(abs(x - y) for x, y in zip(colour.getRgb(), QColor(wanted).getRgb(), strict=True)) < 60


def picture_of(plot: Plot) -> Any:
    """Return what is to be seen, array of shape (height, width, 3)."""
    image = plot.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    pixels = np.frombuffer(image.constBits(), np.uint8).reshape(image.height(), image.bytesPerLine() // 4, 4)
    return pixels[:, : image.width(), :3].astype(int)


def test_it_draws_what_there_is(qtbot: QtBot) -> None:
    """Curve, threshold with its value, states, marks and the newest value; spoken, too."""
    history = filled()
    shown = Shown(qtbot, history)
    shown.window.show()
    plot, picture = shown.plot, shown.plot.grab().toImage()
    times, heights = history.curve(60.0)
    for at in (20, 100, len(times) - 1):
        assert is_like(picture.pixelColor(place(plot, times[at], heights[at])), theme.LIGHT.accent)
    assert picture.pixelColor(place(plot, -19.8, 1.08)) == QColor(theme.LIGHT.accent)  # the prompt
    assert picture.pixelColor(place(plot, -40.0, 1.1)) == QColor(theme.LIGHT.window)
    assert picture.pixelColor(place(plot, -10.0, 1.1)) != QColor(theme.LIGHT.window)  # a state's tint
    assert plot._threshold.value() == 0.7
    assert plot._threshold.label.toPlainText() == "threshold 0.70"
    assert "the threshold 0.70" in plot.accessibleDescription()


def test_a_curve_that_is_painted_already_is_only_moved(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it costs is what is new; what is seen is what a plot shows that paints all of it."""
    history = filled()
    shown = Shown(qtbot, history)
    shown.window.show()
    picture_of(shown.plot)
    painted: list[int] = []
    inner = Picture._paint_line

    def count(layer: Picture, painter: QPainter, points: list[QPointF], to_pixels: QTransform) -> None:
        painted.append(len(points))
        inner(layer, painter, points, to_pixels)

    monkeypatch.setattr(Picture, "_paint_line", count)
    for tick in range(1, 41):
        assert history.last
        history.add(replace(history.last, at=AT + 300 + tick / 10, probability=0.2 + 0.5 * (tick % 20 > 8), moves=()))
        shown.plot.redraw()
        moved = picture_of(shown.plot)
    assert len(painted) == 40
    assert max(painted) < 30
    shown.plot._picture.put_on(theme.LIGHT, shown.plot.font())  # forgets what was painted
    anew = picture_of(shown.plot)
    assert max(painted) > 250
    differs = np.abs(moved - anew).max(axis=2) > 90
    assert differs.mean() < 0.002  # half a pixel, along a line of two


def test_nothing_is_drawn_while_it_is_hidden(qtbot: QtBot) -> None:
    """The timer runs while the plot is seen, and stops with it."""
    shown = Shown(qtbot, filled(10))
    assert not shown.plot._timer.isActive()
    shown.window.show()
    qtbot.waitUntil(lambda: shown.redraws >= 2, timeout=5000)
    shown.window.hide()
    assert not shown.plot._timer.isActive()
    before = shown.redraws
    qtbot.wait(500)  # two beats of the timer, if it ran
    assert shown.redraws == before
    shown.window.show()
    assert shown.plot._timer.isActive()


@pytest.mark.parametrize(("span", "first", "pause"), [(60.0, "10 s", 300), (300.0, "1 min", 1500)])
def test_the_longer_look_back_is_drawn_less_often(span: float, first: str, pause: int, qtbot: QtBot) -> None:
    """A pixel is a second there."""
    shown = Shown(qtbot, filled())
    shown.plot.set_span(span)
    assert shown.plot._ticks()[0][1] == first
    assert shown.plot._timer.interval() == pause
    assert shown.plot.getViewBox().viewRange()[0] == [-span, span / 30]


def test_a_picture_in_which_nothing_moves_is_not_painted_again(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """A level line in one state looks the same a moment later; as soon as P moves it is drawn."""
    history = History()
    rest = Snapshot(at=AT, state=State.COLD_IDLE, probability=0.1, threshold=0.7)
    for tick in range(700):
        history.add(replace(rest, at=AT + tick / 10))
    shown = Shown(qtbot, history)
    shown.window.show()
    drawn: list[float] = []
    monkeypatch.setattr(shown.plot, "redraw", lambda: drawn.append(history.last.at if history.last else 0.0))

    def is_drawn_after(at: float, probability: float = 0.1, threshold: float = 0.7) -> bool:
        history.add(replace(rest, at=AT + at, probability=probability, threshold=threshold))
        shown.plot.follow()
        return drawn[-1:] == [AT + at]

    is_drawn_after(70.0)  # from here on it is known what the picture shows
    assert not is_drawn_after(70.3)
    assert not is_drawn_after(70.6)
    assert is_drawn_after(70.9, threshold=0.65)
    assert is_drawn_after(71.2, probability=0.3)
    assert is_drawn_after(71.5, probability=0.3)  # the step still moves to the left


def test_it_turns_dark_with_its_window(qtbot: QtBot) -> None:
    """Background and curve are repainted in the other colours at once."""
    shown = Shown(qtbot, filled(20))
    shown.window.show()
    turned = QGuiApplication.styleHints().colorSchemeChanged
    for scheme, colours in ((Qt.ColorScheme.Dark, theme.DARK), (Qt.ColorScheme.Light, theme.LIGHT)):
        turned.emit(scheme)
        picture = shown.plot.grab().toImage()
        seen = {picture.pixelColor(x, y).name() for x in range(0, 560, 2) for y in range(0, 260, 2)}
        assert colours.window in seen
        assert colours.accent in seen


def test_the_state_is_painted_and_named(qtbot: QtBot) -> None:
    """A strip of the state's colour on the ground line; every state has a word."""
    shown = Shown(qtbot, filled())
    shown.window.show()
    picture = shown.plot.grab().toImage()
    pixels = [picture.pixelColor(x, y) for x in range(0, picture.width(), 4) for y in range(picture.height())]
    wanted = QColor(theme.LIGHT.active)
    assert any(abs(one.red() - wanted.red()) + abs(one.green() - wanted.green()) < 4 for one in pixels)
    assert len({word(state) for state in State}) == len(State)


def test_an_empty_history_is_an_empty_plot(qtbot: QtBot) -> None:
    """No threshold is claimed before the engine has said one."""
    shown = Shown(qtbot, History())
    shown.window.show()
    assert not shown.plot._threshold.isVisible()
    shown.plot._history.add(replace(filled(1).last or Snapshot(AT, State.COLD_IDLE), threshold=0.4))
    shown.plot.redraw()
    assert shown.plot._threshold.isVisible()


def test_all_of_it_is_painted_anew_when_something_moves(qtbot: QtBot) -> None:
    """On a screen, not only in a picture that is taken of it: all layers cover the view as it is now."""
    shown = Shown(qtbot, filled())
    shown.window.show()
    qtbot.waitExposed(shown.window)
    plot = shown.plot
    plot._timer.stop()
    QGuiApplication.processEvents()
    for layer in (plot._picture, plot._marks):
        assert layer.boundingRect() == plot.getViewBox().viewRect()
    painted = Painted(plot)
    assert plot._history.last
    plot._history.add(replace(plot._history.last, at=AT + 301, moves=()))
    plot.redraw()
    qtbot.waitUntil(lambda: not painted.region.isEmpty(), timeout=5000)
    view = plot.getViewBox().sceneBoundingRect()
    assert painted.region.boundingRect().width() >= view.width()
    assert painted.region.boundingRect().height() >= view.height()


def test_axes_have_room_for_their_words(qtbot: QtBot) -> None:
    """Whatever size of type the desktop has, and when it changes."""
    shown = Shown(qtbot, filled(10))
    shown.window.resize(900, 400)
    shown.window.show()
    for size in (9, 14, 20):
        font = shown.plot.font()
        font.setPointSize(size)
        shown.plot.setFont(font)
        QGuiApplication.processEvents()
        below = shown.plot.getPlotItem().getAxis("bottom")
        assert below.style["tickFont"].pointSize() == size
        assert below.height() > shown.plot.fontMetrics().height() + 8
        assert {"0", "0.5", "1"} <= set(words_of(shown.plot, "left"))
        assert {"50 s", "10 s", "now"} <= set(words_of(shown.plot, "bottom"))
