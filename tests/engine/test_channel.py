"""Where the channel lies on Windows; that it works there is shown under wine."""

from pathlib import PurePosixPath

import pytest

from engine import named_pipe


def test_each_place_has_a_pipe_of_its_own() -> None:
    """The engine's and the tray's are two, as their sockets are elsewhere, and always the same two."""
    engine, tray = (named_pipe._pipe_name(PurePosixPath("/state", name)) for name in ("engine.sock", "tray.sock"))
    assert engine != tray
    assert engine == named_pipe._pipe_name(PurePosixPath("/state/engine.sock"))
    assert engine.startswith(r"\\.\pipe\zat-scs-")


def test_a_place_has_the_same_pipe_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell of another system sets LOGNAME and USER as it likes; both sides must come to the same name."""
    place = PurePosixPath("/state/engine.sock")
    names = set()
    for user in ("one", "two"):
        for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
            monkeypatch.setenv(variable, user)
        names.add(named_pipe._pipe_name(place))
    assert len(names) == 1
