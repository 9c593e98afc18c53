"""Windows on a small screen: none opens larger than it, or needs more."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPoint, QSize
from PySide6.QtWidgets import QDialogButtonBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.benchmark_dialog import BenchmarkDialog
from app.fitting import open_at
from app.picker import ProcessPicker
from app.settings_dialog import SettingsDialog
from app.stress_dialog import StressDialog
from app.window import StatusWindow
from engine import itself
from engine.config import store
from engine.config.settings import Settings

SMALL = QSize(911, 464)  # what 1366 x 768 leaves at 150 %, without a title
MAKERS: dict[str, Callable[[], QWidget]] = {
    "status": lambda: StatusWindow(SimpleNamespace(menu_groups=[])),
    "settings": lambda: SettingsDialog(store.load()),
    "benchmark": lambda: BenchmarkDialog(Settings()),
    "stress": StressDialog,
    "picker": lambda: ProcessPicker({"blender": 1}),
}


def test_a_window_is_cut_to_its_screen(qtbot: QtBot) -> None:
    """As large as it would like to be where there is room, else with its edges still to be seen."""
    window = QWidget()
    qtbot.addWidget(window)
    screen = window.screen().availableSize()
    open_at(window, 300, 5000)
    assert window.width() == 300
    assert screen.height() - 100 < window.height() < screen.height()
    open_at(window, 5000, 200)
    assert (window.width() < screen.width(), window.height()) == (True, 200)


@pytest.mark.parametrize("name", MAKERS)
def test_every_window_fits_a_small_screen(
    name: str, large_type: None, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With large type, too: it opens within the screen, can be made small, and its buttons stay to be seen."""
    del large_type
    monkeypatch.setattr(itself, "told", lambda *_: [sys.executable, "-c", ""])
    window = MAKERS[name]()
    qtbot.addWidget(window)
    screen = window.screen().availableSize()
    assert window.size().boundedTo(screen) == window.size()
    window.show()
    window.resize(SMALL)
    assert window.size() == SMALL
    lowest = [button for button in window.findChildren(QPushButton) if button.parent() in (window, box_of(window))]
    for button in lowest:
        corner = button.mapTo(window, QPoint(button.width(), button.height()))
        assert (corner.x() <= SMALL.width(), corner.y() <= SMALL.height()) == (True, True)
    assert lowest or name == "status"


def box_of(window: QWidget) -> QWidget | None:
    """Return the row of buttons, where a window has one of the toolkit's."""
    found = window.findChildren(QDialogButtonBox)
    return found[0] if found else None
