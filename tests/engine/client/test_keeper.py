"""When a context is saved, what is checked of it, and what is deleted."""

import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_server import FakeServer, Reply, says_no
from helpers.rig import Call
from helpers.wait import wait_until

from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.client import contexts as contexts_module
from engine.client import costs, keeper
from engine.client.answers import Saved
from engine.client.contexts import Contexts
from engine.client.index import SavedContext
from engine.client.keeper import Keeper
from engine.client.observer import Observer
from engine.client.view import View
from engine.client.workbench import Workbench
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.errors import ServerRefused, ServerTimeout
from engine.events import ContextReport, ContextState, Event

CLOCK = SystemClock()
TALK = "The user and the model have talked about the garden for a while. " * 10


class Desk:
    """A keeper at a server."""

    def __init__(self, url: str, folder: Path, **settings: Any) -> None:
        self.settings = Settings(server_url=url, **settings)
        self.view = View(reachable=True)
        self.posted: list[Event] = []
        self.contexts = Contexts(folder / "contexts.json")
        self.bench = Workbench(self.settings, self.view, self.contexts, CLOCK, self.posted.append)
        self.keeper = Keeper(self.bench)
        self.learn()

    def learn(self) -> None:
        """Find out what the server is."""
        observer = Observer(self.settings)
        observer.look(CLOCK.now(), keen=False, busy=False)
        observer.close()
        self.view.facts = observer.facts

    @property
    def saved(self) -> SavedContext | None:
        """The newest context."""
        assert self.view.facts
        return self.contexts.best(self.view.facts, self.settings.server_url)

    @property
    def context(self) -> ContextReport:
        """The last report."""
        return [event for event in self.posted if isinstance(event, ContextReport)][-1]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Return what closes everything."""
    with ExitStack() as closing:
        yield closing


@pytest.fixture
def desk_at(stack: ExitStack, tmp_path: Path) -> Any:
    """Return a function that makes a keeper at an address."""

    def make(url: str, **settings: Any) -> Desk:
        desk = Desk(url, tmp_path, **settings)
        stack.callback(desk.bench.server.close)
        return desk

    return make


@pytest.fixture
def slots(tmp_path: Path) -> Path:
    """Return the folder of slot files."""
    folder = tmp_path / "slots"
    folder.mkdir()
    return folder


# ---- The real server -------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_a_turn_is_saved_once_and_again_when_it_grew(
    stack: ExitStack, tiny_model: Path, slots: Path, desk_at: Any
) -> None:
    """For its owner only, under two names in turn."""
    server = stack.enter_context(RealServer(tiny_model, slots, slot_save_path=slots))
    desk = desk_at(server.url)
    desk.keeper.keep()
    assert not list(slots.glob("*.bin"))
    complete(server.url, TALK, CLOCK, n_predict=2)
    desk.keeper.keep()
    first = desk.saved
    assert first
    assert (first.tokens, first.folder) == (len(TALK) + 2, str(slots))
    path = slots / first.filename
    assert (path.stat().st_size, stat.S_IMODE(path.stat().st_mode)) == (first.size, 0o600)
    desk.keeper.keep()
    complete(server.url, TALK + "x" * 20, CLOCK, n_predict=2)
    desk.keeper.keep()
    assert desk.saved == first
    complete(server.url, TALK + "x" * 90, CLOCK, n_predict=2)
    desk.keeper.keep()
    assert desk.saved
    assert desk.saved.tokens == len(TALK) + 92
    assert desk.saved.filename != first.filename
    assert {one.name for one in slots.glob("*.bin")} == {first.filename, desk.saved.filename}


@pytest.mark.real
def test_a_shorter_conversation_replaces_the_longer_after_two_turns(
    stack: ExitStack, tiny_model: Path, slots: Path, desk_at: Any
) -> None:
    """One short call in between, as for a title, does not."""
    server = stack.enter_context(RealServer(tiny_model, slots, slot_save_path=slots))
    desk = desk_at(server.url)
    for prompt, tokens in (
        (TALK, len(TALK)),
        ("A title?", len(TALK)),
        (TALK, len(TALK)),
        ("Hello", len(TALK)),
        ("Hello you", 9),
    ):
        complete(server.url, prompt, CLOCK, n_predict=1)
        desk.keeper.keep()
        assert desk.saved
        assert desk.saved.tokens == tokens + 1


@pytest.mark.real
def test_nothing_is_saved_while_it_works(stack: ExitStack, tiny_model: Path, slots: Path, desk_at: Any) -> None:
    """The slots say so, even where the watcher has not looked yet."""
    server = stack.enter_context(RealServer(tiny_model, slots, slot_save_path=slots, context=16384))
    desk = desk_at(server.url)
    talk = Call(server.url, "complete", TALK, 100_000)
    wait_until(lambda: desk.bench.server.metrics().processing)
    desk.keeper.keep()
    assert desk.bench.server.metrics().deferred == 0
    assert not list(slots.glob("*.bin"))
    talk.drop()


@pytest.mark.real
def test_a_sleeping_server_is_not_woken_to_save(stack: ExitStack, tiny_model: Path, slots: Path, desk_at: Any) -> None:
    """Even where the watcher has not seen yet that it sleeps."""
    server = stack.enter_context(RealServer(tiny_model, slots, slot_save_path=slots, sleep_idle_seconds=1))
    desk = desk_at(server.url)
    wait_until(lambda: desk.bench.server.props().is_sleeping, what="sleep")
    desk.keeper.keep()
    assert desk.bench.server.props().is_sleeping


# ---- By script -------------------------------------------------------------------------------------------------------


@pytest.fixture
def fake(stack: ExitStack) -> FakeServer:
    """Return a server with one slot that holds 1000 tokens."""
    server = stack.enter_context(FakeServer())
    props = {"total_slots": 1, "endpoint_metrics": True, "endpoint_slots": True, "model_path": "m"}
    server.on("/props", Reply(body=props))
    server.on("/slots", Reply(body=[{"id": 0, "is_processing": False, "n_prompt_tokens": 1000, "id_task": 1}]))
    server.on("/slots/0", Reply(body={"n_saved": 1000, "n_written": 5000, "timings": {}}))
    return server


def saves(fake: FakeServer) -> int:
    """Count the saves asked for."""
    return sum(request.path == "/slots/0" for request in fake.requests)


def test_on_another_machine_the_servers_answer_is_all_there_is(fake: FakeServer, desk_at: Any) -> None:
    """No file can be read from here."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    desk.keeper.keep()
    assert (desk.saved.tokens, desk.saved.size, desk.saved.stamp) == (1000, 5000, None)


@pytest.mark.parametrize(
    "answer", [{"n_saved": 0, "n_written": 36, "timings": {}}, {"n_saved": 1000, "n_written": 5000, "timings": {}}]
)
def test_an_empty_or_short_save_is_not_used_and_leaves_no_file(
    fake: FakeServer, desk_at: Any, slots: Path, answer: dict[str, Any]
) -> None:
    """A slot emptied meanwhile, or a full disk."""
    desk = desk_at(fake.url, slot_save_path=str(slots))
    name = desk.contexts.next_name(desk.view.facts, fake.url)
    (slots / name).write_bytes(b"x" * 36)
    fake.on("/slots/0", Reply(body=answer))
    desk.keeper.keep()
    assert desk.saved is None
    assert not list(slots.iterdir())


def test_a_refusal_is_final_until_the_server_restarts(fake: FakeServer, desk_at: Any) -> None:
    """501 above all: it is not asked after each turn."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    fake.on("/slots/0", says_no(501, "This server does not support slots action"))
    with pytest.raises(ServerRefused):
        desk.keeper.keep()
    desk.keeper.keep()
    assert saves(fake) == 1
    assert "does not support" in desk.context.detail
    desk.view.starts += 1
    with pytest.raises(ServerRefused):
        desk.keeper.keep()


def test_a_failure_of_the_server_is_not_final(fake: FakeServer, desk_at: Any) -> None:
    """The next turn is saved again."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    saved = {"n_saved": 1000, "n_written": 5000, "timings": {}}
    fake.on("/slots/0", says_no(500, "Compute error"), Reply(body=saved))
    with pytest.raises(ServerRefused):
        desk.keeper.keep()
    desk.keeper.keep()
    assert desk.saved


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"keep_context": False, "slot_save_path": "/x"}, "KEEP_CONTEXT"), ({}, "--slot-save-path")],
)
def test_what_keeps_it_from_saving_is_said(fake: FakeServer, desk_at: Any, settings: dict[str, Any], word: str) -> None:
    """And nothing is sent."""
    desk = desk_at(fake.url, **settings)
    desk.keeper.keep()
    assert saves(fake) == 0
    assert desk.context.context is ContextState.WARM
    assert word in desk.context.detail


@pytest.mark.parametrize("state", [{"busy": True}, {"sleeping": True}, {"reachable": False}, {"facts": None}])
def test_only_a_server_at_rest_is_asked(fake: FakeServer, desk_at: Any, state: dict[str, Any]) -> None:
    """As the watcher knows it."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    asked = len(fake.requests)
    for name, value in state.items():
        setattr(desk.view, name, value)
    desk.keeper.keep()
    assert len(fake.requests) == asked


def test_the_daily_budget_is_kept(
    fake: FakeServer, desk_at: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And said once."""
    monkeypatch.setattr(contexts_module, "DAILY_BYTES", 9000)
    monkeypatch.setattr(costs, "UNKNOWN_TOKEN", 5)
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    for tokens in (1000, 1300, 1300):
        slot = {"id": 0, "is_processing": False, "n_prompt_tokens": tokens, "id_task": 1}
        fake.on("/slots", Reply(body=[slot]))
        desk.keeper.keep()
    assert saves(fake) == 1
    assert sum("budget" in record.message for record in caplog.records) == 1


def test_a_context_that_no_longer_fits_does_not_hold_up_the_next_save(fake: FakeServer, desk_at: Any) -> None:
    """After an update of the server the conversation must be saved anew, though it did not grow."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    desk.keeper.keep()
    props = {"total_slots": 1, "endpoint_metrics": True, "endpoint_slots": True, "model_path": "m", "build_info": "b2"}
    fake.on("/props", Reply(body=props))
    desk.learn()
    desk.keeper.keep()
    assert saves(fake) == 2
    assert desk.saved.build == "b2"


def test_a_readable_file_of_another_user_is_warned_of(
    fake: FakeServer, desk_at: Any, slots: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Once; the file must be protected by whoever runs the server."""
    desk = desk_at(fake.url, slot_save_path=str(slots))
    (slots / desk.contexts.next_name(desk.view.facts, fake.url)).write_bytes(b"x" * 5000)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(self, mode)

    monkeypatch.setattr(Path, "chmod", refuse)
    desk.keeper.keep()
    assert desk.saved.stamp
    assert sum("can be read by other users" in record.message for record in caplog.records) == 1


def test_old_contexts_are_deleted(fake: FakeServer, desk_at: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After CONTEXT_HOURS."""
    desk = desk_at(fake.url, slot_save_path="/nowhere", context_hours=2.0)
    desk.keeper.keep()
    wall = CLOCK.wall()
    monkeypatch.setattr(CLOCK, "wall", lambda: wall + 1.9 * 3600)
    desk.keeper.expire()
    assert desk.saved
    monkeypatch.setattr(CLOCK, "wall", lambda: wall + 2.1 * 3600)
    desk.keeper.expire()
    assert desk.saved is None


# ---- A slow disk -----------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """Return the server with a save that does not end, on which we wait but shortly."""
    monkeypatch.setattr(keeper, "SLACK", 0.3)
    monkeypatch.setattr(costs, "UNKNOWN_TOKEN", 5000)
    return fake.on("/slots/0", Reply(silent=True))


def writes(desk: Desk, path: Path, size: int) -> None:
    """Let the next saves write so many bytes before the server answers, if it does."""
    save = desk.bench.server.save

    def written(*args: Any, **more: Any) -> Saved:
        path.write_bytes(b"x" * size)
        return save(*args, **more)

    desk.bench.server.save = written  # type: ignore[method-assign] # there is no server that would


def holds(fake: FakeServer, tokens: int) -> None:
    """Let the slot hold so many tokens."""
    fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False, "n_prompt_tokens": tokens, "id_task": 1}]))


def test_a_save_that_was_too_slow_is_not_tried_again(
    slow: FakeServer, desk_at: Any, slots: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is on disk by then tells how slow, its bytes count, and a start of ours knows it; for a day."""
    desk = desk_at(slow.url, slot_save_path=str(slots))
    name = desk.contexts.next_name(desk.view.facts, slow.url)
    writes(desk, slots / name, 100_000)
    with pytest.raises(ServerTimeout):
        desk.keeper.keep()
    own, _ = desk.contexts.cost(desk.view.facts, slow.url)
    assert own
    assert own.size == 5_000_000
    assert own.seconds >= 50 * 0.3
    assert not desk.contexts.may_write(contexts_module.DAILY_BYTES - own.size + 1, CLOCK.wall())
    for one in (desk, desk_at(slow.url, slot_save_path=str(slots))):
        for _ in range(2):
            one.keeper.keep()
        assert saves(slow) == 1
        assert "saving it would hold the server for" in one.context.detail
    assert sum("is not kept" in record.message for record in caplog.records) == 2
    holds(slow, 5)
    with pytest.raises(ServerTimeout):
        desk.keeper.keep()
    assert saves(slow) == 2
    holds(slow, 1000)
    wall = CLOCK.wall()
    monkeypatch.setattr(CLOCK, "wall", lambda: wall + 1.1 * costs.FRESH)
    with pytest.raises(ServerTimeout):
        desk.keeper.keep()


def test_where_the_file_cannot_be_seen_the_wait_alone_tells_how_slow_it_is(
    slow: FakeServer, desk_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has held the server for longer than a save may."""
    monkeypatch.setattr(costs, "LIMIT", 0.2)
    desk = desk_at(slow.url, slot_save_path="/nowhere")
    with pytest.raises(ServerTimeout):
        desk.keeper.keep()
    desk.keeper.keep()
    assert saves(slow) == 1


def test_a_save_that_was_not_begun_says_nothing_of_the_disk(slow: FakeServer, desk_at: Any, slots: Path) -> None:
    """As its file shows, it waited for a prompt."""
    desk = desk_at(slow.url, slot_save_path=str(slots))
    for count in (1, 2):
        with pytest.raises(ServerTimeout):
            desk.keeper.keep()
        assert saves(slow) == count
    assert desk.contexts.cost(desk.view.facts, slow.url) == (None, [])


def test_a_save_that_was_taken_back_says_nothing_of_the_disk(
    slow: FakeServer, desk_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt came first."""
    monkeypatch.setattr(keeper, "SLACK", 60.0)
    desk = desk_at(slow.url, slot_save_path="/nowhere")

    def take_back() -> None:
        wait_until(lambda: saves(slow))
        desk.bench.take_back()

    user = threading.Thread(target=take_back)
    user.start()
    with pytest.raises(ServerTimeout, match="taken back"):
        desk.keeper.keep()
    user.join()
    assert desk.contexts.cost(desk.view.facts, slow.url) == (None, [])


def test_how_costly_an_unknown_model_is_a_short_conversation_shows(fake: FakeServer, desk_at: Any) -> None:
    """A long one is not what it is tried with."""
    desk = desk_at(fake.url, slot_save_path="/nowhere")
    for tokens, count in ((26_000, 0), (1000, 1), (26_000, 2)):
        holds(fake, tokens)
        answer = {"n_saved": tokens, "n_written": 10_000 * tokens, "timings": {"save_ms": 0.01 * tokens}}
        fake.on("/slots/0", Reply(body=answer))
        desk.keeper.keep()
        assert saves(fake) == count


def test_what_was_written_in_vain_counts(fake: FakeServer, desk_at: Any, slots: Path) -> None:
    """The disk wears all the same."""
    desk = desk_at(fake.url, slot_save_path=str(slots))
    (slots / desk.contexts.next_name(desk.view.facts, fake.url)).write_bytes(b"x")
    desk.keeper.keep()
    assert desk.saved is None
    assert not desk.contexts.may_write(contexts_module.DAILY_BYTES - 4999, CLOCK.wall())
    name = desk.contexts.next_name(desk.view.facts, fake.url)
    fake.on("/slots/0", says_no(500, "Unable to save slot"))
    writes(desk, slots / name, 700)
    with pytest.raises(ServerRefused):
        desk.keeper.keep()
    assert not desk.contexts.may_write(contexts_module.DAILY_BYTES - 5699, CLOCK.wall())
