"""Collects cyclic garbage on the main thread only: a widget destroyed on the engine's thread ends the program.

Python collects wherever something happens to be allocated: on the engine's thread as on the window's, and there in the
midst of painting as well. Seen: a crash of the plot that way. From a timer nothing of Qt's is under way.
"""

import gc

from PySide6.QtCore import QObject, QTimer

EVERY = 1000  # ms


class Collector(QObject):
    """Switches Python's own collecting off for as long as it lives, and does it here by the same thresholds."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._was_on = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.collect)
        self._timer.start(EVERY)

    def collect(self) -> None:
        """Collect the generations that are due."""
        for generation, (count, threshold) in reversed(
            list(enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)))
        ):
            if count > threshold:
                gc.collect(generation)
                return

    def close(self) -> None:
        """Give collecting back to Python."""
        self._timer.stop()
        if self._was_on:
            gc.enable()
