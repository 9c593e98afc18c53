"""The server's side as one part: watching and acting together, from start to end."""

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from helpers.fake_server import FakeServer, Reply
from helpers.rig import Call, ask, at_work
from helpers.wait import wait_until

from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.client.link import ServerLink
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import ContextReport, ContextState, Event, PromptFinished, ServerBack, ServerLost

CLOCK = SystemClock()
TALK = "The user and the model have talked about the garden for a while. " * 10


def names() -> set[str]:
    """Return the names of the threads that run."""
    return {thread.name for thread in threading.enumerate()}


@pytest.mark.real
def test_a_context_is_kept_lost_restored_and_re_used(tiny_model: Path, tmp_path: Path) -> None:
    """The whole way, as the loop drives it."""
    posted: list[Event] = []

    def context(state: ContextState, detail: str = "") -> bool:
        reports = [event for event in posted if isinstance(event, ContextReport)]
        return bool(reports) and reports[-1].context is state and detail in reports[-1].detail

    with RealServer(tiny_model, tmp_path, slot_save_path=tmp_path) as server, ExitStack() as stack:
        link = ServerLink(Settings(server_url=server.url), tmp_path / "contexts.json", CLOCK, posted.append)
        stack.callback(link.close, 10.0)
        link.start()
        link.attend(20.0)
        wait_until(lambda: ServerBack() in posted)
        complete(server.url, TALK, CLOCK)
        wait_until(lambda: PromptFinished() in posted)
        link.keep()
        wait_until(lambda: context(ContextState.WARM, "saved"))
        server.kill()
        wait_until(lambda: any(isinstance(event, ServerLost) for event in posted))
        server.start()
        wait_until(lambda: posted.count(ServerBack()) == 2)
        assert context(ContextState.SAVED)
        link.prepare()
        wait_until(lambda: context(ContextState.RESTORED))
        reply = complete(server.url, TALK + "x" * 30, CLOCK)
        assert (reply.cache_n or 0) >= len(TALK)
    assert not names() & {"context", "server-watch"}


def test_it_ends_in_time_though_the_server_hangs(tmp_path: Path) -> None:
    """No thread is left."""
    with FakeServer() as fake:
        for path in ("/props", "/health", "/slots", "/metrics"):
            fake.on(path, Reply(silent=True))
        link = ServerLink(Settings(server_url=fake.url), tmp_path / "contexts.json", CLOCK, lambda _: None)
        link.start()
        link.prepare()
        wait_until(lambda: fake.requests)
        began = CLOCK.now()
        link.close(4.0)
        assert CLOCK.now() - began < 4.0
    assert not names() & {"context", "server-watch"}


@pytest.mark.real
def test_at_its_end_it_leaves_nobody_stranded(tiny_model: Path, tmp_path: Path) -> None:
    """A prompt behind its last action is started first."""
    with RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, context=16384) as server, ExitStack() as stack:
        complete(server.url, TALK, CLOCK)
        assert ask(server.url, "/slots/0?action=save", {"filename": "a.bin"})[0] == 200
        link = ServerLink(Settings(server_url=server.url), tmp_path / "contexts.json", CLOCK, lambda _: None)
        stack.callback(link.close, 10.0)
        link.start()
        link.attend(20.0)
        bench = link._prefetcher._bench
        wait_until(lambda: bench.view.facts)
        first = Call(server.url, "complete", TALK, 12_000)
        at_work(server.url, processing=1)
        Call(server.url, "restore", 0, "a.bin")  # as one of ours that was let go on
        at_work(server.url, processing=1, deferred=1)
        second = Call(server.url, "complete", TALK, 2)
        first.result(60.0)
        bench.view.in_doubt = True
        link.close(10.0)
        second.result()


def test_one_that_never_started_ends_at_once(tmp_path: Path) -> None:
    """Harmless."""
    ServerLink(Settings(), tmp_path / "contexts.json", CLOCK, lambda _: None).close(4.0)
