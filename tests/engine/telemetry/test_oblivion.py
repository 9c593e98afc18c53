"""Memory that was freed is used again at once; that no title stays in it is shown by tests/engine/test_canary.py."""

import socket
import tracemalloc

from engine.telemetry.oblivion import ForgetfulLine, overwrite_freed


def test_a_forgetful_line_is_the_line_itself() -> None:
    """It receives the same, up to the size that is asked for, and all else is the socket's own."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line = ForgetfulLine(ours)
        theirs.sendall(b"a title")
        assert line.recv(4) == b"a ti"
        assert line.recv(100) == b"tle"
        assert line.fileno() == ours.fileno()
        theirs.close()
        assert line.recv(100) == b""


def test_overwriting_keeps_nothing() -> None:
    """It takes memory only for a moment."""
    overwrite_freed()
    tracemalloc.start()
    try:
        overwrite_freed()
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak > 100_000
    assert kept < 10_000
