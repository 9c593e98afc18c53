"""A server that answers by script, over raw sockets: for what a real one does rarely or never twice."""

import contextlib
import json
import socket
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Reply:
    """One scripted answer; seconds and bytes.

    `body`: bytes, text, or anything else as JSON. `delay`: wait before answering. `drip`: wait between single bytes,
    of the body only if `drip_body`. `cut_after`: send so many bytes of the whole answer, then close.
    `raw`: send this instead of HTTP. `silent`: never answer. An empty `raw` closes at once.
    """

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    drip_body: bool = False
    cut_after: int | None = None
    raw: bytes | None = None
    silent: bool = False

    def head_and_body(self) -> tuple[bytes, bytes]:
        """Return what goes over the wire, in two parts."""
        if self.raw is not None:
            return b"", self.raw
        if isinstance(self.body, bytes):
            body = self.body
        else:
            body = (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()
        lines = [f"HTTP/1.1 {self.status} Scripted"]
        lines += [f"{name}: {value}" for name, value in {"Content-Length": str(len(body)), **self.headers}.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode(), body


def says_no(status: int, message: str, kind: str = "invalid_request_error") -> Reply:
    """Return an answer that says no in llama-server's own shape."""
    return Reply(status, {"error": {"code": status, "message": message, "type": kind}})


NOT_FOUND = says_no(404, "File Not Found", "not_found_error")
LOADING = says_no(503, "Loading model", "unavailable_error")


@dataclass(frozen=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class FakeServer:
    """Listens as soon as it is made; `requests` and `connections` tell what came in."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self._script: dict[str, list[Reply]] = {}
        self._closing = threading.Event()
        self._peers: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port = self._listener.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.requests: list[Request] = []
        self.connections = 0
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def on(self, path: str, *replies: Reply) -> Self:
        """Answer this path (without its query) by these replies in turn, the last one for ever; else 404."""
        self._script[path] = list(replies)
        return self

    def close(self) -> None:
        """Hang up on everybody and stop."""
        self._closing.set()
        for sock in (self._listener, *self._peers):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._peers.append(peer)
            thread = threading.Thread(target=self._serve, args=(peer,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer, peer.makefile("rb") as stream:
            while first := stream.readline():
                request = _read(first.decode(), stream)
                self.requests.append(request)
                if not self._answer(peer, self._next(request.path)):
                    return

    def _next(self, path: str) -> Reply:
        replies = self._script.get(path, [NOT_FOUND])
        return replies.pop(0) if len(replies) > 1 else replies[0]

    def _answer(self, peer: socket.socket, reply: Reply) -> bool:
        """Send one answer; return whether the connection stays open."""
        self._closing.wait(None if reply.silent else reply.delay)
        if reply.silent:
            return False
        head, body = reply.head_and_body()
        whole = (head + body)[: reply.cut_after]
        at_once = len(whole) if not reply.drip else len(head) if reply.drip_body else 0
        peer.sendall(whole[:at_once])
        for byte in whole[at_once:]:
            self._closing.wait(reply.drip)
            peer.sendall(bytes([byte]))
        return reply.cut_after is None and reply.raw is None


def _read(first: str, stream: Any) -> Request:
    method, target, _ = first.split()
    headers = {}
    while (line := stream.readline().decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    url = urlsplit(target)
    return Request(method, url.path, parse_qs(url.query), headers, body)
