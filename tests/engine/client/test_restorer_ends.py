"""What becomes of a context over which the server ended, and what the prompts after a restore took."""

from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.fake_server import LOADING, Reply, says_no
from helpers.restoring import TALK, Desk, Scripted, at, facts_of, restart, restore_and_prompt
from helpers.wait import wait_until

from diagnostics.real_server import RealServer
from engine.account import PromptReport
from engine.client.answers import Kind
from engine.client.view import Reuse
from engine.client.workbench import Workbench
from engine.errors import ServerHungUp, ServerLoading, ServerUnreachable

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
    desk.view.facts = replace(facts_of(desk), kind=Kind.ROUTER, model="m")
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
    assert desk.bench.contexts.best(facts_of(desk), script.fake.url)


@pytest.mark.parametrize("ended", [True, False])
def test_what_became_of_an_unanswered_restore_shows_later(
    scripted: tuple[Scripted, Desk], monkeypatch: pytest.MonkeyPatch, *, ended: bool
) -> None:
    """A server that is lost before it was seen at rest has ended over it; one that is lost later has not."""
    script, desk = scripted
    desk.view.facts = replace(facts_of(desk), process=None)  # elsewhere, so that its end cannot be seen
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
    assert (desk.bench.contexts.best(facts_of(desk), script.fake.url) is None) is ended


def test_a_server_that_was_out_of_reach_for_a_while_has_not_ended(
    scripted: tuple[Scripted, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives: what is told apart is a hiccup of the network, or a suspend, from an end."""
    script, desk = scripted
    desk.view.facts = replace(facts_of(desk), command_line=("llama-server",))
    assert desk.view.facts.process is not None
    script.fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}])).on("/slots/0", Reply(silent=True))
    monkeypatch.setattr(desk.bench, "patience", lambda _: 0.1)
    desk.prepare()
    desk.view.starts += 1
    desk.view.in_doubt = True
    desk.restorer.settle()
    assert desk.bench.contexts.best(facts_of(desk), script.fake.url)


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
    assert desk.bench.contexts.best(facts_of(desk), script.fake.url)


@pytest.mark.real
def test_a_server_that_ends_while_it_wakes_does_not_cost_a_whole_context(
    stack: ExitStack, tiny_model: Path, tmp_path: Path
) -> None:
    """It may have found no room for its model."""
    server = stack.enter_context(RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, sleep_idle_seconds=3))
    desk = stack.enter_context(at(server.url, tmp_path))
    desk.turn(TALK)
    desk.keeper.keep()
    facts = facts_of(desk)
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
    desk.view.facts = replace(facts_of(desk), command_line=None)
    desk.view.busy = busy
    desk.prepare()
    desk.view.turns += 1
    desk.restorer.judge(Reuse(1000, 20))
    desk.restorer.judge(Reuse(1000, 20))
    assert booked(desk) == [(1000, 1108, measured), (1000, None, False)]
