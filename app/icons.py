"""The icons: drawn for this program, one shape for each state, so that nobody needs to tell colours apart."""

from functools import cache

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from engine import itself
from engine.events import Snapshot

SIZES = (16, 22, 24, 32, 48, 64)
APP, PAUSED, SET_UP = "zat-scs", "paused", "not-set-up"
FOLDER = itself.RESOURCES / "icons"


def mark(snapshot: Snapshot | None, *, answered: bool) -> str:
    """Return which icon tells how things are; before the first snapshot all is at rest."""
    if not answered:
        return SET_UP
    if snapshot is None:
        return "state-cold_idle"
    return PAUSED if snapshot.paused else f"state-{snapshot.state.value.lower()}"


@cache
def icon(name: str) -> QIcon:
    """Return an icon in all sizes that panels ask for. Needs a QGuiApplication."""
    result = QIcon()
    for size in SIZES:
        result.addPixmap(pixmap(name, size))
    return result


def pixmap(name: str, size: int) -> QPixmap:
    """Return an icon as a square of so many pixels."""
    image = QPixmap(size, size)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    QSvgRenderer(str(FOLDER / f"{name}.svg")).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return image
