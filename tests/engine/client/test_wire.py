"""The wire: one connection kept and not believed too long, certificates, and requests that are made once."""

import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from helpers.desktop import needs
from helpers.fake_server import FakeServer, Reply
from helpers.wait import wait_until

from engine.client.api import Health, LlamaServer
from engine.client.observer import Observer
from engine.config.settings import Settings
from engine.errors import ServerError, ServerUnreachable

OK = Reply(body={"status": "ok"})
METRICS = "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + b'{"status":"ok"}'


def test_a_look_is_one_question_on_the_connection_of_the_one_before() -> None:
    """Twenty looks at a server at rest cost twenty questions, whatever it took to learn who it is."""
    props = {"total_slots": 1, "endpoint_metrics": True, "endpoint_slots": True, "is_sleeping": False}
    with FakeServer() as fake:
        fake.on("/props", Reply(body=props)).on("/metrics", Reply(body=METRICS))
        observer = Observer(Settings(server_url=fake.url))
        observer.look(100.0, keen=True, busy=False)
        asked = len(fake.requests)
        for look in range(20):
            assert observer.look(100.05 + look / 20, keen=True, busy=False).work == 0
        observer.close()
    assert [request.path for request in fake.requests[asked:]] == ["/metrics"] * 20
    assert fake.connections == 1


def test_counters_that_are_the_same_are_read_once() -> None:
    """A server at rest says the same ten times a second."""
    with FakeServer() as fake, LlamaServer(fake.url) as client:
        fake.on("/metrics", Reply(body=METRICS), Reply(body=METRICS), Reply(body=METRICS.replace("0", "1")))
        first, second, third = (client.metrics() for _ in range(3))
    assert second is first
    assert (first.processing, third.processing) == (0, 1)


def test_what_came_unasked_is_no_answer() -> None:
    """Words that lie on the connection before the question belong to nobody; the next call has a fresh one."""
    with _saying(ANSWER) as (port, peers), LlamaServer(f"http://127.0.0.1:{port}") as client:
        assert client.health() is Health.OK
        peers[0].sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        wait_until(lambda: _has_words(client._wire._connection.sock), what="the words")
        assert client.health() is Health.OK
    assert len(peers) == 2


def test_a_path_is_sent_as_addresses_are_written() -> None:
    """Spaces and letters beyond ASCII as bytes with a percent sign; what is written so already stays."""
    with FakeServer() as fake, LlamaServer(f"{fake.url}/gärten hier%20da") as client:
        fake.on("/g%C3%A4rten%20hier%20da/health", OK)
        assert client.health() is Health.OK


@pytest.mark.parametrize("host", ["x" * 64, "a..b"])
def test_a_name_that_cannot_be_is_unreachable(host: str) -> None:
    """The library has an error of its own for it."""
    with LlamaServer(f"http://{host}:9") as client, pytest.raises(ServerUnreachable, match=host):
        client.health()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://[::1]", ("::1", 80)),
        ("https://[2001:db8::5]/x", ("2001:db8::5", 443)),
        ("http://[fd00::abcd]", ("fd00::abcd", 80)),
        ("http://[fd00::abcd]:8080", ("fd00::abcd", 8080)),
        ("https://example.org", ("example.org", 443)),
    ],
)
def test_an_address_without_a_port_is_that_of_its_scheme(
    monkeypatch: pytest.MonkeyPatch, url: str, address: tuple[str, int]
) -> None:
    """The end of an IPv6 address is no port: the key would go to another host."""
    tried = []

    def connect(where: tuple[str, int], *_: object) -> socket.socket:
        tried.append(where)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    with LlamaServer(url, "s3cret") as client, pytest.raises(ServerUnreachable):
        client.health()
    assert tried == [address]


def test_a_question_is_prepared_once() -> None:
    """Twenty a second: preparing each anew would be most of what a look costs."""
    with FakeServer() as fake, LlamaServer(fake.url) as client:
        fake.on("/health", OK)
        with patch.object(client._session, "prepare_request", wraps=client._session.prepare_request) as prepare:
            for _ in range(3):
                client.health()
    assert prepare.call_count == 1
    assert len(fake.requests) == 3


@needs("openssl")
def test_a_certificate_has_to_be_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the system, or by whoever set SSL_CERT_FILE; else not even the key is sent."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with _saying(ANSWER, context) as (port, _):
        url = f"https://127.0.0.1:{port}"
        with LlamaServer(url, "s3cret") as client, pytest.raises(ServerError, match="CERTIFICATE_VERIFY_FAILED"):
            client.health()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with LlamaServer(url, "s3cret") as client:
            assert client.health() is Health.OK
            assert client.health() is Health.OK
            assert client._wire._connection.sock is not None


# ---- servers of a few bytes ------------------------------------------------------------------------------------------


def _has_words(sock: socket.socket) -> bool:
    sock.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        return bool(sock.recv(1, socket.MSG_PEEK))
    return False


@contextlib.contextmanager
def _saying(words: bytes, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[socket.socket]]]:
    """Run a server that answers every question by these bytes; yield its port, and its connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    peers: list[socket.socket] = []

    def serve(peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer:
            peers.append(peer)
            line = context.wrap_socket(peer, server_side=True) if context else peer
            with line:
                while line.recv(65536):
                    line.sendall(words)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                thread = threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True)
                threads.append(thread)
                thread.start()

    threads = [threading.Thread(target=accept, daemon=True)]
    threads[0].start()
    try:
        yield listener.getsockname()[1], peers
    finally:
        for sock in (listener, *peers):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join(5)
