"""The engine's own loop on a thread of Qt: a thin adaptor, whose one signal carries frozen snapshots."""

import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThread, Signal

from engine.events import Event, Snapshot

if TYPE_CHECKING:
    from engine.loop import Engine  # whoever has one has imported it; the icon comes before it

log = logging.getLogger(__name__)

LEAVE = 30_000  # ms; giving back is limited to 10 s, and so is the server's side


class EngineThread(QThread):
    """Runs one engine. Connect only bound methods of objects that live on the main thread.

    A lambda or a plain function would run on the engine's thread, where no widget may be touched.
    """

    seen = Signal(object)  # Snapshot, each tick; the last one says closed
    failed = Signal(str)  # the engine broke; everything was given back

    def __init__(self, engine: "Engine", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._leave = engine.subscribe(self._show)

    def post(self, event: Event) -> None:
        """Put an event into the engine's inbox."""
        self._engine.post(event)

    def run(self) -> None:
        """Run the engine until stop()."""
        try:
            self._engine.run()
        except Exception as error:
            log.exception("the engine failed; everything was given back")
            self.failed.emit(str(error) or type(error).__name__)

    def stop(self) -> bool:
        """Give the card back and end the thread; True once that is done."""
        self._engine.stop()
        done = self.wait(LEAVE)
        self._leave()
        if not done:
            log.error("the engine did not end within %d s", LEAVE // 1000)
        return done

    def _show(self, snapshot: Snapshot) -> None:
        self.seen.emit(snapshot)
