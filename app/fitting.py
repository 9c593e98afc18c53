"""Windows on small screens: as large as they would like to be, or as the screen allows; what is left over scrolls."""

from typing import Final

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QScrollArea, QWidget

_FRAME: Final = QSize(16, 48)  # px that the desktop's frame and title take


def room(window: QWidget) -> QSize:
    """Return how large a window may be on its screen: what lies below the edge cannot be clicked."""
    return window.screen().availableSize() - _FRAME


def open_at(window: QWidget, width: int, height: int) -> None:
    """Give a window this size, cut to what its screen leaves."""
    window.resize(QSize(width, height).boundedTo(room(window)))


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
