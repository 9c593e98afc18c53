"""The page that says what helping has brought: its sentence, its chart, and what it costs while nobody looks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAction, QColor, QFont, QFontMetricsF, QGuiApplication, QHelpEvent, QImage
from PySide6.QtWidgets import QApplication, QLabel, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from app import benefit_page, theme
from app.benefit_page import DAYS, BenefitPage
from app.day_chart import DayChart
from app.window import StatusWindow
from engine.account import Day
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.days import Kept, last_days
from engine.events import Snapshot, State
from engine.parts import RealParts

NOW = SystemClock().wall()
DATES = [day.date for day in last_days([], DAYS, NOW)]
GOOD = Day(DATES[-3], preparations=9, hits=8, lead=32.0, measured=8, reused=900, saved=60.0, held_serving=300.0)
TODAY = Day(DATES[-1], preparations=3, hits=2, lead=4.0, measured=1, saved=3.0, held_guessing=60.0, false_alarms=1)


@dataclass
class Menus:
    """Stands in for the application's actions."""

    menu_groups: list[tuple[str, list[QAction]]] = field(default_factory=list)


@pytest.fixture
def keep() -> Callable[..., None]:
    """Return what puts days into this user's file."""

    def write(*days: Day) -> None:
        path = RealParts.of_user(SystemClock()).days
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(Kept(days=list(days))))

    return write


@pytest.fixture
def page(qtbot: QtBot) -> BenefitPage:
    """Return a page that was not shown yet."""
    page = BenefitPage()
    page.resize(900, 640)
    qtbot.addWidget(page)
    return page


def says(widget: QWidget) -> str:
    """Return all texts that are to be seen."""
    return "\n".join(label.text() for label in widget.findChildren(QLabel) if label.isVisible())


def chart(page: QWidget) -> DayChart:
    """Return its chart."""
    found = page.findChild(DayChart)
    assert found is not None
    return found


def snapshot(today: Day | None, at: float = NOW) -> Snapshot:
    """Return what an engine shows that has booked this."""
    return Snapshot(at, State.COLD_IDLE, today=today)


def test_it_says_in_one_sentence_what_was_saved_for_what(page: BenefitPage, keep: Callable[..., None]) -> None:
    """Earlier days from the file, today from the engine, which knows more of it than the file."""
    keep(GOOD, Day(DATES[-1], preparations=1))
    page.draw(snapshot(TODAY))
    page.show()
    said = says(page)
    assert "10.5 s saved for each minute of background work given up" in said
    for words in ("63.0 s", "6.0 min", "10 of 12", "3.6 s", "known: 9."):
        assert words in said


def test_the_first_day_says_what_will_be_seen(page: BenefitPage) -> None:
    """No zeros, no numbers that mean nothing, and no axes without bars; all of it comes with the first preparation."""
    page.show()
    assert "Nothing to count yet" in says(page)
    assert "how long you did not have to wait" in says(page)
    assert "0 s" not in says(page)
    assert "\N{BLACK SQUARE}" not in says(page)
    assert not chart(page).isVisible()
    page.draw(snapshot(TODAY, at=NOW - 5))
    assert "\N{BLACK SQUARE}" in says(page)
    assert chart(page).isVisible()


def test_what_is_unknown_is_said_to_be(page: BenefitPage) -> None:
    """A question mark stands where a number would be a guess."""
    page.draw(snapshot(Day(DATES[-1], preparations=2, hits=2, held_serving=30.0)))
    page.show()
    assert "Nothing can be said yet" in says(page)
    assert "?" in says(page).splitlines()
    assert "saving unknown" in chart(page).accessibleDescription()


def test_nothing_is_made_or_read_before_it_is_seen(page: BenefitPage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots that come meanwhile are only remembered; seen, it is drawn once a second."""
    reads: list[bool] = []
    monkeypatch.setattr(page, "earlier", lambda: reads.append(True) or [])
    page.draw(snapshot(TODAY))
    assert page.widget() is None
    assert reads == []
    page.show()
    assert reads == [True]
    drawn: list[Day] = []
    monkeypatch.setattr(benefit_page, "total", lambda days: drawn.append(days[-1]) or TODAY)
    for tenth in range(25):
        page.draw(snapshot(TODAY, at=int(NOW) + 1 + tenth / 10))
    assert len(drawn) == 3


def test_it_is_spoken(page: BenefitPage) -> None:
    """The chart has a name, and each day that has something to say is described."""
    page.draw(snapshot(TODAY))
    page.show()
    assert "by day" in chart(page).accessibleName()
    lines = chart(page).accessibleDescription().splitlines()
    assert len(lines) == 1
    assert "3.0 s saved; 60.0 s given up for guesses, 0 s for prompts; 2 of 3 preparations in time" in lines[0]


def test_a_day_tells_its_figures_under_the_mouse(page: BenefitPage, qtbot: QtBot) -> None:
    """And no other place does."""
    page.draw(snapshot(TODAY))
    page.show()
    picture = chart(page)

    def rest_at(x: int) -> None:
        spot = QPoint(x, 100)
        QApplication.sendEvent(picture, QHelpEvent(QEvent.Type.ToolTip, spot, picture.mapToGlobal(spot)))

    rest_at(picture.width() - 10)
    assert "3.0 s saved" in QToolTip.text()
    rest_at(5)
    qtbot.waitUntil(lambda: not QToolTip.isVisible())


def colours(picture: QImage) -> set[str]:
    """Return the colours in a picture."""
    return {picture.pixelColor(x, y).name() for x in range(picture.width()) for y in range(0, picture.height(), 2)}


@pytest.mark.parametrize("scheme", [Qt.ColorScheme.Light, Qt.ColorScheme.Dark])
def test_the_bars_wear_the_windows_colours(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: Qt.ColorScheme
) -> None:
    """Light and dark; savings above the ground line, and both kinds of cost below it."""
    window = StatusWindow(Menus())
    qtbot.addWidget(window)
    window.set_loaded(Loaded(Settings(), {}, (), tmp_path / "settings.toml"))
    monkeypatch.setattr(window.benefit, "earlier", lambda: [GOOD])
    window.render(snapshot(TODAY))
    window.show_benefit()
    window.show()
    QGuiApplication.styleHints().colorSchemeChanged.emit(scheme)
    worn = theme.wanted(scheme)
    seen = colours(chart(window).grab().toImage())
    assert {QColor(colour).name() for colour in (worn.accent, worn.prepared, worn.active)} <= seen
    assert worn.accent in "".join(label.text() for label in window.benefit.findChildren(QLabel))


@pytest.mark.parametrize("width", [480, 900, 2000])
def test_it_is_drawn_at_any_width(page: BenefitPage, width: int) -> None:
    """Names and figures that find no room are left out; the bars stay."""
    page.draw(snapshot(TODAY))
    page.resize(width, 400)
    page.show()
    assert QColor(theme.of(page).accent).name() in colours(chart(page).grab().toImage())


def bars(page: BenefitPage) -> dict[str, int]:
    """Return how high each colour stands in today's column, in pixels."""
    picture, worn = chart(page).grab().toImage(), theme.of(page)
    column = round(picture.width() - chart(page)._step() * picture.devicePixelRatio() / 2)
    seen = [picture.pixelColor(column, y).name() for y in range(picture.height())]
    return {name: seen.count(QColor(getattr(worn, name)).name()) for name in ("accent", "prepared")}


def test_next_to_nothing_looks_like_it(page: BenefitPage) -> None:
    """Four milliseconds are no full bar, nor are two seconds of the job; nor are they written as nothing."""
    page.draw(snapshot(Day(DATES[-1], preparations=1, hits=1, lead=1.0, measured=1, saved=0.004, held_guessing=2.0)))
    page.show()
    assert bars(page)["accent"] <= 1
    assert bars(page)["prepared"] <= 8
    assert "< 0.1 s" in says(page).splitlines()
    assert "2.0 s" in says(page).splitlines()
    page.draw(snapshot(TODAY, at=NOW - 5))
    assert bars(page)["accent"] > 50
    assert bars(page)["prepared"] > 50


def test_large_sums_are_written_in_hours(page: BenefitPage) -> None:
    """In the figures and in words for those who cannot see."""
    page.draw(snapshot(Day(DATES[-1], preparations=1, hits=1, measured=1, saved=12_390.0, held_serving=40_200.0)))
    page.show()
    assert {"3.4 h", "11.2 h"} <= set(says(page).splitlines())
    assert "3.4 h saved; 0 s given up for guesses, 11.2 h for prompts" in chart(page).accessibleDescription()


@pytest.mark.parametrize(("width", "points", "across"), [(900, 9, 4), (560, 9, 2), (900, 20, 2)])
def test_it_gives_way_to_narrow_windows_and_large_type(
    qtbot: QtBot, keep: Callable[..., None], width: int, points: int, across: int
) -> None:
    """The figures stand two by two, the legend wraps, and nothing has to be scrolled sideways."""
    before = QApplication.font()
    large = QFont(before)
    large.setPointSize(points)
    QApplication.setFont(large)
    try:
        keep(GOOD)
        page = BenefitPage()
        qtbot.addWidget(page)
        page.resize(width, 640)
        page.draw(snapshot(TODAY))
        page.show()
        numbers = [label for label in page.findChildren(QLabel) if label.property("role") == "number"]
        tops = [label.mapTo(page, QPoint(0, 0)).y() for label in numbers]
        assert tops.count(tops[0]) == across
        assert page.horizontalScrollBar().maximum() == 0
        picture = chart(page)
        assert picture._advance("given up") <= picture._left()
        assert QFontMetricsF(picture._small()).height() <= picture._label()
    finally:
        QApplication.setFont(before)
