"""A server that answers with broken bytes, and the breaking of them; for phase (j) of the stress test."""

import contextlib
import json
import random
import socket
import threading
from collections.abc import Callable
from typing import Any, Self

HOST = "127.0.0.2"  # of this machine, but not a name under which anybody looks for its process
_METRICS = (
    "llamacpp:prompt_tokens_total 120\nllamacpp:prompt_tokens_cached_total 7\nllamacpp:tokens_predicted_total 31\n"
    "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n"
)
_SLOT = {"id": 0, "n_ctx": 4096, "is_processing": True, "id_task": 3, "n_prompt_tokens": 90, "next_token": []}
HONEST: dict[str, Any] = {
    "/health": {"status": "ok"},
    "/props": {
        "default_generation_settings": {"n_ctx": 4096},
        "total_slots": 1,
        "model_path": "m.gguf",
        "endpoint_slots": True,
        "endpoint_metrics": True,
        "build_info": "b1",
        "is_sleeping": False,
    },
    "/slots": [_SLOT],
    "/metrics": _METRICS,
    "/models": {"data": [{"id": "m", "status": {"value": "loaded"}}, {"id": "n", "status": {"value": "sleeping"}}]},
    "/slots/0": {
        "n_saved": 90,
        "n_written": 5000,
        "n_restored": 90,
        "n_read": 5000,
        "timings": {"save_ms": 4.0, "restore_ms": 3.0},
    },
    "/completion": {"content": "", "timings": {"cache_n": 1, "prompt_n": 2, "predicted_n": 3}},
}
_LOADING = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
_ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 31, 1 << 63, 1 << 80, -(1 << 70), 1.5, 1e308, "", "x", "7", "\ud83d\ude00", [], {}, [[]],
    {"value": None}, [None], "loaded", "sleeping", "router",
)  # fmt: skip
_NUMBERS = ("NaN", "-inf", "1e999", "-5", "", "x", "0x10", "9" * 40, "1_0", "1.5", "\u0661")
_STATUSES = (200, 200, 200, 200, 204, 301, 307, 400, 401, 404, 429, 500, 501, 503, 599)

Breaking = Callable[[random.Random, str], bytes]


class BrokenServer:
    """Answers each request by `answer(path)`, whole bytes, and hangs up."""

    def __init__(self, answer: Callable[[str], bytes]) -> None:
        self._answer = answer
        self._listener = socket.create_server((HOST, 0), backlog=64)
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="stress-server")
        self.url = f"http://{HOST}:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with contextlib.suppress(OSError), socket.create_connection(self._listener.getsockname()[:2]):
            pass  # wakes the thread
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._closing:
            peer, _ = self._listener.accept()
            with contextlib.suppress(OSError), peer, peer.makefile("rb") as stream:
                peer.settimeout(5.0)
                path = _read(stream)
                if path:
                    peer.sendall(self._answer(path))


def _read(stream: Any) -> str:
    """Return the path of a request, read to its end: unread bytes would reset the connection."""
    words = stream.readline().decode("latin-1").split()
    length = 0
    while (line := stream.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    stream.read(length)
    return words[1].partition("?")[0] if len(words) > 1 else ""


def honest(path: str) -> bytes:
    """Return what llama-server answers."""
    return reply(_body(path))


def reply(body: bytes, status: int = 200, head: str = "") -> bytes:
    """Return a whole answer."""
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{head}\r\n".encode() + body


def broken(chance: random.Random, path: str) -> bytes:
    """Return an answer that is wrong in some way."""
    return chance.choice(_WAYS)(chance, path)


def _body(path: str) -> bytes:
    value = HONEST.get(path, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}})
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _odd_value(chance: random.Random, path: str) -> bytes:
    """Replace a value somewhere, or take it away; in metrics a number."""
    if path == "/metrics":
        lines = _METRICS.splitlines()
        number = chance.randrange(len(lines))
        lines[number] = f"{lines[number].rpartition(' ')[0]} {chance.choice(_NUMBERS)}"
        return reply("\n".join(lines).encode(), head=f"Process-Start-Time-Unix: {chance.randrange(3)}\r\n")
    return reply(json.dumps(_changed(chance, json.loads(_body(path)))).encode())


def _changed(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.15:
            return {name: kept for name, kept in value.items() if name != key}
        return {**value, key: _changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        return [*value[:-1], _changed(chance, value[-1])] * chance.randint(1, 2)
    return chance.choice(_ODD)


def _flipped(chance: random.Random, path: str) -> bytes:
    """Flip bytes anywhere, the head included."""
    answer = bytearray(honest(path))
    for _ in range(chance.randint(1, 6)):
        answer[chance.randrange(len(answer))] = chance.randrange(256)
    return bytes(answer)


def _cut(chance: random.Random, path: str) -> bytes:
    answer = honest(path)
    return answer[: chance.randrange(len(answer))]


def _refused(chance: random.Random, path: str) -> bytes:
    status = chance.choice(_STATUSES)
    bodies = (_body(path), b"", json.dumps(_LOADING).encode(), b'{"error":7}', b'{"error":"no"}', b"<html>" * 50)
    head = "Location: http://192.0.2.1/\r\n" if 300 <= status < 400 else ""
    return reply(chance.choice(bodies), status, head)


def _nested(chance: random.Random, path: str) -> bytes:
    del path
    depth = chance.choice((10, 1_000, 100_000))
    return reply(chance.choice((b"[", b'{"data":', b'{"error":[')) * depth)


def _noise(chance: random.Random, path: str) -> bytes:
    del path
    noise = chance.randbytes(chance.randrange(400))
    return chance.choice((noise, b"HTTP/1.1 200 X\r\n" + noise, b"", reply(noise), b"HTTP/1.1 200 X\r\n\r\n" + noise))


def _wrong_length(chance: random.Random, path: str) -> bytes:
    body = _body(path)
    length = chance.choice(("-1", "x", str(len(body) + 9), "0", "9" * 30, ""))
    return b"HTTP/1.1 200 X\r\nContent-Length: " + length.encode() + b"\r\nConnection: close\r\n\r\n" + body


def _chunked(chance: random.Random, path: str) -> bytes:
    body, size = _body(path), chance.choice(("", "zz", "-1", "ffffffffffffffff", "1"))
    end = chance.choice((b"", b"\r\n0\r\n\r\n"))
    return b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + size.encode() + b"\r\n" + body + end


def _other_body(chance: random.Random, path: str) -> bytes:
    """Answer as another path would."""
    del path
    return honest(chance.choice(list(HONEST)))


_WAYS: tuple[Breaking, ...] = (
    _odd_value, _odd_value, _odd_value, _flipped, _cut, _refused, _refused, _nested, _noise, _wrong_length, _chunked,
    _other_body,
)  # fmt: skip
