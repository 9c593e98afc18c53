"""Windows on small screens: as large as they would like to be, or as the screen allows; what is left over scrolls."""

from typing import Final

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QWidget

_FRAME: Final = QSize(16, 48)  # px that the desktop's frame and title take


def open_at(window: QWidget, width: int, height: int) -> None:
    """Give a window this size, cut to what its screen leaves: what lies below the edge cannot be clicked."""
    window.resize(QSize(width, height).boundedTo(window.screen().availableSize() - _FRAME))


class Scroll(QScrollArea):
    """Scrolls a page where there is too little room for it."""

    def __init__(self, page: QWidget) -> None:
        super().__init__()
        self._page = page
        self.setWidget(page)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def sizeHint(self) -> QSize:
        """Ask for all the room that is needed; Qt itself would stop at a few lines."""
        return self._page.sizeHint() + QSize(self.verticalScrollBar().sizeHint().width(), 0)
