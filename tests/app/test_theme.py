"""Colours: readable in light and dark, and turned when the desktop turns."""

from itertools import product

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication
from PySide6.QtWidgets import QCheckBox, QStyle, QStyleOptionButton, QWidget
from pytestqt.qtbot import QtBot

from app import theme
from engine.events import State

TEXTS = ("text", "muted", "accent", "threshold", "good", "bad", "idle", "prepared", "active", "degraded")


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    parts = QColor(colour).getRgbF()[:3]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("colours", "name"), list(product((theme.LIGHT, theme.DARK), TEXTS)))
def test_every_text_can_be_read(colours: theme.Theme, name: str) -> None:
    """4.5:1 on the window and on fields, in light and dark."""
    for ground in (colours.window, colours.field):
        assert contrast(getattr(colours, name), ground) >= 4.5


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_controls_can_be_seen(colours: theme.Theme) -> None:
    """4.5:1 for what stands on the accent, 3:1 for the edges of fields."""
    assert contrast(colours.on_accent, colours.accent) >= 4.5
    assert contrast(colours.edge, colours.window) >= 3


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_each_state_has_a_colour_of_its_own(colours: theme.Theme) -> None:
    """No two states look alike."""
    assert len({colours.of_state(state) for state in State}) == len(State)


def test_a_window_turns_with_the_desktop(qtbot: QtBot) -> None:
    """Light to dark and back, while it is open."""
    window = QWidget()
    qtbot.addWidget(window)
    child = QWidget(window)
    window.show()
    theme.follow(window)
    assert theme.of(window) is theme.LIGHT
    turned = QGuiApplication.styleHints().colorSchemeChanged
    turned.emit(Qt.ColorScheme.Dark)
    assert theme.of(child) is theme.DARK
    assert window.palette().window().color().name() == theme.DARK.window
    turned.emit(Qt.ColorScheme.Light)
    assert theme.of(window) is theme.LIGHT


def test_a_desktop_that_does_not_say_is_judged_by_its_colours(qapp: QGuiApplication) -> None:
    """A dark palette of the application makes dark windows."""
    before = qapp.palette()
    try:
        qapp.setPalette(theme.palette(theme.DARK))
        assert theme.wanted(Qt.ColorScheme.Unknown) is theme.DARK
    finally:
        qapp.setPalette(before)
    assert theme.wanted(Qt.ColorScheme.Unknown) is theme.LIGHT


def test_a_label_changes_its_role(qtbot: QtBot) -> None:
    """What was good can be bad."""
    label = theme.label("x", "good")
    qtbot.addWidget(label)
    theme.play(label, "bad")
    assert label.property("role") == "bad"


def test_a_locked_tick_has_a_whole_edge(qtbot: QtBot) -> None:
    """It is paler than one that can be changed, and no dashes gnaw at it."""
    window = QWidget()
    qtbot.addWidget(window)
    box = QCheckBox("On", window)
    box.setChecked(True)
    box.setEnabled(False)
    theme.follow(window)
    window.show()
    option = QStyleOptionButton()
    option.initFrom(box)
    place = box.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, box)
    picture = box.grab().toImage()
    edge = {picture.pixelColor(x, place.top()).name() for x in range(place.left() + 5, place.right() - 4)}
    assert edge == {theme.LIGHT.muted}
