"""The keyboard hook in a small process of its own, so that a busy interface never delays anybody's keys.

The child runs `python -m engine.telemetry.hook_process`. Its first line is "ready" or "unavailable REASON"; then comes
one line a press, "SECONDS KIND", counted from when it was ready. It ends at the end of its input, also when its parent
dies. Nothing else about a key ever leaves it. On Windows and macOS it is untested.
"""

import contextlib
import math
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence

from engine import itself
from engine.clock import Clock, SystemClock
from engine.errors import SensorUnavailable
from engine.telemetry.evidence import KeyKind, KeyPress

PATIENCE = 10.0  # s for the child to be ready: a cold disk, a virus scanner
LEAVING = 1.0  # s for it to end
_READY = "ready"
_UNAVAILABLE = "unavailable "
_COMMAND = tuple(itself.command("engine.telemetry.hook_process"))


class HookProcess:
    """The parent's side, with the face of a listener: `heard` counts presses, `presses` takes them."""

    def __init__(self, clock: Clock, presses: deque[KeyPress], command: tuple[str, ...] = _COMMAND) -> None:
        self.heard = 0
        self._clock = clock
        self._presses = presses
        self._closed = False
        self._answer = ""
        self._answered = threading.Event()
        self._child = _start(command)
        self._reader = threading.Thread(target=self._read, name="keyboard hook", daemon=True)
        self._reader.start()
        self._answered.wait(PATIENCE)
        if self._answer != _READY:
            self.close()
            reason = self._answer.removeprefix(_UNAVAILABLE) if self._answer.startswith(_UNAVAILABLE) else ""
            raise SensorUnavailable(reason or "the keyboard hook's process did not start")

    @property
    def alive(self) -> bool:
        """The child runs and its lines are read."""
        return self._child.poll() is None and self._reader.is_alive()

    def close(self) -> None:
        """End the child."""
        self._closed = True
        assert self._child.stdin
        with contextlib.suppress(OSError):  # it may be gone
            self._child.stdin.close()
        try:
            self._child.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._reader.join(LEAVING)

    def _read(self) -> None:
        assert self._child.stdout
        with self._child.stdout as lines:
            self._answer = lines.readline().strip()
            ready_at = self._clock.now()
            self._answered.set()
            for line in lines:
                press = understood(line, ready_at, self._clock.now())
                if press is not None and not self._closed:
                    self.heard += 1
                    self._presses.append(press)


def understood(line: str, ready_at: float, now: float) -> KeyPress | None:
    """Return the press in one line of the child's, None for anything else; no press lies in the future."""
    seconds, _, kind = line.strip().partition(" ")
    try:
        offset = float(seconds)
        return KeyPress(min(now, ready_at + offset), KeyKind(kind)) if math.isfinite(offset) else None
    except ValueError:
        return None


def _start(command: tuple[str, ...]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(  # noqa: S603 - a part of ourselves
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=itself.environment(),
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise SensorUnavailable(f"the keyboard hook's process cannot be started: {error.strerror}") from error


# ---- the child -------------------------------------------------------------------------------------------------------


class _Outbox:
    """Takes presses from the hook's callback, which must be quick, and hands them to the main thread."""

    def __init__(self) -> None:
        self._presses: queue.SimpleQueue[KeyPress | None] = queue.SimpleQueue()
        self.append = self._presses.put
        self.next = self._presses.get


def main(words: Sequence[str] = ()) -> int:
    """Run the child."""
    del words
    from engine.telemetry import keyboard  # noqa: PLC0415 - the parent's side is imported by it

    clock, outbox = SystemClock(), _Outbox()
    try:
        listening = keyboard.Listening(keyboard.listener_type(), clock, outbox)
    except SensorUnavailable as error:
        _say(f"{_UNAVAILABLE}{error}")
        return 1
    since = clock.now()
    _say(_READY)
    threading.Thread(target=_await_end, args=(outbox,), daemon=True).start()
    with contextlib.suppress(OSError):  # the parent reads no more
        while (press := outbox.next()) is not None and listening.alive:
            _say(f"{press.at - since:.3f} {press.kind.value}")
    listening.close()
    return 0


def _await_end(outbox: _Outbox) -> None:
    sys.stdin.read()
    outbox.append(None)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
