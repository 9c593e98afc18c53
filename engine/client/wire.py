"""The wire under api.py: one call's deadline, and how another thread cuts it. Knows sockets, not `requests`."""

import functools
import http.client
import io
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

from engine.clock import Clock

_log = logging.getLogger(__name__)


class Line:
    """The call in flight: when it must be over, and the socket to cut if it is to end sooner."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._until: float | None = None  # None: no call in flight
        self.was_cut = self.is_late = False

    def begin(self, timeout: float) -> None:
        """Start a call that must be over in `timeout` seconds."""
        with self._lock:
            self._until = self._clock.now() + timeout
            self.was_cut = self.is_late = False

    def end(self) -> None:
        """Note that the call is over: there is nothing left to cut."""
        with self._lock:
            self._until = None

    def opened(self, sock: socket.socket) -> None:
        """Note the socket of a new connection; raise if the call was cut, or its time ran out, meanwhile."""
        with self._lock:
            self._socket = sock
        self.remaining()

    def remaining(self) -> float:
        """Return the seconds left, or raise what a socket would."""
        with self._lock:
            left = (self._until or 0.0) - self._clock.now()
            self.is_late = left <= 0.0
            if self.was_cut:
                raise ConnectionAbortedError
            if self.is_late:
                raise TimeoutError
            return left

    def cut(self) -> None:
        """Break off the call in flight, if there is one; the thread that made it gets an error."""
        with self._lock:
            if self._until is None:
                return
            self.was_cut = True
            if self._socket:
                try:
                    # Past the TLS layer, which is in use by the other thread.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    _log.debug("nothing to cut: the connection is not open")


class _TimedReader(io.RawIOBase):
    """Reads from a socket, each time with what is left of the call's time: a dripping server gains nothing."""

    def __init__(self, sock: socket.socket, line: Line) -> None:
        self._socket, self._line = sock, line
        self._raw = sock.makefile("rb", buffering=0)
        self.has_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(self._line.remaining())
        count = self._raw.readinto(buffer)
        self.has_ended = count == 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, line: Line, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self._reader = _TimedReader(sock, line)
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        super().begin()
        if self._reader.has_ended:  # the library takes this for the end of the headers
            raise http.client.RemoteDisconnected("closed within the headers of its answer")


def timed(plain: type[Any], line: Line) -> Callable[..., Any]:
    """Return this class of connections, tied to our line."""

    class Timed(plain):  # type: ignore[misc] # plain or TLS, as the pool has it
        response_class = functools.partial(_Response, line=line)

        def connect(self) -> None:
            super().connect()
            line.opened(self.sock)

    return Timed
