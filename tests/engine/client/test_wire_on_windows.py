"""The wire where a cut wakes nobody who reads, as on Windows: it is noticed within a moment all the same."""

import socket
import threading

import pytest
from helpers.fake_server import FakeServer, Reply
from helpers.wait import wait_until

from engine.client import wire
from engine.client.api import Health, LlamaServer
from engine.errors import ServerTimeout, ServerUnreachable


@pytest.fixture(autouse=True)
def as_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing happen when a socket is cut."""
    monkeypatch.setattr(wire, "_NAP", 0.02)
    monkeypatch.setattr(socket.socket, "shutdown", lambda *_: None)


def test_a_call_is_broken_off() -> None:
    """Though the server never answers."""
    said: list[str] = []

    def call() -> None:
        try:
            client.restore(0, "a.bin", timeout=60)
        except ServerUnreachable as error:
            said.append(str(error))

    with FakeServer() as fake, LlamaServer(fake.url) as client:
        fake.on("/slots/0", Reply(silent=True))
        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: fake.requests, what="the request")
        client.abort()
        thread.join(20)
        assert said == ["broken off by us"]


def test_looking_up_from_time_to_time_loses_no_answer_and_no_deadline() -> None:
    """An answer that comes in drips over several naps is whole; one that never comes is too late, not cut."""
    with FakeServer() as fake, LlamaServer(fake.url) as client:
        fake.on("/health", Reply(body={"status": "ok"}, delay=0.1, drip=0.03, drip_body=True), Reply(silent=True))
        assert client.health() is Health.OK
        with pytest.raises(ServerTimeout):
            client.health(timeout=0.2)
