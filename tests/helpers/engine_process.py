"""The real `engine --json` as a child process: its lines are read as they come."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FROM_SOURCE = (sys.executable, "-m", "app")


class EngineProcess:
    """What the engine printed so far, and ways to wait for more."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[dict] = []
        self.log: list[str] = []
        self._more = threading.Condition()
        self._open = 2  # streams that may bring more
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def moves(self) -> list[tuple[str, str]]:
        """The transitions so far: (to, why)."""
        return [(line["transition"]["to"], line["transition"]["why"]) for line in self.lines if "transition" in line]

    @property
    def snapshots(self) -> list[dict]:
        """The snapshots so far."""
        return [line for line in self.lines if "state" in line]

    def wait_move(self, to: str, why: str, after: int = 0, timeout: float = 60.0) -> int:
        """Wait for this transition behind the first `after` ones; return how many there are up to and with it."""
        self._wait(lambda: (to, why) in self.moves[after:], f"→ {to} ({why})", timeout)
        return after + self.moves[after:].index((to, why)) + 1

    def wait_snapshot(self, what: str, condition: Callable[[dict], bool], timeout: float = 60.0) -> dict:
        """Wait until the newest snapshot, or one that comes after it, fulfils a condition; return that one."""
        known = max(len(self.snapshots) - 1, 0)
        return self._wait(lambda: next(filter(condition, self.snapshots[known:]), None), what, timeout)

    def wait_log(self, words: str, count: int = 1, timeout: float = 60.0) -> None:
        """Wait until the log holds these words so many times."""
        self._wait(lambda: sum(words in line for line in self.log) >= count, f"log: {words!r}", timeout)

    def end(self, number: int = signal.SIGTERM, timeout: float = 30.0) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout)
        for reader in self._readers:
            reader.join(10)
        return code

    def _wait(self, condition: Callable[[], Any], what: str, timeout: float) -> Any:
        """Wait for something true and return it, as it was when it was: many lines may come at once."""
        met = None

        def met_or_over() -> bool:
            nonlocal met
            met = condition()
            return bool(met) or not self._open

        with self._more:
            self._more.wait_for(met_or_over, timeout)
        tail = "".join(self.log[-30:])
        last = self.snapshots[-1] if self.snapshots else None
        assert met, f"waited {timeout:g} s for {what}\nmoves: {self.moves}\nlast: {last}\nlog:\n{tail}"
        return met

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._more:
                self.lines.append(json.loads(line))
                self._more.notify_all()
        self._ended()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.log.append(line)
                self._more.notify_all()
        self._ended()

    def _ended(self) -> None:
        """Wake whoever waits for something that will not come any more."""
        self.process.wait()
        with self._more:
            self._open -= 1
            self._more.notify_all()


def user_folders(folder: Path) -> dict[str, str]:
    """Return variables that keep a program's settings, data and state in `folder`."""
    names = {"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state"}
    return {variable: str(folder / name) for variable, name in names.items()}


@contextlib.contextmanager
def engine_process(
    folder: Path,
    settings: Mapping[str, object],
    env: Mapping[str, str] | None = None,
    program: Sequence[str] = FROM_SOURCE,
) -> Iterator[EngineProcess]:
    """Run `engine --json` with these settings and its files in `folder`; kill it at the end if it still runs."""
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE") and not name.startswith("ZAT_SCS_")
    }
    with subprocess.Popen(
        [*program, "engine", "--json", *words],
        cwd=ROOT,
        env={**clean, **user_folders(folder), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        engine = EngineProcess(process)
        try:
            yield engine
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(30)
            for reader in engine._readers:
                reader.join(10)
