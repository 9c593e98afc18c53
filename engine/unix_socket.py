"""The local channel everywhere but on Windows: a Unix socket.

Folder and socket are the owner's alone, and the system tells both ends which user the other is.
"""

import contextlib
import hashlib
import os
import socket
import stat
import struct
import sys
import tempfile
from pathlib import Path

from engine.channel import LINE_LIMIT, ControlError, translated
from engine.clock import Clock

assert sys.platform != "win32"

_LONGEST_PATH = 100  # bytes; Linux takes 107, macOS 103
_BACKLOG = 32
_SEND_BUFFER = 8192  # bytes; small, so that a slow reader is not shown old snapshots


class SocketChannel:
    """A Unix socket. `clock` measures the time a whole line may take, however slowly it drips."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._socket = connection
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._clock = clock
        self._received = bytearray()

    def send(self, line: bytes, timeout: float) -> None:
        """Send one line, given without its end."""
        with translated():
            self._socket.settimeout(timeout)
            self._socket.sendall(line + b"\n")

    def receive(self, timeout: float, limit: int = LINE_LIMIT) -> bytes | None:
        """Return one line without its end; None: the other side has left."""
        deadline = self._clock.now() + timeout
        with translated():
            while b"\n" not in self._received and len(self._received) <= limit:
                left = deadline - self._clock.now()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
                chunk = self._socket.recv(4096)
                if not chunk:
                    return None
                self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        if len(line) > limit:
            raise ControlError(f"a line may have {limit} bytes at most")
        return bytes(line)

    def is_ours(self) -> bool:
        """Tell whether the other side is a process of this user."""
        with translated():
            return _peer_user(self._socket) == os.geteuid()

    def close(self) -> None:
        """Hang up; whoever waits in `receive` is woken."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class SocketDoor:
    """A listening Unix socket; where its path is too long, it lies elsewhere and a link in its place leads there."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._path = path
        _make_private(path.parent.resolve())
        _remove_stale(path)
        self._place = path if _fits(path) else _short_place(path)
        _remove_stale(self._place)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(os.fspath(self._place))
            self._place.chmod(0o600)
            self._socket.listen(_BACKLOG)
            if self._place != path:
                path.symlink_to(self._place)
        except OSError:
            self._socket.close()
            raise

    def accept(self) -> SocketChannel:
        """Wait for the next connection."""
        return SocketChannel(self._socket.accept()[0], self._clock)

    def close(self) -> None:
        """Take it away."""
        self._socket.close()
        with contextlib.suppress(OSError):
            self._place.unlink(missing_ok=True)
            if self._place != self._path:
                self._path.unlink(missing_ok=True)
                self._place.parent.rmdir()


def connect_socket(path: Path, clock: Clock, timeout: float) -> SocketChannel:
    """Connect to who listens at `path`. Raises OSError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        place = path.readlink() if path.is_symlink() else path
        if not _fits(place):
            raise FileNotFoundError  # nobody can listen there
        connection.settimeout(timeout)
        connection.connect(os.fspath(place))
    except OSError:
        connection.close()
        raise
    return SocketChannel(connection, clock)


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= _LONGEST_PATH


def _short_place(path: Path) -> Path:
    """Return a place in a short folder of this user alone, always the same for the same path."""
    name = f"zat-scs-{os.geteuid()}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    for base in (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()):
        place = Path(base, name, path.name)
        if base and Path(base).is_dir() and _fits(place):
            _make_private(place.parent)
            return place
    raise OSError(f"no folder for temporary files has a name of less than {_LONGEST_PATH - len(name)} bytes")


def _make_private(folder: Path) -> None:
    """Make a folder that only this user can enter. Raises OSError for somebody else's, or a link."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    folder.chmod(0o700)


def _remove_stale(path: Path) -> None:
    """Remove the socket, or the link to one, of an engine that was killed; anything else is left alone."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode) and not path.is_symlink():
            raise FileExistsError(f"{path} is not a socket and is left alone")
        path.unlink()


def _peer_user(connection: socket.socket) -> int:
    """Return the number of the user at the other end, as the system knows it."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[1])
    # macOS and FreeBSD: struct xucred at level 0 (SOL_LOCAL), option 1 (LOCAL_PEERCRED): version, user, groups.
    return int(struct.unpack_from("=II", connection.getsockopt(0, 1, 76))[1])
