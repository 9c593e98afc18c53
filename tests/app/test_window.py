"""The status window: what it shows, what it costs while hidden, and that it can be worked without a mouse."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from app.actions import Actions
from app.steady import Figure
from app.window import StatusWindow
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.events import Moved, Snapshot, State, Why

IDLE = Snapshot(at=1_790_000_000.0, state=State.COLD_IDLE, backend="process", sensors={"keyboard": "on"}, f_c=0.1)


@dataclass
class Menus:
    """Stands in for the application's actions."""

    menu_groups: list[tuple[str, list[QAction]]] = field(default_factory=list)


class Paints(QObject):
    """Counts what is painted in a window and all it holds."""

    def __init__(self, window: QWidget) -> None:
        super().__init__()
        self.count = 0
        for widget in (window, *window.findChildren(QWidget)):
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - overrides Qt's
        """Count, and let everything pass."""
        del watched
        self.count += event.type() is QEvent.Type.Paint
        return False


@pytest.fixture
def window(qtbot: QtBot, tmp_path: Path) -> Iterator[StatusWindow]:
    """Return a window whose set-up page does not look around."""
    prepare = QAction("Prepare now")
    made = StatusWindow(Menus([("&Engine", [prepare])]))
    qtbot.addWidget(made)
    made.set_loaded(Loaded(Settings(background_process_name="blender"), {}, (), tmp_path / "settings.toml"))
    yield made
    made.hide()


def says(widget: QWidget) -> str:
    """Return all texts that are to be seen."""
    return "\n".join(word.text() for word in words_of(widget) if word.isVisible())


def words_of(widget: QWidget) -> list[QLabel | Figure]:
    """Return all that holds text, seen or not."""
    return [*widget.findChildren(QLabel), *widget.findChildren(Figure)]


def test_it_shows_the_newest_snapshot(window: StatusWindow) -> None:
    """State, evidence and the job by its name."""
    window.show()
    window.render(IDLE)
    said = says(window)
    for words in ("Waiting", "0.10", "blender is not held", "ready in time"):
        assert words in said


def test_it_has_a_past_when_it_is_opened(window: StatusWindow) -> None:
    """What came while it was hidden is in the plot at once."""
    for tick in range(600):
        window.render(replace(IDLE, at=IDLE.at + tick / 10, probability=0.5))
    window.show()
    assert window.plot is not None
    assert window.plot.grab().toImage().pixelColor(300, window.plot.height() - 60) != QColor(theme.LIGHT.window)


def test_nothing_is_painted_while_it_is_hidden(window: StatusWindow, qtbot: QtBot) -> None:
    """Snapshots are remembered, and that is all."""
    window.show()
    window.render(IDLE)
    paints = Paints(window)
    window.render(replace(IDLE, at=IDLE.at + 1, f_c=0.9))
    qtbot.waitUntil(lambda: paints.count > 0, timeout=5000)
    window.hide()
    QGuiApplication.processEvents()
    before, text = paints.count, says(window)
    for tick in range(20):
        window.render(replace(IDLE, at=IDLE.at + 2 + tick, f_c=tick / 20, probability=tick / 20))
        qtbot.wait(20)
    assert paints.count == before
    assert window.plot is not None
    assert not window.plot._timer.isActive()
    assert says(window) == text


def test_figures_that_change_at_each_tick_move_nothing_else(window: StatusWindow, qtbot: QtBot) -> None:
    """Else the whole window would be laid out and painted ten times a second."""
    window.show()
    window.render(IDLE)
    assert window.plot is not None
    window.plot._timer.stop()
    qtbot.wait(100)
    plot, server, meter = Paints(window.plot), Paints(window._server), Paints(window._evidence)
    for tick in range(10):
        window.render(replace(IDLE, at=IDLE.at + 1 + tick / 10, f_c=tick / 10, probability=tick / 10))
        qtbot.wait(20)
    assert meter.count > 0
    assert max(plot.count, server.count) < 5  # what was still to be painted when counting began


def test_it_is_drawn_five_times_a_second_and_at_once_when_something_happens(window: StatusWindow) -> None:
    """Nobody reads faster; but a transition, and the engine's end, are not kept waiting."""
    window.show()
    window.render(IDLE)
    window.render(replace(IDLE, at=IDLE.at + 0.1, f_c=0.33))
    assert "0.33" not in says(window)
    window.render(replace(IDLE, at=IDLE.at + 0.2, f_c=0.44))
    assert "0.44" in says(window)
    moved = Moved(State.COLD_IDLE, State.DEGRADED, Why.SERVER_LOST)
    window.render(replace(IDLE, at=IDLE.at + 0.3, state=State.DEGRADED, moves=(moved,)))
    assert "No server" in says(window)
    window.render(replace(IDLE, at=IDLE.at + 0.35, closed=True))
    assert "Ended" in says(window)
    window.render(replace(IDLE, at=IDLE.at - 3600, f_c=0.55))
    assert "0.55" in says(window)


def test_behind_another_page_it_draws_nothing(window: StatusWindow) -> None:
    """And catches up when that is left."""
    window.show()
    window.render(IDLE)
    window.show_benefit()
    window.render(replace(IDLE, at=IDLE.at + 1, f_c=0.77))
    assert "0.77" not in "\n".join(word.text() for word in words_of(window))
    window._tabs.setCurrentIndex(0)
    assert "0.77" in says(window)


def test_the_plotting_library_comes_with_the_first_show() -> None:
    """It costs 50 MB, which a tray alone does not need."""
    script = (
        "import sys\n"
        "from PySide6.QtWidgets import QApplication\n"
        "application = QApplication([])\n"
        "from types import SimpleNamespace\n"
        "from app.window import StatusWindow\n"
        "from engine.config import store\n"
        "window = StatusWindow(SimpleNamespace(menu_groups=[]))\n"
        "window.set_loaded(store.load())\n"
        "heavy = ('pyqtgraph', 'numpy', 'requests')\n"
        "print([name for name in heavy if name in sys.modules])\n"
        "window.show()\n"
        "print('pyqtgraph' in sys.modules)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert answer.stdout == "[]\nTrue\n"


def test_it_says_why_it_is_there(window: StatusWindow) -> None:
    """A banner, until it is taken away."""
    window.show()
    window.show_reason("There is no tray.")
    assert "There is no tray." in says(window)
    window.show_reason("")
    assert "There is no tray." not in says(window)


def test_it_waits_for_the_engine_in_words(window: StatusWindow) -> None:
    """Before the first snapshot no figure is claimed."""
    window.show()
    assert "Waiting for the engine." in says(window)
    assert "ready in time" not in says(window)


def test_the_menus_are_those_of_the_application(window: StatusWindow) -> None:
    """Every function is reachable without a tray."""
    (menu,) = [action.menu() for action in window.menuBar().actions()]
    assert menu.title() == "&Engine"
    assert [action.text() for action in menu.actions()] == ["Prepare now"]


def test_the_plot_looks_further_back_by_a_key(window: StatusWindow, qtbot: QtBot) -> None:
    """The switch has a mnemonic and says what it does."""
    window.show()
    button = window._spans.button(300)
    assert "&" in button.text()
    assert button.accessibleName() == "Show the last 5 min"
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert window.plot is not None
    assert window.plot._span == 300.0


def test_the_legend_tells_marks_apart_by_shape(window: StatusWindow) -> None:
    """No two of them share a sign, and it turns dark with the window."""
    window.show()
    turned = QGuiApplication.styleHints().colorSchemeChanged
    for scheme, colours in ((Qt.ColorScheme.Dark, theme.DARK), (Qt.ColorScheme.Light, theme.LIGHT)):
        turned.emit(scheme)
        for part in ("●", "▼", "◆", "missed prompt", colours.bad):
            assert part in window._legend.text()


def test_every_control_can_be_reached_and_has_a_name(window: StatusWindow) -> None:
    """Going round by Tab meets the switch, the tabs and the reasons, each with words."""
    window.show()
    window.render(replace(IDLE, refused=(("boinc", "no client answers"),)))
    window.activateWindow()
    reached: list[QWidget] = []
    widget = window.nextInFocusChain()
    while widget is not window and len(reached) < 200:
        if widget.isVisible() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            reached.append(widget)
        widget = widget.nextInFocusChain()
    assert {window._spans.button(60), window._spans.button(300), window._job._more} <= set(reached)
    assert [type(one).__name__ for one in reached if not one.accessibleName()] == []


def test_set_up_is_the_last_page(window: StatusWindow) -> None:
    """It is opened by name, too."""
    assert [window._tabs.tabText(index) for index in range(3)] == ["&Status", "&Benefit", "Set-&up"]
    window.show_setup()
    assert window._tabs.currentWidget() is window.setup


def test_without_settings_it_reads_the_users_own(qtbot: QtBot) -> None:
    """Nobody sees an empty page because nobody said which settings are in force."""
    made = StatusWindow(Menus())
    qtbot.addWidget(made)
    made.show()
    assert made.setup is not None
    assert made._job.name == "fahclient"


def test_a_minimised_window_draws_nothing(window: StatusWindow) -> None:
    """And catches up when it is brought back."""
    window.show()
    window.render(IDLE)
    window.showMinimized()
    window.render(replace(IDLE, at=IDLE.at + 1, f_c=0.77))
    assert "0.77" not in "\n".join(word.text() for word in words_of(window))
    window.showNormal()
    assert "0.77" in says(window)


def test_no_key_is_asked_for_twice(window: StatusWindow) -> None:
    """Each menu and each page has a letter of its own."""
    made = [title for title, _ in Actions(window).menu_groups]
    made += [window._tabs.tabText(index) for index in range(window._tabs.count())]
    made += [button.text() for button in window._spans.buttons()]
    letters = Counter(text[text.index("&") + 1].lower() for text in made)
    assert max(letters.values()) == 1


def test_the_panels_share_their_row_at_large_type(large_type: None, window: StatusWindow) -> None:
    """Whatever stands in them: no button and no figure takes the room of another panel."""
    del large_type
    window.show()
    window.resize(980, 740)
    trouble = {"keyboard": "unavailable: no X server", "microphone": "unavailable: no microphone found"}
    window.render(replace(IDLE, sensors=trouble, refused=(("boinc", "no client answers"),)))
    QGuiApplication.processEvents()
    panels = (window._evidence, window._job, window._server, window._today)
    assert min(panel.width() for panel in panels) > 980 / 5
    assert window._job._more.text().endswith("…")
    assert window._job._more.accessibleName() == "Other ways that do not fit: 1"


def test_a_method_that_is_off_is_known_to_the_panel(window: StatusWindow, tmp_path: Path) -> None:
    """It comes with the settings in force."""
    window.set_loaded(Loaded(Settings(background_method="off"), {}, (), tmp_path / "settings.toml"))
    window.show()
    window.render(replace(IDLE, backend="null", background_detail="switched off"))
    assert "Switched off" in says(window)
