"""A saved context goes back into the real server after a seen loss, and never otherwise."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_server import LOADING, FakeServer, Reply, says_no
from helpers.rig import Call, ask
from helpers.wait import wait_until

from diagnostics import tiny_model as writer
from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.account import PromptReport
from engine.client.answers import Kind
from engine.client.api import LlamaServer
from engine.client.contexts import Contexts
from engine.client.keeper import Keeper
from engine.client.prefetcher import Prefetcher
from engine.client.restorer import Restorer
from engine.client.view import Facts, Reuse, View
from engine.client.watcher import Watcher
from engine.client.workbench import Workbench
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.errors import ServerHungUp, ServerLoading, ServerUnreachable
from engine.events import ContextReport, ContextState, Event

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


def restart(server: RealServer, desk: Desk) -> None:
    """Start the server anew; the watcher sees it."""
    server.kill()
    desk.look()
    server.start()
    desk.look()


# ---- It restores -----------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_after_a_restart_the_context_comes_back_once(real: tuple[RealServer, Desk]) -> None:
    """The next prompt finds it, and a second preparation sends nothing, though a fresh slot shows nothing."""
    server, desk = real
    server.kill()
    desk.look()
    assert desk.context == ContextReport(ContextState.SAVED, len(TALK) + 8, "the server was lost")
    server.start()
    desk.look()
    assert desk.prepare() == ["/slots", "restore"]
    assert desk.context == ContextReport(ContextState.RESTORED, len(TALK) + 8)
    assert desk.prepare() == ["/slots"]
    assert desk.turn(TALK + "x" * 40) >= len(TALK)
    assert desk.prepare() == ["/slots"]
    assert desk.context.context is ContextState.WARM


@pytest.mark.real
def test_a_restart_that_no_look_met_is_a_loss_too(real: tuple[RealServer, Desk]) -> None:
    """Its process is another one."""
    server, desk = real
    server.restart()
    for _ in range(3):
        desk.look()
    assert desk.prepare() == ["/slots", "restore"]


@pytest.mark.real
def test_an_erased_slot_is_filled_again(real: tuple[RealServer, Desk]) -> None:
    """It is empty, and the server has but one."""
    server, desk = real
    assert ask(server.url, "/slots/0?action=erase", method="POST")[0] == 200
    desk.look()
    assert desk.prepare() == ["/slots", "restore"]
    assert ask(server.url, "/slots/0?action=erase", method="POST")[0] == 200
    assert desk.prepare() == ["/slots", "restore"]
    assert desk.turn(TALK) == len(TALK)


@pytest.mark.real
def test_asleep_one_call_wakes_and_restores(stack: ExitStack, tiny_model: Path, tmp_path: Path) -> None:
    """Its slots are not asked for first, and waking it is no arrival of a prompt."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, sleep_idle_seconds=3))
    desk = stack.enter_context(at(server.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    wait_until(lambda: (desk.look(), desk.view.sleeping)[1], what="sleep")
    desk.keeper.keep()  # does not wake it
    assert desk.prepare() == ["/props", "restore"]
    posted = len(desk.posted)
    desk.look()
    desk.look()
    assert not [event for event in desk.posted[posted:] if type(event).__name__.startswith("Prompt")]
    assert not desk.view.sleeping
    assert desk.turn(TALK) == len(TALK)
    assert desk.view.own_requests == 0


@pytest.mark.real
def test_asleep_without_a_context_it_is_woken(stack: ExitStack, tiny_model: Path, tmp_path: Path) -> None:
    """Loading the model is worth something by itself."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, sleep_idle_seconds=1))
    desk = stack.enter_context(at(server.url, tmp_path))
    wait_until(lambda: (desk.look(), desk.view.sleeping)[1], what="sleep")
    assert desk.prepare() == ["/props", "/slots"]
    assert "--slot-save-path" in desk.context.detail


@pytest.mark.real
def test_while_prepared_it_does_not_fall_asleep_and_afterwards_it_may(
    stack: ExitStack, tiny_model: Path, tmp_path: Path
) -> None:
    """A prompt that takes longer to type than the server stays awake finds its context all the same."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, sleep_idle_seconds=3))
    desk = stack.enter_context(at(server.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    wait_until(lambda: (desk.look(), desk.view.sleeping)[1], what="sleep")
    helper = Prefetcher(desk.settings, desk.view, desk.bench.contexts, CLOCK, desk.posted.append)
    stack.callback(helper.close, 5.0)
    helper._bench.server = spy = Spy(server.url)
    spy.asked = []
    helper.start()
    helper.prepare()
    wait_until(
        lambda: (desk.look(), spy.asked.count("/slots") >= 9)[1], what="three times as long as it takes to sleep"
    )
    assert spy.asked.count("restore") == 1
    assert desk.turn(TALK) == len(TALK)
    helper.cancel()
    wait_until(lambda: (desk.look(), desk.view.sleeping)[1], what="sleep")


# ---- It does not -----------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_what_the_slot_holds_itself_is_left_alone(real: tuple[RealServer, Desk]) -> None:
    """As much, or more, or another conversation that was begun: a restore would lose it for good."""
    _, desk = real
    assert desk.prepare() == ["/slots"]
    desk.turn(TALK + "x" * 40)
    assert desk.prepare() == ["/slots"]
    desk.turn(OTHER)
    assert desk.prepare() == ["/slots"]
    assert desk.turn(OTHER + "y") >= len(OTHER)


@pytest.mark.real
def test_a_busy_server_is_left_alone(real: tuple[RealServer, Desk]) -> None:
    """Seen by the slots right before, even where the watcher has not looked yet."""
    server, desk = real
    restart(server, desk)
    talk = Call(server.url, "complete", OTHER, 100_000)
    wait_until(lambda: ask(server.url, "/slots")[1][0]["is_processing"])
    assert desk.prepare() == ["/slots"]
    talk.drop()


@pytest.mark.real
@pytest.mark.parametrize("damage", ["short", "changed", "missing"])
def test_a_damaged_file_is_never_sent(real: tuple[RealServer, Desk], tmp_path: Path, damage: str) -> None:
    """A short one would end the server, and a missing one empty its slot."""
    server, desk = real
    (path,) = tmp_path.glob("zat-scs-*.bin")
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole[:-1000] if damage == "short" else whole[:-4] + b"!!!!")
    restart(server, desk)
    assert "restore" not in desk.prepare()
    assert server.exit_code is None
    assert "does not fit" in desk.context.detail


@pytest.mark.real
@pytest.mark.parametrize("change", ["weights", "slots", "unified", "context"])
def test_a_server_that_differs_is_given_nothing(
    stack: ExitStack, tiny_model: Path, tmp_path: Path, change: str
) -> None:
    """Other weights of the same shape would be taken in silence, other slots refuse and wipe."""
    model = tmp_path / "model.gguf"
    model.write_bytes(tiny_model.read_bytes())
    first = stack.enter_context(RealServer(model, tmp_path, slot_save_path=tmp_path))
    desk = stack.enter_context(at(first.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    first.kill()
    desk.look()
    if change == "weights":
        writer.write(model, seed=1)
    options: dict[str, Any] = {"slots": {"slots": 2}, "unified": {"kv_unified": True}, "context": {"context": 512}}
    second = RealServer(model, tmp_path, slot_save_path=tmp_path, **options.get(change, {}))
    second._command = [str(first.port) if word == str(second.port) else word for word in second._command]
    second.port, second.url = first.port, first.url
    stack.enter_context(second)
    desk.look()
    desk.look()
    assert "restore" not in desk.prepare()
    assert desk.context.context is ContextState.NONE


@pytest.mark.real
def test_a_refusal_is_final_until_the_server_restarts(
    real: tuple[RealServer, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record and its file are dropped: here the server cannot read what seemed to fit."""
    server, desk = real
    restart(server, desk)
    saved = desk.bench.contexts.best(_facts(desk), server.url)
    assert saved
    (path := Path(saved.folder, saved.filename)).write_bytes(b"x" * saved.size)
    monkeypatch.setattr("engine.client.matching._damage", lambda _: None)
    assert desk.prepare() == ["/slots", "restore"]
    assert "refused" in desk.context.detail
    assert not path.exists()
    desk.turn(TALK)
    desk.keeper.keep()
    ask(server.url, "/slots/0?action=erase", method="POST")
    assert desk.prepare() == []
    restart(server, desk)
    assert desk.prepare() == ["/slots", "restore"]


def _facts(desk: Desk) -> Facts:
    assert desk.view.facts
    return desk.view.facts


# ---- By script: what a real server does rarely -----------------------------------------------------------------------


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


def test_two_useless_restores_end_restoring_for_this_build(
    scripted: tuple[Scripted, Desk], caplog: pytest.LogCaptureFixture
) -> None:
    """Restored 1108, then 1101 computed and none re-used; a new build starts anew."""
    script, desk = scripted
    restore_and_prompt(script, desk, 2, cached=0, computed=1101)
    assert desk.context.context is ContextState.USELESS
    restore_and_prompt(script, desk, 3, cached=0, computed=1101)
    assert desk.spy.asked.count("restore") == 2
    restore_and_prompt(script, desk, 4, cached=0, computed=1101)
    assert desk.spy.asked.count("restore") == 2
    assert desk.context.context is ContextState.USELESS or "re-uses nothing" in desk.context.detail
    assert sum("restoring has ended" in record.message for record in caplog.records) == 1
    script.build("b2")
    script.counts(0, 0, 0, mark="5")
    desk.look()
    desk.look()
    assert not desk.bench.contexts.useless(_facts(desk))


@pytest.mark.parametrize(("cached", "computed"), [(1100, 40), (0, 300)])
def test_a_prompt_that_proves_nothing_ends_nothing(scripted: tuple[Scripted, Desk], cached: int, computed: int) -> None:
    """One that re-used something, or one so short that it cannot continue what was restored."""
    script, desk = scripted
    for number in (2, 3, 4):
        restore_and_prompt(script, desk, number, cached=cached, computed=computed)
    assert desk.spy.asked.count("restore") == 3


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (says_no(501, "This feature is not supported by multimodal"), False),
        (says_no(400, "Invalid action"), False),
        (says_no(404, "File Not Found"), False),
        (says_no(500, "Compute error"), True),
    ],
)
def test_what_is_final_is_not_asked_again(scripted: tuple[Scripted, Desk], answer: Reply, *, again: bool) -> None:
    """4xx and 501, until the server restarts."""
    script, desk = scripted
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", answer)
    desk.prepare()
    assert desk.context.context is ContextState.NONE
    assert ("restore" in desk.prepare()) is again


def test_without_slots_it_must_be_idle_by_its_metrics(scripted: tuple[Scripted, Desk]) -> None:
    """And a loss must have been seen."""
    script, desk = scripted
    desk.view.facts = facts = Facts(**{**_fields(_facts(desk)), "has_slots": False})
    assert desk.prepare() == []
    desk.view.loss = "the server was lost"
    script.fake.on("/metrics", Reply(body="llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n"))
    assert desk.prepare() == ["/metrics"]
    script.counts(0, 0, 0)
    assert desk.prepare() == ["/metrics", "restore"]
    assert facts.kind is Kind.LLAMA_SERVER


def _fields(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in Facts.__dataclass_fields__}


def test_a_router_without_a_model_is_sent_nothing(scripted: tuple[Scripted, Desk]) -> None:
    """None is loaded unasked."""
    _, desk = scripted
    desk.view.facts = Facts(Kind.ROUTER, save_path="/nowhere")
    desk.view.loss = "the server fell asleep"
    assert desk.prepare() == []


@pytest.mark.usefixtures("never_sleeps")
def test_a_slot_beyond_the_servers_count_is_never_sent(stack: ExitStack, tmp_path: Path) -> None:
    """Ids wrap silently."""
    script = Scripted()
    stack.callback(script.fake.close)
    desk = stack.enter_context(at(script.fake.url, tmp_path, slot_save_path="/nowhere"))
    desk.look()
    desk.keeper.keep()
    desk.bench.settings = Settings(server_url=script.fake.url, slot_id="7")
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}]))
    assert desk.prepare() == ["/slots", "restore"]
    assert script.fake.requests[-1].path == "/slots/0"


@pytest.mark.parametrize("why", ["asleep", "busy", "never sleeps", "no slots"])
def test_only_a_server_that_could_fall_asleep_is_kept_awake(scripted: tuple[Scripted, Desk], why: str) -> None:
    """One that sleeps would be woken without its context."""
    script, desk = scripted
    facts = replace(_facts(desk), command_line=None)
    desk.restorer.stay_awake(facts)
    assert desk.spy.asked[-2:] == ["/props", "/slots"]
    changed: dict[str, dict[str, Any]] = {
        "never sleeps": {"command_line": ("llama-server",)},
        "no slots": {"has_slots": False},
    }
    if why == "asleep":
        script.fake.on("/props", Reply(body={"is_sleeping": True, "build_info": "b1"}))
    desk.view.busy = why == "busy"
    asked = desk.spy.asked.count("/slots")
    desk.restorer.stay_awake(replace(facts, **changed.get(why, {})))
    assert desk.spy.asked.count("/slots") == asked


@pytest.mark.parametrize(("status", "kept"), [("loaded", True), ("sleeping", False), ("unloaded", False)])
def test_behind_a_router_only_a_loaded_model_is_kept_awake(
    scripted: tuple[Scripted, Desk], status: str, *, kept: bool
) -> None:
    """Any question about another one would load it."""
    script, desk = scripted
    script.fake.on("/models", Reply(body={"data": [{"id": "m", "status": {"value": status}}]}))
    asked = desk.spy.asked.count("/slots")
    desk.restorer.stay_awake(replace(_facts(desk), kind=Kind.ROUTER, model="m", command_line=None))
    assert desk.spy.asked.count("/slots") - asked == kept


def test_a_failed_wake_leaves_the_next_wake_to_the_prompt(scripted: tuple[Scripted, Desk]) -> None:
    """It would else not be seen as an arrival."""
    script, desk = scripted
    desk.view.sleeping = True
    script.fake.on("/slots/0", Reply(raw=b""))
    props = {"total_slots": 1, "is_sleeping": True}
    script.fake.on("/props", Reply(body=props))
    desk.view.facts = Facts(**{**_fields(_facts(desk)), "command_line": None})
    with pytest.raises(ServerUnreachable):
        desk.prepare()
    assert not desk.view.waking


# ---- A file that ends the server -------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize("patient", [True, False])
def test_a_file_that_we_cannot_see_ends_the_server_once(
    stack: ExitStack, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, patient: bool
) -> None:
    """As one does that a full disk has cut short; if the next one does, too, none of that folder is tried any more.

    After a start of ours neither. It takes its time to end, so its answer may not be waited for.
    """
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path))
    desk = stack.enter_context(at(server.url, tmp_path, slot_save_path="/nowhere"))
    desk.turn(TALK)
    desk.keeper.keep()
    desk.turn(TALK + "x" * 300)
    desk.keeper.keep()
    monkeypatch.setattr(desk.bench, "patience", lambda _: 60.0 if patient else 0.01)
    for often, reason in ((1, "nothing was saved yet"), (2, "cannot be checked from here")):
        for path in tmp_path.glob("zat-scs-*.bin"):
            path.write_bytes(path.read_bytes()[:-1000])
        restart(server, desk)
        with pytest.raises(ServerHungUp) if patient else nullcontext():
            desk.prepare()
        wait_until(lambda: server.exit_code is not None, what="the end of the server")
        wait_until(lambda: (desk.look(), not desk.view.reachable)[1], what="its loss to be seen")
        server.restart()
        wait_until(lambda: (desk.look(), desk.view.reachable)[1], what="its start to be seen")
        desk.restorer.settle()
        assert desk.spy.asked.count("restore") == often
        assert "restore" not in desk.prepare()
        assert reason in desk.context.detail
        desk.turn(TALK)
        desk.keeper.keep()
    assert desk.spy.asked.count("save") == 3
    later = stack.enter_context(at(server.url, tmp_path, slot_save_path="/nowhere"))
    later.bench.contexts.take_up()
    later.look()
    later.view.loss = "the server was lost"
    assert "restore" not in later.prepare()


@pytest.mark.parametrize(
    "reply", [Reply(raw=b""), says_no(502, "Bad Gateway"), Reply(500, "proxy error: Failed to read connection")]
)
def test_a_server_that_hung_up_over_a_context_is_not_given_it_again(
    scripted: tuple[Scripted, Desk], reply: Reply
) -> None:
    """Nor where a router or a proxy says so."""
    script, desk = scripted
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", reply)
    with suppress(ServerHungUp):
        desk.prepare()
    assert desk.spy.asked.count("restore") == 1
    desk.view.loss = "the server was lost"
    assert "restore" not in desk.prepare()
    _, left = desk.bench.contexts.forget()
    assert len(left) == 1


@pytest.mark.parametrize("sent", [False, True])
def test_a_context_that_never_reached_the_server_is_kept(scripted: tuple[Scripted, Desk], *, sent: bool) -> None:
    """It was gone before, or said that it is loading: nothing was done with it."""
    script, desk = scripted
    desk.view.facts = replace(_facts(desk), kind=Kind.ROUTER, model="m")
    desk.keeper.keep()
    desk.view.sleeping = True
    if sent:
        script.fake.on("/slots/0", LOADING)
    else:
        script.fake.close()
        desk.spy.close()
    with pytest.raises(ServerLoading if sent else ServerUnreachable):
        desk.prepare()
    assert desk.spy.asked[-1] == "restore"
    desk.bench.contexts.take_up()
    assert desk.bench.contexts.best(_facts(desk), script.fake.url)


@pytest.mark.parametrize("ended", [True, False])
def test_what_became_of_an_unanswered_restore_shows_later(
    scripted: tuple[Scripted, Desk], monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    """A server that is lost before it was seen at rest has ended over it; one that is lost later has not."""
    script, desk = scripted
    desk.view.facts = replace(_facts(desk), process=None)  # elsewhere, so that its end cannot be seen
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", Reply(silent=True))
    monkeypatch.setattr(desk.bench, "patience", lambda _: 0.1)
    desk.prepare()
    assert "what the slot holds is unknown" in desk.context.detail
    desk.restorer.settle()
    desk.view.in_doubt = ended
    desk.restorer.settle()
    desk.view.starts += 1
    desk.restorer.settle()
    desk.bench.contexts.take_up()
    assert (desk.bench.contexts.best(_facts(desk), script.fake.url) is None) is ended


def test_a_server_that_was_out_of_reach_for_a_while_has_not_ended(
    scripted: tuple[Scripted, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives: what is told apart is a hiccup of the network, or a suspend, from an end."""
    script, desk = scripted
    desk.view.facts = replace(_facts(desk), command_line=("llama-server",))
    assert desk.view.facts.process is not None
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", Reply(silent=True))
    monkeypatch.setattr(desk.bench, "patience", lambda _: 0.1)
    desk.prepare()
    desk.view.starts += 1
    desk.view.in_doubt = True
    desk.restorer.settle()
    assert desk.bench.contexts.best(_facts(desk), script.fake.url)


def test_a_restore_that_was_taken_back_leaves_nothing_to_blame(
    scripted: tuple[Scripted, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prompt came first; whatever ends then has not ended over the file."""
    script, desk = scripted
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", Reply(silent=True))
    monkeypatch.setattr(Workbench, "was_taken_back", True)
    monkeypatch.setattr(desk.bench, "patience", lambda _: 0.1)
    desk.prepare()
    desk.view.in_doubt = True
    desk.view.starts += 1
    desk.restorer.settle()
    desk.bench.contexts.take_up()
    assert desk.bench.contexts.best(_facts(desk), script.fake.url)


@pytest.mark.real
def test_a_server_that_ends_while_it_wakes_does_not_cost_a_whole_context(
    stack: ExitStack, tiny_model: Path, tmp_path: Path
) -> None:
    """It may have found no room for its model."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, sleep_idle_seconds=3))
    desk = stack.enter_context(at(server.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    facts = _facts(desk)
    saved = desk.bench.contexts.best(facts, server.url)
    assert saved is not None
    for _ in range(3):
        desk.restorer._hung_up(saved, waking=True)
    assert desk.bench.contexts.best(facts, server.url) == saved


@pytest.mark.parametrize(("tokens", "restored"), [(844, False), (30, True)])
def test_a_conversation_that_began_unseen_is_not_overwritten(
    scripted: tuple[Scripted, Desk], tokens: int, *, restored: bool
) -> None:
    """The loss was seen, the prompts after it were not; a check of the server's health is no conversation."""
    script, desk = scripted
    desk.view.loss = "the server was lost"
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False, "id_task": 9, "n_prompt_tokens": tokens}]))
    assert ("restore" in desk.prepare()) is restored


# ---- What prompts took is reported -----------------------------------------------------------------------------------


def booked(desk: Desk) -> list[tuple[int, int | None, bool]]:
    """Return of each report: tokens re-used, tokens of ours that lay there, and whether waking was measured."""
    reports = [event for event in desk.posted if isinstance(event, PromptReport)]
    return [(report.reused, report.restored, report.woken is not None) for report in reports]


def test_the_first_prompt_after_a_restore_is_reported_with_it(scripted: tuple[Scripted, Desk]) -> None:
    """Useless or not; and a later one owes us nothing."""
    script, desk = scripted
    restore_and_prompt(script, desk, 2, cached=0, computed=1101)
    restore_and_prompt(script, desk, 3, cached=1100, computed=40)
    script.counts(2200, 80, 18, mark="3")
    desk.look()
    assert booked(desk) == [(0, 1108, False), (1100, 1108, False), (1100, None, False)]
    names = {event.server for event in desk.posted if isinstance(event, PromptReport)}
    assert len(names) == 1
    assert "nowhere" not in names.pop()


def test_a_prompt_before_which_another_went_unmeasured_proves_nothing(scripted: tuple[Scripted, Desk]) -> None:
    """What it re-used is that other one's, for all that is known."""
    script, desk = scripted
    script.counts(0, 0, 0, mark="2")
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}]))
    desk.look()
    desk.look()
    desk.prepare()
    desk.view.turns += 1
    script.counts(1100, 40, 9, mark="2")
    desk.look()
    assert booked(desk) == [(1100, None, False)]


@pytest.mark.parametrize(("busy", "measured"), [(False, True), (True, False)])
def test_waking_counts_unless_a_prompt_waited_for_it(
    scripted: tuple[Scripted, Desk], *, busy: bool, measured: bool
) -> None:
    """Whoever prompted while the server woke had to wait all the same."""
    script, desk = scripted
    desk.view.sleeping = True
    script.fake.on("/props", Reply(body={"total_slots": 1, "is_sleeping": True}))
    desk.view.facts = Facts(**{**_fields(_facts(desk)), "command_line": None})
    desk.view.busy = busy
    desk.prepare()
    desk.view.turns += 1
    desk.restorer.judge(Reuse(1000, 20))
    desk.restorer.judge(Reuse(1000, 20))
    assert booked(desk) == [(1000, 1108, measured), (1000, None, False)]
