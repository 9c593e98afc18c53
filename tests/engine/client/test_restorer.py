"""A saved context goes back into the real server after a seen loss, and never otherwise."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_server import Reply, says_no
from helpers.restoring import CLOCK, OTHER, TALK, Desk, Scripted, Spy, at, facts_of, restart, restore_and_prompt
from helpers.rig import Call, ask
from helpers.wait import wait_until

from diagnostics import tiny_model as writer
from diagnostics.real_server import RealServer
from engine.client.answers import Kind
from engine.client.prefetcher import Prefetcher
from engine.client.view import Facts
from engine.config.settings import Settings
from engine.errors import ServerUnreachable
from engine.events import ContextReport, ContextState

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
    saved = desk.bench.contexts.best(facts_of(desk), server.url)
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


# ---- By script: what a real server does rarely -----------------------------------------------------------------------


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
    assert not desk.bench.contexts.useless(facts_of(desk))


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
    desk.view.facts = facts = replace(facts_of(desk), has_slots=False)
    assert desk.prepare() == []
    desk.view.loss = "the server was lost"
    script.fake.on("/metrics", Reply(body="llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\n"))
    assert desk.prepare() == ["/metrics"]
    script.counts(0, 0, 0)
    assert desk.prepare() == ["/metrics", "restore"]
    assert facts.kind is Kind.LLAMA_SERVER


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
    facts = replace(facts_of(desk), command_line=None)
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
    desk.restorer.stay_awake(replace(facts_of(desk), kind=Kind.ROUTER, model="m", command_line=None))
    assert desk.spy.asked.count("/slots") - asked == kept


def test_a_failed_wake_leaves_the_next_wake_to_the_prompt(scripted: tuple[Scripted, Desk]) -> None:
    """It would else not be seen as an arrival."""
    script, desk = scripted
    desk.view.sleeping = True
    script.fake.on("/slots/0", Reply(raw=b""))
    props = {"total_slots": 1, "is_sleeping": True}
    script.fake.on("/props", Reply(body=props))
    desk.view.facts = replace(facts_of(desk), command_line=None)
    with pytest.raises(ServerUnreachable):
        desk.prepare()
    assert not desk.view.waking
