"""A restorer and a keeper at a server, real or scripted, on one thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.fake_server import FakeServer, Reply

from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.client.api import LlamaServer
from engine.client.contexts import Contexts
from engine.client.keeper import Keeper
from engine.client.restorer import Restorer
from engine.client.view import Facts, Reuse, View
from engine.client.watcher import Watcher
from engine.client.workbench import Workbench
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import ContextReport, Event

TALK = "The user and the model have talked about the garden for a while. " * 10
OTHER = "Nobody knows where the old map has gone to. " * 4
CLOCK = SystemClock()


class Spy(LlamaServer):
    """Our client, which notes what it asks."""

    asked: list[str]

    def _ask(self, method: str, path: str, *args: Any, **more: Any) -> Any:
        action = (more.get("query") or {}).get("action")
        self.asked.append(action or path)
        return super()._ask(method, path, *args, **more)


class Desk:
    """A restorer and a keeper at a server, and a watcher that looks when told to; all on one thread."""

    def __init__(self, url: str, index: Path, **settings: Any) -> None:
        self.settings = Settings(server_url=url, **settings)
        self.view = View()
        self.posted: list[Event] = []
        self.bench = Workbench(self.settings, self.view, Contexts(index), CLOCK, self.posted.append)
        self.bench.server = self.spy = Spy(url)
        self.spy.asked = []
        self.restorer = Restorer(self.bench)
        self.keeper = Keeper(self.bench)
        self.watcher = Watcher(self.settings, self.view, CLOCK, self.posted.append, self)

    def close(self) -> None:
        """Hang up."""
        self.spy.close()
        self.watcher._observer.close()

    def noticed(self, reuse: Reuse | None) -> None:
        """Judge at once."""
        self.restorer.judge(reuse)

    def take_back(self) -> None:
        """Do nothing: there is one thread only."""

    def free(self) -> None:
        """Do nothing: tested with the workbench."""

    def look(self) -> None:
        """Take one look."""
        self.watcher._look()

    def turn(self, prompt: str) -> int:
        """Prompt as a user does, seen by the watcher; return how many tokens were re-used."""
        self.look()
        reply = complete(self.settings.server_url, prompt, CLOCK)
        self.look()
        assert reply.cache_n is not None
        return reply.cache_n

    def prepare(self) -> list[str]:
        """Prepare once, and return what that asked the server."""
        before = len(self.spy.asked)
        assert self.view.facts
        self.restorer.prepare(self.view.facts)
        return self.spy.asked[before:]

    @property
    def context(self) -> ContextReport:
        """The last report."""
        return [event for event in self.posted if isinstance(event, ContextReport)][-1]


@contextmanager
def at(url: str, folder: Path, **settings: Any) -> Iterator[Desk]:
    """Return a desk at this server."""
    desk = Desk(url, folder / "contexts.json", **settings)
    try:
        yield desk
    finally:
        desk.close()


def restart(server: RealServer, desk: Desk) -> None:
    """Start the server anew; the watcher sees it."""
    server.kill()
    desk.look()
    server.start()
    desk.look()


def facts_of(desk: Desk) -> Facts:
    """Return what is known of its server."""
    assert desk.view.facts
    return desk.view.facts


class Scripted:
    """A fake server that saves and restores `tokens`, and counts as llama-server does."""

    def __init__(self, tokens: int = 1108) -> None:
        self.fake = FakeServer()
        self.counts(0, 0, 0)
        self.build("b1")
        self.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False, "id_task": 1, "n_prompt_tokens": tokens}]))
        answer = {"n_saved": tokens, "n_written": 5000, "n_restored": tokens, "n_read": 5000, "timings": {}}
        self.fake.on("/slots/0", Reply(body=answer))

    def build(self, name: str) -> None:
        """Be this build."""
        props = {"total_slots": 1, "default_generation_settings": {"n_ctx": 9999}, "build_info": name}
        props |= {"endpoint_metrics": True, "endpoint_slots": True, "model_path": "/nowhere/m.gguf"}
        self.fake.on("/props", Reply(body=props))

    def counts(self, cached: int, computed: int, predicted: int, mark: str = "1") -> None:
        """Show these totals."""
        lines = ("requests_processing 0", "requests_deferred 0", f"prompt_tokens_cached_total {cached}")
        lines += (f"prompt_tokens_total {computed}", f"tokens_predicted_total {predicted}")
        body = "".join(f"llamacpp:{line}\n" for line in lines)
        self.fake.on("/metrics", Reply(body=body, headers={"Process-Start-Time-Unix": mark}))


def restore_and_prompt(script: Scripted, desk: Desk, number: int, *, cached: int, computed: int) -> None:
    """Lose and restore the context; then a prompt takes these tokens."""
    script.counts(0, 0, 0, mark=f"{number}")
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}]))
    desk.look()
    desk.look()
    desk.prepare()
    desk.look()
    script.counts(cached, computed, 9, mark=f"{number}")
    desk.look()
