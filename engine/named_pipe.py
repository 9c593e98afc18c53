"""The local channel on Windows: a named pipe. Written for, not yet tried.

Windows' own default lets other users read from it at most, so none of them can send a command.
"""

import hashlib
import multiprocessing.connection
import os
import sys
from pathlib import Path
from typing import TypeAlias

from engine.channel import LINE_LIMIT, translated

if sys.platform == "win32":
    _Pipe: TypeAlias = (
        "multiprocessing.connection.Connection[bytes, bytes] | multiprocessing.connection.PipeConnection[bytes, bytes]"
    )
else:
    _Pipe: TypeAlias = "multiprocessing.connection.Connection[bytes, bytes]"


class PipeChannel:
    """One end of a named pipe."""

    def __init__(self, connection: _Pipe) -> None:
        self._connection = connection

    def send(self, line: bytes, timeout: float) -> None:
        """Send one line; a pipe knows no time limit, so a reader that stands still holds up its own thread only."""
        del timeout
        with translated():
            self._connection.send_bytes(line)

    def receive(self, timeout: float, limit: int = LINE_LIMIT) -> bytes | None:
        """Return one line; None: the other side has left."""
        with translated():
            try:
                if not self._connection.poll(timeout):
                    raise TimeoutError
                return self._connection.recv_bytes(limit)
            except EOFError:
                return None

    def is_ours(self) -> bool:
        """Return True: no other user can have opened our pipe. Whoever connects takes it on trust whose pipe it is."""
        return True

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


class PipeDoor:
    """A named pipe that nobody else has made before us: Windows refuses the second maker."""

    def __init__(self, path: Path) -> None:
        self._listener = multiprocessing.connection.Listener(_pipe_name(path), "AF_PIPE")

    def accept(self) -> PipeChannel:
        """Wait for the next connection."""
        return PipeChannel(self._listener.accept())

    def close(self) -> None:
        """Take it away."""
        self._listener.close()


def connect_pipe(path: Path) -> PipeChannel:
    """Connect to who listens for `path`. Raises OSError."""
    return PipeChannel(multiprocessing.connection.Client(_pipe_name(path), "AF_PIPE"))


def _pipe_name(path: Path) -> str:
    """Return a name that is the same for all processes of this user: the path lies in a folder of theirs."""
    return rf"\\.\pipe\zat-scs-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
