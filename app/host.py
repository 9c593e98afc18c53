"""Where the tray's engine comes from: its own, on a thread, or one that this user runs already, which goes on."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_thread import EngineThread
from engine.clock import Clock, SystemClock
from engine.config.settings import Settings
from engine.config.store import state_folder
from engine.events import Event, SettingsChanged, Snapshot

# What an engine needs takes a while to import, and the icon comes first: here only for the types.
if TYPE_CHECKING:
    from engine.control import ControlServer
    from engine.control_client import RemoteEngine
    from engine.parts import Parts

log = logging.getLogger(__name__)

TRY_AGAIN = 3.0  # s until an engine that has gone is followed up: a service may be starting it anew


def tray_path() -> Path:
    """Return where a second start finds a tray that shows an engine of another process."""
    return state_folder() / "tray.sock"


class Host(QObject):
    """Opens an engine and passes its snapshots on, on the main thread.

    `parts` makes the engine's parts. `show_asked` and `quit_asked`: somebody asked through the control channel.
    """

    seen = Signal(object)  # Snapshot
    failed = Signal(str)  # why there is no engine at the moment
    opened = Signal()  # `remote` is known
    show_asked = Signal()
    quit_asked = Signal()
    _remote_ended = Signal(str)

    def __init__(self, parent: QObject | None = None, *, parts: "Callable[[Clock], Parts] | None" = None) -> None:
        super().__init__(parent)
        self._parts = parts
        self._clock = SystemClock()
        self._settings = Settings()
        self._trouble = ""
        self._thread: EngineThread | None = None
        self._remote: RemoteEngine | None = None
        self._control: ControlServer | None = None
        self._lock = contextlib.ExitStack()
        self._again = QTimer(self)
        self._again.setSingleShot(True)
        self._again.setInterval(round(TRY_AGAIN * 1000))
        self._again.timeout.connect(self._open)
        self._remote_ended.connect(self._lose_remote)

    @property
    def remote(self) -> bool:
        """Whether the engine belongs to another process, with settings of its own."""
        return self._remote is not None

    def open(self, settings: Settings) -> None:
        """Run an engine with these settings, or find the one that runs."""
        self._settings = settings
        self._open()

    def post(self, event: Event) -> None:
        """Tell the engine, if there is one. Raises ControlError for what an engine elsewhere does not take."""
        if isinstance(event, SettingsChanged):
            self._settings = event.settings
        engine = self._remote or self._thread
        if engine is not None:
            engine.post(event)

    def close(self) -> None:
        """Give the card back and end what is ours; an engine elsewhere goes on."""
        self._again.stop()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._close_remote()
        if self._control is not None:
            self._control.close()
            self._control = None
        self._lock.close()

    def _open(self) -> None:
        from engine import daemon  # noqa: PLC0415

        try:
            self._lock.enter_context(daemon.single_instance(state_folder() / "engine.lock"))
        except daemon.AlreadyRunning as error:
            log.info("%s: it is shown here", error)
            self._open_remote()
        except OSError as error:
            self._fail(str(error))
        else:
            self._open_own(daemon.Narrator())

    def _open_own(self, narrator: Callable[[Snapshot], None]) -> None:
        from engine.assembly import assemble  # noqa: PLC0415
        from engine.channel import control_path  # noqa: PLC0415

        parts = self._parts(self._clock) if self._parts else None
        engine = assemble(self._settings, self._clock, parts=parts)
        engine.subscribe(narrator)  # what goes on can be read in the log
        self._thread = EngineThread(engine, self)
        self._thread.seen.connect(self.seen)
        self._thread.failed.connect(self.failed)
        self._listen(control_path(), engine.post)
        if self._control is not None:
            engine.subscribe(self._control.see)
        self._thread.start()
        self.opened.emit()

    def _open_remote(self) -> None:
        from engine.channel import ControlError, control_path  # noqa: PLC0415
        from engine.control_client import RemoteEngine  # noqa: PLC0415

        remote = RemoteEngine(control_path(), self._remote_ended.emit, self._clock)
        remote.subscribe(self.seen.emit)
        try:
            remote.start()
        except ControlError as error:
            self._fail(str(error))
            self._again.start()
            return
        self._remote = remote
        self._trouble = ""
        self._listen(tray_path(), remote.post)
        self.opened.emit()

    def _listen(self, path: Path, post: Callable[[Event], None]) -> None:
        from engine.control import ControlServer  # noqa: PLC0415

        self._control = ControlServer(
            path, post, self._clock, quit_=self.quit_asked.emit, show=self.show_asked.emit, kind="tray"
        )
        self._control.start()

    def _lose_remote(self, reason: str) -> None:
        """Wait a moment for it to come back; then an engine of our own takes its place."""
        log.info("the engine that was shown here is gone: %s", reason)
        self._close_remote()
        if self._control is not None:
            self._control.close()
            self._control = None
        self._fail(reason)
        self._again.start()

    def _fail(self, reason: str) -> None:
        """Say it once, however often it is tried again."""
        if reason != self._trouble:
            self._trouble = reason
            self.failed.emit(reason)

    def _close_remote(self) -> None:
        if self._remote is not None:
            self._remote.close()
            self._remote = None
