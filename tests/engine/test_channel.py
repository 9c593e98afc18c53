"""Where the channel lies on Windows; that it works there is shown under wine."""

from pathlib import PurePosixPath

from engine import channel


def test_each_place_has_a_pipe_of_its_own() -> None:
    """The engine's and the tray's are two, as their sockets are elsewhere, and always the same two."""
    engine, tray = (channel._pipe_name(PurePosixPath("/state", name)) for name in ("engine.sock", "tray.sock"))
    assert engine != tray
    assert engine == channel._pipe_name(PurePosixPath("/state/engine.sock"))
    assert engine.startswith(r"\\.\pipe\zat-scs-")
