"""Asking a llama-server, real or not, without our client, and keeping one of its slots busy."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from helpers.wait import wait_until

from engine.client.api import LlamaServer
from engine.errors import ServerError


def ask(url: str, path: str, body: Any = None, *, method: str = "", key: str = "") -> tuple[int, Any]:
    """Return status and JSON (or text) of one call; bytes are sent as they are, anything else as JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        connection.request(method or ("GET" if data is None else "POST"), path, data, headers)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    try:
        return response.status, json.loads(text)
    except ValueError:
        return response.status, text


def refusal(url: str, path: str, body: Any = None, *, method: str = "") -> tuple[int, str]:
    """Return status and message of a call that is refused; its shape is checked."""
    status, answer = ask(url, path, body, method=method)
    assert set(answer["error"]) >= {"code", "message", "type"}, answer
    assert answer["error"]["code"] == status
    return status, answer["error"]["message"]


class Call:
    """One call of our client on a thread and a connection of its own."""

    def __init__(self, url: str, name: str, *args: Any) -> None:
        self.client = LlamaServer(url)
        self.answer: Any = None
        self.error: ServerError | None = None
        self._thread = threading.Thread(target=self._run, args=(name, args))
        self._thread.start()

    def _run(self, name: str, args: tuple[Any, ...]) -> None:
        try:
            self.answer = getattr(self.client, name)(*args, timeout=60)
        except ServerError as error:
            self.error = error
        finally:
            self.client.close()

    @property
    def is_over(self) -> bool:
        """Whether it has been answered, or has failed."""
        return not self._thread.is_alive()

    def result(self, timeout: float = 30.0) -> Any:
        """Wait for the answer and return it."""
        self._thread.join(timeout)
        assert self.is_over, "the call was never answered"
        if self.error:
            raise self.error
        return self.answer

    def drop(self) -> None:
        """Hang up."""
        self.client.abort()
        self._thread.join(30)


QUIET = 1.3  # seconds; see at_work


def at_work(url: str, *, processing: int, deferred: int = 0, gap: float = 0.0) -> None:
    """Wait until the server shows so many prompts at work and calls that wait; look every `gap` seconds.

    llama-server looks once a second for clients that hung up, but begins that second anew with each result for
    anybody, /metrics and /slots included: who waits for a hang-up to show must look less often (QUIET).
    """
    with LlamaServer(url) as watcher:

        def seen() -> bool:
            time.sleep(gap)
            metrics = watcher.metrics()
            return (metrics.processing, metrics.deferred) == (processing, deferred)

        wait_until(seen, what=f"{processing} at work and {deferred} waiting")


@contextmanager
def busy(url: str) -> Iterator[None]:
    """Keep a slot busy, by a reply that takes long, until its client hangs up; it may take a second to show."""
    call = Call(url, "complete", "talk " * 20, 100_000)
    try:
        at_work(url, processing=1)
        yield
    finally:
        call.drop()
