"""A small child process that gives everything back when this program dies or hangs; and the parent's side of it.

The child runs `python -m engine.orchestration.guardian LEDGER`, in a session of its own, and reads single bytes from
its standard input. It does nothing but undo the ledger. On Windows it is untested.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from engine import processes
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.ledger import Ledger, undo

LEASE = 2.0  # seconds without a beat, while something is held, after which the child gives back
BEAT = b"b"  # something is held
REST = b"q"  # nothing is held
LEAVE = b"x"  # the child is not needed any more
_READY = b"r"
_PATIENCE = 2.0  # seconds for the child to leave
_IGNORED = ("SIGINT", "SIGHUP", "SIGTERM", "SIGQUIT", "SIGTSTP", "SIGPIPE")


def command(ledger: Path) -> list[str]:
    """Return what starts the child."""
    return [sys.executable, "-P", "-m", "engine.orchestration.guardian", str(ledger.absolute())]


class Guardian:
    """The parent's side. `start` and `stop` belong to one thread; `beat` may come from another and never blocks."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe = threading.Lock()  # held for single writes only
        self._armed = False

    @property
    def pid(self) -> int | None:
        """The child's number, None while there is none."""
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        """The child is there and has not been stopped."""
        if self._child is None or self._child.poll() is not None:
            return False
        return (processes.state(self._child.pid) or "Z") not in "TtZ"

    @property
    def armed(self) -> bool:
        """Something is held, so beats are due."""
        return self._armed

    def start(self) -> None:
        """Start the child unless it is alive; wait until it is ready. Raises BackendUnavailable."""
        if self.alive:
            return
        self.stop()
        root = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        child = None
        try:
            child = subprocess.Popen(  # noqa: S603 - our own interpreter
                command(self._ledger),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/" if sys.platform != "win32" else None,
                env={**os.environ, "PYTHONPATH": paths},
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
        self._armed = True
        if not self.beat():
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

    def stop(self) -> None:
        """Let the child leave; what the ledger still holds it gives back first. One that does not listen is killed."""
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


# ---- The child -------------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Watch standard input until the parent leaves, dies or hangs, then give back what the ledger holds."""
    for name in _IGNORED:
        with suppress(AttributeError):  # Windows has a few of them only
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    ledger = Ledger(Path(arguments[0]))
    words: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(words,), daemon=True).start()
    os.write(1, _READY)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)
    _watch(words)
    _give_back(ledger)
    return 0


def _listen(words: "queue.SimpleQueue[bytes]") -> None:
    """Pass on what the parent says, and at last the nothing that its death leaves; a thread, since Windows needs it."""
    said = b"-"
    while said:
        said = os.read(0, 4096)
        words.put(said)


def _watch(words: "queue.SimpleQueue[bytes]") -> None:
    """Return when the parent left, died, or missed a beat while something was held."""
    armed = False
    while True:
        try:
            said = words.get(timeout=LEASE if armed else None)
        except queue.Empty:
            return
        if not said or LEAVE in said:
            return
        armed = said.endswith(BEAT)


def _give_back(ledger: Ledger) -> None:
    """Undo until nothing is left: a parent that only hung may have written more meanwhile."""
    for _ in range(10):
        try:
            entries = ledger.read()
            if not entries:
                return
            ledger.clear([one.entry for one in undo(entries) if one.settled])
        except LedgerError:
            return  # not to be trusted: the next start sets it aside and says so


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
