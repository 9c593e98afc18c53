"""Measuring replies: by the two clients of the demo and the benchmark, against the stand-in server."""

from helpers.clock import FakeClock

from diagnostics import client, ttft
from diagnostics.mock_server import StandIn


def test_no_reply_comes_in_no_time() -> None:
    """Where the clock steps by 16 ms a reply may begin and come within one step; others divide by what it took."""
    with StandIn() as server:
        clock = FakeClock()
        assert client.complete(server.url, "hello", clock).first_token > 0
        assert ttft.ask(ttft.Target(server.url), "hello", clock).first > 0
