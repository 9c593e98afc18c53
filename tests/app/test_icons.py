"""The icons: one shape for each state, in every size that a panel asks for."""

import itertools

import pytest
from PySide6.QtGui import QColor, QImage

from app import icons
from engine.events import Snapshot, State

NAMES = (icons.PAUSED, icons.SET_UP, *(f"state-{state.value.lower()}" for state in State))
pytestmark = pytest.mark.usefixtures("qtbot")

PANELS = ("#ffffff", "#26282c")


def shape(name: str) -> list[bool]:
    """Return which pixels of the smallest size are covered, colours left out."""
    image = icons.pixmap(name, 16).toImage()
    return [image.pixelColor(x, y).alpha() > 127 for y in range(16) for x in range(16)]


@pytest.mark.parametrize("name", [*NAMES, icons.APP])
def test_every_icon_is_there_in_all_sizes(name: str) -> None:
    """Panels scale badly, so each size is drawn for itself."""
    sizes = {(size.width(), size.height()) for size in icons.icon(name).availableSizes()}
    assert sizes == {(size, size) for size in icons.SIZES}
    for size in icons.SIZES:
        image = icons.pixmap(name, size).toImage()
        assert any(image.pixelColor(x, y).alpha() > 200 for x in range(size) for y in range(size)), size


def test_icons_differ_in_shape() -> None:
    """Whoever sees no colours tells them apart all the same: an eighth of the pixels differs at the smallest size."""
    for one, other in itertools.combinations(NAMES, 2):
        different = sum(a != b for a, b in zip(shape(one), shape(other), strict=True))
        assert different > 256 / 8, (one, other, different)


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("name", NAMES)
def test_icons_are_seen_on_light_and_dark_panels(name: str, panel: str) -> None:
    """The contrast of what is drawn is at least 3 to 1, as asked of signs that carry meaning."""
    image = icons.pixmap(name, 32).toImage()
    assert contrast(main_colour(image), QColor(panel)) >= 3.0


def main_colour(image: QImage) -> QColor:
    """Return the colour that most covered pixels have."""
    pixels = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    colours = [pixel.rgb() for pixel in pixels if pixel.alpha() == 255]
    return QColor(max(set(colours), key=colours.count))


def contrast(one: QColor, other: QColor) -> float:
    """Return the contrast as WCAG defines it."""

    def luminance(colour: QColor) -> float:
        parts = (colour.redF(), colour.greenF(), colour.blueF())
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("state", State)
def test_each_state_has_its_mark(state: State) -> None:
    """Paused goes over the state, and a question goes over everything."""
    snapshot = Snapshot(at=0.0, state=state)
    assert icons.mark(snapshot, answered=True) == f"state-{state.value.lower()}"
    assert icons.mark(Snapshot(at=0.0, state=state, paused=True), answered=True) == icons.PAUSED
    assert icons.mark(snapshot, answered=False) == icons.SET_UP
    assert icons.mark(None, answered=True) == "state-cold_idle"
