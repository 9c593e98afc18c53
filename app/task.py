"""Work that may take a moment, done on a thread; the answer comes back as a signal on the window's own thread."""

import threading
from collections.abc import Callable
from contextlib import suppress

from PySide6.QtCore import QObject, Signal

from engine.errors import ZatError


class Task(QObject):
    """One piece of work at a time. `finished` carries its value, or the ZatError that it ended with."""

    finished = Signal(object)

    def __init__(self, name: str, parent: QObject) -> None:
        super().__init__(parent)
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Tell whether it is still at work."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Begin; while it runs nothing else is begun."""
        if not self.running:
            self._thread = threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True)
            self._thread.start()

    def wait(self, timeout: float = 5.0) -> None:
        """Return when it has ended, or after so many seconds."""
        if self._thread:
            self._thread.join(timeout)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            answer: object = work()
        except ZatError as error:
            answer = error
        with suppress(RuntimeError):  # the window is gone, and nobody wants to know any more
            self.finished.emit(answer)
