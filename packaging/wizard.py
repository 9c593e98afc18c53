"""Draws the picture at the side of the installer's last page: the icon on a ground of its own blue.

python packaging/wizard.py FILE.bmp
"""

import sys
from pathlib import Path

from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QGuiApplication, QImage, QLinearGradient, QPainter
from PySide6.QtSvg import QSvgRenderer

ICON = Path(__file__).resolve().parents[1] / "resources" / "icons" / "zat-scs.svg"
WIDTH, HEIGHT = 328, 628  # twice what NSIS asks for: it shrinks it on plain screens
SIDE = 176


def main(target: Path) -> None:
    """Write it."""
    QGuiApplication.instance() or QGuiApplication([])
    image = QImage(WIDTH, HEIGHT, QImage.Format.Format_RGB32)
    ground = QLinearGradient(0, 0, 0, HEIGHT)
    ground.setColorAt(0, QColor("#17457f"))
    ground.setColorAt(1, QColor("#0d2a50"))
    painter = QPainter(image)
    painter.fillRect(image.rect(), ground)
    QSvgRenderer(str(ICON)).render(painter, QRectF((WIDTH - SIDE) / 2, 90, SIDE, SIDE))
    painter.end()
    image.save(str(target), "BMP")  # type: ignore[call-overload] - the stubs want bytes, the call a str


if __name__ == "__main__":
    main(Path(sys.argv[1]))
