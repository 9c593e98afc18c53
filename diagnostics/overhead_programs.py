"""The programs that overhead.py measures: the engine, the tray, and what any program of their kind costs."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics import overhead_inside
from diagnostics.overhead_probe import Cost, Reading, Unmeasured, cost, read
from diagnostics.overhead_stage import until
from engine.channel import ControlError
from engine.control_client import ControlClient

JOB = "zat-bench-job"
ROOT = Path(__file__).resolve().parent.parent
START = 60.0  # s for a program to tick
LEAVE = 20.0  # s for it to end
_RESTS = "import time\nwhile True: time.sleep(3600)"
_EMPTY_LOOP = "import time\nwhile True: time.sleep(0.1)"
_EMPTY_TRAY = """
import signal, sys
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon
signal.signal(signal.SIGTERM, signal.SIG_DFL)
application = QApplication(["empty"])
application.setQuitOnLastWindowClosed(False)
picture = QPixmap(22, 22)
picture.fill(QColor("grey"))
menu = QMenu()
menu.addAction("Quit", application.quit)
tray = QSystemTrayIcon(QIcon(picture))
tray.setContextMenu(menu)
tray.show()
sys.exit(application.exec())
"""
_NOT_OURS = ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY")


@dataclass
class Program:
    """One that runs. `notes`: where it notes its ticks, None: it has none."""

    name: str
    process: subprocess.Popen[bytes]
    notes: Path | None = None
    state: Path | None = None
    log: Path | None = None

    def read(self) -> Reading:
        """Return its counters now. Raises Unmeasured."""
        if self.process.poll() is not None:
            raise Unmeasured(f"it ended with {self.process.returncode}{self._last_words()}")
        return read(self.process.pid, self.notes)

    def cost(self, before: Reading, after: Reading, seconds: float) -> Cost:
        """Return what happened between two readings. Raises Unmeasured."""
        return cost(self.process.pid, self.notes, before, after, seconds)

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").split("\n") if self.log else []
        return next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")

    def show_window(self) -> None:
        """Open the status window. Raises Unmeasured."""
        assert self.state is not None
        try:
            with ControlClient(self.state / "engine.sock") as client:
                client.request("show")
        except ControlError as error:
            raise Unmeasured(f"the window could not be opened: {error}") from error


@contextlib.contextmanager
def empty_loop() -> Iterator[Program]:
    """Run a Python that only sleeps ten times a second."""
    with _process([sys.executable, "-c", _EMPTY_LOOP], {}) as process:
        yield Program("empty loop", process)


@contextlib.contextmanager
def empty_tray(display: str) -> Iterator[Program]:
    """Run a Qt program with nothing but an icon in the tray."""
    with _process([sys.executable, "-c", _EMPTY_TRAY], desktop(display)) as process:
        yield Program("empty tray", process)


@contextlib.contextmanager
def ours(
    name: str, words: Sequence[str], folder: Path, url: str, env: Mapping[str, str], *, microphone: bool = False
) -> Iterator[Program]:
    """Run the engine or the tray with files and a job of its own, until it has ticked. Raises Unmeasured."""
    folder.mkdir()
    notes = folder / "notes"
    with notes.open("wb") as file:
        file.truncate(overhead_inside.size())
    job = f"{JOB}-{folder.name}"
    command = [sys.executable, "-m", "diagnostics.overhead_inside", str(notes), *words]
    command += _settings(url, job, microphone=microphone)
    log = folder / "log"
    with _job(folder, job), _process(command, {**env, **_homes(folder)}, log) as process:
        program = Program(name, process, notes, folder / "XDG_STATE_HOME" / "zat-scs", log)
        until(lambda: program.read().ticks, f"{name} to tick", START)
        yield program


@contextlib.contextmanager
def running_engine(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m engine` with its files in `folder`, the job suspended for the prompts of this server."""
    with _process([sys.executable, "-m", "engine", *_settings(url, JOB)], _homes(folder)) as process:
        yield process


def desktop(display: str) -> dict[str, str]:
    """Return the variables of a program on this display, without any of the user's own desktop."""
    # An address that leads nowhere: without one, D-Bus may find the bus of whoever measures.
    return {"DISPLAY": display, "QT_QPA_PLATFORM": "xcb", "DBUS_SESSION_BUS_ADDRESS": "disabled:"}


def _settings(url: str, job: str, *, microphone: bool = False) -> list[str]:
    values = {
        "SERVER_URL": url,
        "BACKGROUND_PROCESS_NAME": job,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "MICROPHONE": "on" if microphone else "off",
    }
    return [word for name, value in values.items() for word in ("--set", f"{name}={value}")]


def _homes(folder: Path) -> dict[str, str]:
    """Return the variables that keep a program's files in `folder`, where its first start is over."""
    homes = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    marker = Path(homes["XDG_DATA_HOME"], "zat-scs", "consent-answered")
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return homes


@contextlib.contextmanager
def _job(folder: Path, name: str) -> Iterator[None]:
    """Run a job that only rests: what it computed would be measured along."""
    program = folder / name
    program.symlink_to(Path(sys.executable).resolve())
    with _process([str(program), "-S", "-E", "-c", _RESTS], {}):
        yield


@contextlib.contextmanager
def _process(
    command: Sequence[str], env: Mapping[str, str], log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of ours for as long as the block lasts; one that does not give back in time is killed."""
    clean = {n: v for n, v in os.environ.items() if n not in _NOT_OURS and not n.startswith("ZAT_SCS_")}
    with open(log or os.devnull, "wb") as errors:  # noqa: PTH123 - os.devnull is no path
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            command,
            cwd=ROOT,
            env={**clean, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
