"""A small child process that gives everything back when this program dies or hangs; and the parent's side of it.

The child runs `python -m engine.orchestration.guardian LEDGER`, in a session of its own, and reads single bytes from
its standard input. It does nothing but undo the ledger.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from engine import itself, processes
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.ledger import Entry, Ledger, Untrusted
from engine.orchestration.undoing import get_ready, undo

LEASE = 2.0  # seconds without a beat, while something is held, after which the child gives back
ARM = b"a"  # something is about to be held, and stands in the ledger
BEAT = b"b"  # something is held
REST = b"q"  # nothing is held
LEAVE = b"x"  # the child is not needed any more
_READY = b"r"
_PATIENCE = 2.0  # seconds for the child to leave
# Seconds before each try of the child to give back: two minutes in all. A job that is restarting answers by then.
_PAUSES = (0.0, 0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_FRESH = 1.0  # seconds after which a change of the file is no more the parent's
_PEEK = 0.05  # seconds between two looks into the pipe on Windows
_IGNORED = ("SIGINT", "SIGHUP", "SIGTERM", "SIGQUIT", "SIGTSTP", "SIGPIPE")


def command(ledger: Path) -> list[str]:
    """Return what starts the child."""
    return itself.command("engine.orchestration.guardian", str(ledger.absolute()))


class Guardian:
    """The parent's side. `start` and `stop` belong to one thread; `beat` may come from another and never blocks."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._child: subprocess.Popen[bytes] | None = None
        self._left: list[subprocess.Popen[bytes]] = []  # still giving back when they were left
        self._pipe = threading.Lock()  # held for single writes only
        self._armed = False

    @property
    def pid(self) -> int | None:
        """The child's number, None while there is none."""
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        """The child is there, listens, and has not been stopped. It stops listening before it gives anything back."""
        child = self._child
        if child is None or child.poll() is not None:
            return False
        if sys.platform != "win32" and (processes.state(child.pid) or "Z") in "TtZ":  # a look takes long on Windows
            return False
        return _is_read(child.stdin)

    @property
    def armed(self) -> bool:
        """Something is held, so beats are due."""
        return self._armed

    def start(self) -> None:
        """Start the child unless it is alive; wait until it is ready. Raises BackendUnavailable."""
        if self.alive:
            return
        self.stop()
        try:
            child = subprocess.Popen(  # noqa: S603 - a part of ourselves
                command(self._ledger),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/" if sys.platform != "win32" else None,
                env=itself.environment(),
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            raise BackendUnavailable(f"the guardian cannot be started: {error.strerror}") from None
        assert child.stdin
        assert child.stdout
        with child.stdout:
            ready = child.stdout.read(1) == _READY
        if sys.platform != "win32":
            os.set_blocking(child.stdin.fileno(), False)
        with self._pipe:
            self._child = child
        if not ready:
            self.stop()
            raise BackendUnavailable("the guardian ended while it was starting")

    def arm(self) -> None:
        """See to it that the child is alive and knows that something is held. Raises BackendUnavailable."""
        self.start()
        with self._pipe:
            self._armed = True
            heard = self._say(ARM)
        if not heard:
            raise BackendUnavailable("the guardian does not listen")

    def beat(self) -> bool:
        """Renew the child's lease while something is held; False: it should be and the child is not there."""
        with self._pipe:
            return not self._armed or self._say(BEAT)

    def rest(self) -> None:
        """Tell the child that nothing is held."""
        with self._pipe:
            self._armed = False
            self._say(REST)

    def stop(self, *, patient: bool = False) -> None:
        """Let the child leave; what the ledger still holds it gives back first.

        One that does not listen is killed; so is one that takes long, unless `patient`: then it goes on by itself.
        """
        with self._pipe:
            self._armed = False
            told = self._say(LEAVE)
            child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin
        child.stdin.close()
        try:
            child.wait(_PATIENCE if told else 0)
        except subprocess.TimeoutExpired:
            if told and patient:
                self._left.append(child)
                return
            child.kill()
            child.wait()

    def _say(self, word: bytes) -> bool:
        if not self.alive:
            return False
        assert self._child
        assert self._child.stdin
        try:
            return self._child.stdin.write(word) == 1  # None: the pipe is full, since the child reads no more
        except OSError:
            return False


def _is_read(pipe: IO[bytes] | None) -> bool:
    """Tell whether somebody still has the other end of a pipe that is written to; Windows only tells by a write."""
    assert pipe
    if sys.platform == "win32":
        return True
    question = select.poll()
    question.register(pipe.fileno(), 0)
    return not question.poll(0)


# ---- The child -------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Watch standard input until the parent leaves, dies or hangs, then give back what the ledger holds."""
    for name in _IGNORED:
        with suppress(AttributeError):  # Windows has a few of them only
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    ledger = Ledger(Path(arguments[0]))
    os.write(1, _READY)
    os.dup2(2, 1)
    held = _watch(_hear, ledger)
    os.dup2(2, 0)  # from here on the parent sees that nobody listens
    _give_back(ledger, held)
    return 0


if sys.platform == "win32":
    import _winapi
    import msvcrt

    def _hear(timeout: float | None) -> bytes | None:
        """Return what the parent said, b"" once it is dead, None if it said nothing in time.

        Nobody can wait for a pipe with a time limit here, and no other thread may do it: as long as it reads, the C
        runtime holds the descriptor, so that main() could not stop listening.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is not None:
            try:
                if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(0), 0)[0]:
                    break
            except OSError:  # the parent has let go of it
                return b""
            if time.monotonic() >= deadline:
                return None
            time.sleep(_PEEK)
        return os.read(0, 4096)

else:

    def _hear(timeout: float | None) -> bytes | None:
        """Return what the parent said, b"" once it is dead, None if it said nothing in time."""
        return os.read(0, 4096) if select.select([0], [], [], timeout)[0] else None


def _watch(hear: Callable[[float | None], bytes | None], ledger: Ledger) -> tuple[Entry, ...]:
    """Return when the parent left, died, or missed a beat while something was held; what is held, as last read."""
    armed = False
    held: tuple[Entry, ...] = ()
    while True:
        said = hear(LEASE if armed else None)
        if not said:
            return held
        if ARM in said:
            with suppress(LedgerError, OSError):
                held = ledger.read()
                get_ready(held)
        armed = said.replace(LEAVE, b"").endswith((ARM, BEAT))
        if REST in said and not armed:
            held = ()
        if LEAVE in said:
            return held


def _give_back(ledger: Ledger, held: tuple[Entry, ...]) -> None:
    """Undo until nothing is left: a parent that only hung may have written more meanwhile, a job may be gone a while.

    `held`: what stood in the ledger when it was last read; somebody may have deleted or spoiled it since.
    Whoever starts next may hold the same job again: once somebody else has written, only the fresh part is over.
    """
    known = _written(ledger)
    for pause in _PAUSES:
        time.sleep(pause)
        if pause > _FRESH and _differ(known, _written(ledger)):
            return
        try:
            entries = ledger.read()
            settled = [one.entry for one in undo(entries) if one.settled]
            held = () if entries else _still_held(held)
            if not entries and not held:
                return
            with suppress(ImportError):  # the program is deleted: nothing can be struck out, and is undone once more
                ledger.clear(settled)
        except Untrusted:
            _still_held(held)
            return  # the next start sets it aside and says so
        except (OSError, LedgerError):  # of the disk, or somebody has the file open: it may pass
            held = _still_held(held)
        known = _written(ledger) or known


def _still_held(held: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Undo what was remembered; return what is not settled. What was given back already is left as it is."""
    return tuple(one.entry for one in undo(held) if not one.settled)


def _written(ledger: Ledger) -> tuple[int, int] | None:
    """Return what changes whenever the file is written, None where the disk does not tell."""
    try:
        found = ledger.path.stat()
    except FileNotFoundError:
        return 0, 0
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _differ(before: tuple[int, int] | None, after: tuple[int, int] | None) -> bool:
    """Tell whether the file was certainly written in between."""
    return before is not None and after is not None and before != after


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
