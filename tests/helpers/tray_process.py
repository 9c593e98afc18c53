"""The real tray as a child process on a screen of its own."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from helpers.engine_process import FROM_SOURCE, ROOT, user_folders
from helpers.wait import wait_until

from engine.channel import ControlError
from engine.control_client import Answer, ControlClient


class TrayProcess:
    """A running tray, its files in `folder`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.state = folder / "state" / "zat-scs"

    @property
    def log(self) -> str:
        """What it has written into its log so far."""
        path = self.state / "log" / "zat-scs.log"
        return path.read_text("utf-8") if path.exists() else ""

    def wait_log(self, words: str) -> None:
        """Wait until the log holds these words."""
        wait_until(lambda: words in self.log, what=f"{words!r} in the log")

    def ask(self, command: str = "status", seconds: float | None = None) -> Answer:
        """Send a command to its engine; return the answer."""
        with ControlClient(self.state / "engine.sock") as client:
            return client.request(command, seconds)

    def snapshot(self) -> Answer:
        """Return its newest snapshot, empty while there is none."""
        try:
            return self.ask()["snapshot"]
        except ControlError:
            return {}

    def wait_snapshot(self, what: str, **values: object) -> None:
        """Wait until the newest snapshot has these values."""

        def shown() -> bool:
            assert self.process.poll() is None, self.errors()
            snapshot = self.snapshot()
            return all(name in snapshot and snapshot[name] == value for name, value in values.items())

        wait_until(shown, timeout=60, what=f"{what}: {values}")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code and what it had written to stderr."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it had written to stderr."""
        _, errors = self.process.communicate(timeout=40)
        return self.process.returncode, errors

    def errors(self) -> str:
        """Return what a process that has ended wrote to stderr."""
        return self.process.communicate()[1]


@contextlib.contextmanager
def tray_process(
    folder: Path,
    screen: str,
    settings: Mapping[str, object],
    *words: str,
    env: Mapping[str, str] | None = None,
    answered: bool = True,
    program: Sequence[str] = FROM_SOURCE,
) -> Iterator[TrayProcess]:
    """Run the tray; kill it at the end if it still runs. `answered`: the first start is over."""
    folders = user_folders(folder)
    if answered:
        marker = Path(folders["XDG_DATA_HOME"]) / "zat-scs" / "consent-answered"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    left_out = ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
    clean = {n: v for n, v in os.environ.items() if n not in left_out and not n.startswith("ZAT_SCS_")}
    # An address that leads nowhere: without one, D-Bus may find the bus of whoever runs the tests.
    here = {"DISPLAY": screen, "QT_QPA_PLATFORM": "xcb", "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    with subprocess.Popen(
        [*program, *words, *sets],
        cwd=ROOT,
        env={**clean, **folders, **here, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield TrayProcess(process, folder)
        finally:
            if process.poll() is None:
                process.kill()
