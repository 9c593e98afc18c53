"""An engine as a process of its own, for the phases that end it; each byte on its standard input presses a key.

python -m diagnostics.stress_engine FOLDER URL JOB

It prints a JSON line whenever something changes, and at the end which threads it left.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

from diagnostics.scripted import ScriptedKeys, ScriptedParts
from diagnostics.stress_stage import KILL, SETTLE, Job, Unmet, clock, held_by, processes_of, until
from engine import itself
from engine.daemon import stopped_by_signals
from engine.events import Snapshot
from engine.loop import Engine

START = tuple(itself.command("diagnostics.stress_engine"))
_KEYS = "stress-keys"


class Child:
    """The parent's side. `line` is the newest of what it printed, `threads` what it left at its end."""

    def __init__(self, folder: Path, url: str, job: Job) -> None:
        self.folder = folder
        self.line: dict[str, Any] = {}
        self.threads: list[str] | None = None
        words = [*START, str(folder), url, job.name]
        self.process = subprocess.Popen(  # noqa: S603 - a part of ourselves
            words,
            env=itself.environment(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, name="stress-reader")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(KILL)  # one that is stopped by us hears nothing else
        self._buried()

    @property
    def ledger(self) -> Path:
        """Where it writes down what is to be undone."""
        return self.folder / "ledger.json"

    def until(self, condition: Callable[[dict[str, Any]], object], what: str) -> float:
        """Wait until it shows something. Raises Unmet."""
        took = until(lambda: (self.line and condition(self.line)) or self.process.poll() is not None, what)
        if self.process.poll() is not None:
            raise Unmet(f"the engine ended before {what}")
        return took

    def ready(self) -> None:
        """Wait until it has found server and job."""
        self.until(lambda line: (line["server"], line["backend"]) == ("up", "process"), "server and job to be found")

    def press(self) -> None:
        """Press a key."""
        with contextlib.suppress(OSError):  # it may have been ended meanwhile
            _pipe(self.process.stdin).write(b"k")

    def end(self, number: int) -> int:
        """Send a signal; return the exit code, once it and its guardian are gone. Raises Unmet."""
        self.process.send_signal(number)
        until(lambda: self.process.poll() is not None, "the engine to end")
        self._buried()
        until(lambda: not processes_of(self.folder), "the guardian to end", SETTLE)
        return self.process.returncode

    def _buried(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                _pipe(pipe).close()

    def _read(self) -> None:
        rest = b""
        while more := os.read(_pipe(self.process.stdout).fileno(), 65536):
            *lines, rest = (rest + more).split(b"\n")
            for line in lines:
                said = json.loads(line)
                self.threads = said.get("threads", self.threads)
                self.line = said if "state" in said else self.line


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe
    return pipe


# ---- The child -------------------------------------------------------------------------------------------------------


def main(words: Sequence[str]) -> int:
    """Run the engine until a signal; then say which threads are left."""
    folder, url, job = words
    parts = ScriptedParts(clock, Path(folder))
    engine = Engine(held_by(url, Job(job, 0)), parts, clock)
    engine.subscribe(_Changes())
    threading.Thread(target=_press, args=(parts.keys,), name=_KEYS, daemon=True).start()
    with stopped_by_signals(engine):
        engine.run()
    left = {thread.name for thread in threading.enumerate()} - {threading.main_thread().name, _KEYS}
    _say({"threads": sorted(left)})
    return 0


class _Changes:
    """Prints what a phase waits for, whenever it changes."""

    def __init__(self) -> None:
        self._said: dict[str, object] = {}

    def __call__(self, seen: Snapshot) -> None:
        shown: dict[str, object] = {
            "state": seen.state.value,
            "server": seen.server.value,
            "backend": seen.backend,
            "share": seen.background_share,
        }
        if shown != self._said:
            self._said = shown
            _say(shown)


def _say(words: dict[str, object]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(words), flush=True)


def _press(keys: ScriptedKeys) -> None:
    """Press keys until the other end is closed; unbuffered, so that the end of the program can interrupt it."""
    while pressed := os.read(0, 64):
        for _ in pressed:
            keys.press(clock.now())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
