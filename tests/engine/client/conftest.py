"""Servers and desks at them, for tests of what goes back into a server."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.restoring import TALK, Desk, Scripted, at

from diagnostics.real_server import RealServer
from engine.events import ContextReport, ContextState


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what closes everything."""
    with ExitStack() as closing:
        yield closing


@pytest.fixture
def real(stack: ExitStack, tiny_model: Path, tmp_path: Path) -> tuple[RealServer, Desk]:
    """Return a real server and a desk at it, after a turn that was saved."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path))
    desk = stack.enter_context(at(server.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    assert desk.context == ContextReport(ContextState.WARM, len(TALK) + 8, "saved")
    return server, desk


@pytest.fixture
def never_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever listens have the command line of a server that does not sleep."""
    monkeypatch.setattr("engine.client.observer.command_line", lambda _: ("llama-server",))


@pytest.fixture
def scripted(stack: ExitStack, tmp_path: Path, never_sleeps: None) -> tuple[Scripted, Desk]:
    """Return a scripted server on another machine, so to speak: its folder is not readable."""
    del never_sleeps  # before it
    script = Scripted()
    stack.callback(script.fake.close)
    desk = stack.enter_context(at(script.fake.url, tmp_path, slot_save_path="/nowhere"))
    desk.look()
    desk.keeper.keep()
    return script, desk
