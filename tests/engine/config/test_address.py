"""What an address may look like, and whether it stays on this machine."""

import pytest

from engine.config.address import can_exist, is_local


@pytest.mark.parametrize("address", ["http://h", "http://h:1/a", "ws://[::1]:65535/", "h:31416", "[::1]:31416"])
def test_addresses_that_can_exist(address: str) -> None:
    """With and without scheme, port and path."""
    assert can_exist(address)


@pytest.mark.parametrize(
    "address",
    ["", "http://", "http://:80", "http://h:0", "http://h:65536", "http://[:::]", "http://[1.2.3.4]", "http://[::1"],
)
def test_addresses_that_cannot_exist(address: str) -> None:
    """No host, no such port, or no IPv6 address in brackets."""
    assert not can_exist(address)


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.9.9.9", "http://LOCALHOST", "http://[::1]:1/a"])
def test_this_machine(url: str) -> None:
    """Loopback numbers of both kinds, and the one name."""
    assert is_local(url)


@pytest.mark.parametrize(
    "url", ["http://192.168.0.2", "http://127.example.org", "http://localhost.example.org", "http://[fe80::1]"]
)
def test_another_machine(url: str) -> None:
    """Also names that only look like loopback."""
    assert not is_local(url)
