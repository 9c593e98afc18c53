"""The wire under api.py: one persistent connection, one call's deadline, and how another thread cuts it.

The standard library's HTTP where `requests` has pools: twenty looks a second are much of what this program costs.
"""

import http.client
import io
import logging
import math
import select
import socket
import ssl
import sys
import threading
from typing import Any
from urllib.parse import SplitResult

from engine.clock import Clock

_log = logging.getLogger(__name__)

_NAP = 0.2 if sys.platform == "win32" else math.inf  # s; there a cut does not wake whoever reads


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


class NoConnection(ConnectionError):  # noqa: N818 - what happened
    """Nobody took the connection within the call's time."""


class _TimedReader(io.RawIOBase):
    """Reads from a socket, each time with what is left of the call's time: a dripping server gains nothing."""

    def __init__(self, sock: socket.socket, line: Line) -> None:
        self._socket, self._line = sock, line
        self._raw = sock.makefile("rb", buffering=0)
        self.has_ended = False

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Be what http.client reads an answer from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        while True:
            self._socket.settimeout(min(self._line.remaining(), _NAP))
            try:
                count = self._socket.recv_into(buffer)
            except TimeoutError:  # remaining() tells whose time is over
                continue
            self.has_ended = count == 0
            return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, line: Line, method: str | None) -> None:
        self._reader = _TimedReader(sock, line)
        super().__init__(self._reader, method=method)  # type: ignore[arg-type] # it only asks for a file to read

    def begin(self) -> None:
        super().begin()
        if self._reader.has_ended:  # the library takes this for the end of the headers
            raise http.client.RemoteDisconnected("closed within the headers of its answer")


class _Tied(http.client.HTTPConnection):
    """A connection whose every wait ends with the call on `line`. The environment's proxies mean nothing to it."""

    line: Line

    def connect(self) -> None:
        self.timeout = self.line.remaining()
        try:
            super().connect()
        except TimeoutError as error:
            raise NoConnection from error
        self.line.opened(self.sock)

    def response_class(self, sock: socket.socket, *, method: str | None) -> _Response:  # type: ignore[override] # a method makes one, too
        return _Response(sock, self.line, method)

    def get_ready(self) -> None:
        """Let go of a connection that the server has closed meanwhile; let what is sent have the call's time."""
        if self.sock is None:
            return
        if _has_news(self.sock):
            self.close()
        else:
            self.sock.settimeout(self.line.remaining())


class _TiedTls(_Tied, http.client.HTTPSConnection):
    """The same over TLS: `connect` goes on to HTTPSConnection's."""


def tied(url: SplitResult, line: Line, authorities: str) -> _Tied:
    """Return a connection to this address, not open yet, tied to `line`. `authorities`: a file of certificates."""
    host = url.hostname or ""
    port = url.port or (443 if url.scheme == "https" else 80)  # else the library looks for one in an IPv6 address
    if url.scheme == "https":
        # The system's certificates; on a Mac, or packed for any Linux, Python finds none.
        trust = ssl.create_default_context()
        trust.load_verify_locations(authorities)
        made: _Tied = _TiedTls(host, port, context=trust)
    else:
        made = _Tied(host, port)
    made.line = line
    return made


def _has_news(sock: socket.socket) -> bool:
    """Tell whether something, or its end, came over a connection on which nothing was asked."""
    if sys.platform == "win32":  # without poll, and without select's limit elsewhere
        return bool(select.select([sock], [], [], 0)[0])
    news = select.poll()
    news.register(sock, select.POLLIN)
    return bool(news.poll(0))
