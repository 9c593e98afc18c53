"""The page that says what helping has brought: its sentence, its chart, and what it costs while nobody looks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication, QHelpEvent, QImage
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
    """No zeros, and no numbers that mean nothing."""
    page.show()
    assert "Nothing to count yet" in says(page)
    assert "how many seconds you did not have to wait" in says(page)
    assert "0 s" not in says(page)


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
    assert "3.0 s saved; 1.0 min given up for guesses, 0.0 min for prompts; 2 of 3 preparations in time" in lines[0]


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
