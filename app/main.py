"""Starts the tray: one for each user, with a log, and with an end that gives everything back."""

import contextlib
import logging
import logging.handlers
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType

import filelock

from app import screen
from engine.config.store import Loaded, state_folder

log = logging.getLogger(__name__)

LOG_BYTES, LOG_FILES = 1_000_000, 3
_RAISE_WITHIN = 5.0  # s; a tray that is just starting does not answer yet


def run(loaded: Loaded, *, on_login: bool = False) -> int:
    """Show the tray until Quit or a signal; return the exit code. `on_login`: nothing may pop up."""
    reason = screen.problem(os.environ)
    if reason:
        print(f"zat-scs: no tray: {reason}; `zat-scs engine` needs no screen", file=sys.stderr)  # noqa: T201
        return 1
    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = filelock.FileLock(folder / "tray.lock", timeout=0)
    try:
        held = lock.acquire()
    except filelock.Timeout:
        return 0 if on_login else raise_other()
    with held, logging_to(folder / "log"):
        for problem in loaded.problems:
            log.warning("%s", problem)
        return _show(loaded, on_login=on_login)


def _show(loaded: Loaded, *, on_login: bool) -> int:
    from PySide6.QtCore import Qt, qInstallMessageHandler  # noqa: PLC0415 - only where there is a screen
    from PySide6.QtWidgets import QApplication  # noqa: PLC0415

    from app import autostart, icons, qt_log  # noqa: PLC0415
    from app.collector import Collector  # noqa: PLC0415
    from app.host import Host  # noqa: PLC0415
    from app.shell import Shell  # noqa: PLC0415

    qInstallMessageHandler(qt_log.pass_on)
    QApplication.setAttribute(Qt.ApplicationAttribute.AA_DontShowIconsInMenus)
    application = QApplication(["zat-scs"])
    application.setApplicationName("ZAT-SCS")
    application.setDesktopFileName("zat-scs")
    application.setWindowIcon(icons.icon(icons.APP))
    application.setQuitOnLastWindowClosed(False)
    collector = Collector(application)
    shell = Shell(loaded, Host(), autostart.of_this_system(), on_login=on_login)
    application.aboutToQuit.connect(shell.close)
    application.commitDataRequest.connect(shell.on_logout)
    try:
        with ended_by_signals(shell.quit):
            shell.start()
            return application.exec()
    finally:
        collector.close()
        qInstallMessageHandler(None)  # what Qt says while Python ends could not be passed on


@contextlib.contextmanager
def ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP call `end`, on the main thread: Qt's loop is woken through a socket."""
    from PySide6.QtCore import QSocketNotifier  # noqa: PLC0415

    reading, writing = socket.socketpair()
    for each in (reading, writing):
        each.setblocking(False)
    notifier = QSocketNotifier(reading.fileno(), QSocketNotifier.Type.Read)
    notifier.activated.connect(end)

    def ignore(number: int, frame: FrameType | None) -> None:
        """Do nothing here: Python has written the number into the socket."""

    before_fd = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), ignore) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
        signal.set_wakeup_fd(before_fd)
        notifier.setEnabled(False)
        for each in (reading, writing):
            each.close()


def raise_other() -> int:
    """Let the tray that runs already show its window; 1 where it does not answer."""
    from app.host import tray_path  # noqa: PLC0415
    from engine.channel import ControlError, control_path  # noqa: PLC0415
    from engine.control_client import ControlClient  # noqa: PLC0415

    deadline = time.monotonic() + _RAISE_WITHIN
    reason = ""
    while time.monotonic() < deadline:
        for path in (control_path(), tray_path()):
            try:
                with ControlClient(path) as client:
                    client.request("show")
            except ControlError as error:
                reason = str(error)
            else:
                return 0
        time.sleep(0.1)
    print(f"zat-scs: the tray runs already, but does not answer: {reason}", file=sys.stderr)  # noqa: T201
    return 1


@contextlib.contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    """Log to a file in this folder; warnings to stderr too, if there is one, but nothing of Qt's chatter."""
    root = logging.getLogger()
    formatter = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handlers: list[logging.Handler] = []
    missing: OSError | None = None
    if sys.stderr is not None:  # a Windows program without a console has none
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[0].setLevel(logging.WARNING)
        handlers[0].addFilter(lambda record: record.name != "qt" or record.levelno >= logging.CRITICAL)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handlers.append(
            logging.handlers.RotatingFileHandler(
                folder / "zat-scs.log", maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8"
            )
        )
    except OSError as error:
        missing = error
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    if missing is not None:
        log.warning("no log is written: %s", missing)
    before, sys.excepthook = sys.excepthook, _log_defect
    try:
        yield
    finally:
        sys.excepthook = before
        for handler in handlers:
            root.removeHandler(handler)
            handler.close()


def _log_defect(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Take what Python would print of an error that nobody caught, as in a slot of Qt."""
    log.critical("a defect", exc_info=(kind, error, trace))
