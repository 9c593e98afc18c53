"""Folding@home is paused and goes on exactly as before, against a client that behaves as the real one was seen to."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.backend_contract import BackendContract
from helpers.clock import FakeClock
from helpers.fake_folding import PASSKEY, FakeFolding, cpu_unit, folding, gpu_unit, group
from helpers.job import background_job
from helpers.wait import wait_until
from websockets.sync.client import connect

from engine.config.settings import Settings
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.backends import folding as module
from engine.orchestration.backends import folding_client
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.folding import BUDGET, FoldingBackend, undo
from engine.orchestration.backends.folding_state import FoldingState
from engine.orchestration.ledger import Ledger, UnpauseFolding

NOWHERE = "ws://127.0.0.1:9/api/websocket"


class Bench:
    """A backend over a client, with its ledger and what its guardian was told."""

    def __init__(self, url: str, folder: Path) -> None:
        self.ledger = Ledger(folder / "ledger.json")
        self.told: list[str] = []
        self.clock = FakeClock()
        self.safeguard = Safeguard(self.ledger, lambda: self.told.append("arm"), lambda: self.told.append("rest"))
        self.backend = FoldingBackend(Settings().replace({"FOLDING_URL": url}), self.safeguard, self.clock)

    def until(self, done: Callable[[Applied], bool]) -> Applied:
        """Look as often as the worker does until the answer is right."""
        answers: list[Applied] = []
        wait_until(lambda: answers.append(self.backend.verify()) or done(answers[-1]), what=f"it, last {answers[-1:]}")
        return answers[-1]

    def hold(self) -> Applied:
        """Pause, and wait until the card is yielded."""
        self.backend.apply(10)
        return self.until(lambda applied: applied.verified is True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second last a tenth, here and in the client."""
    monkeypatch.setattr(folding_client, "SPACING", 0.15)


@pytest.fixture
def client() -> Iterator[FakeFolding]:
    """Give a client with one group that folds on a card."""
    with folding() as client:
        yield client


@pytest.fixture
def bench(client: FakeFolding, tmp_path: Path) -> Iterator[Bench]:
    """Give a backend over that client."""
    bench = Bench(client.url, tmp_path)
    yield bench
    bench.backend._hang_up()


class TestContract(BackendContract):
    """The shared suite, over a client that folds nothing."""

    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[FoldingBackend]:
        """Give the backend."""
        with folding(units=[]) as client:
            bench = Bench(client.url, tmp_path)
            yield bench.backend
            bench.backend._hang_up()
            assert client.log == []
            assert not bench.ledger.path.exists()


# ---- Holding and giving back -----------------------------------------------------------------------------------------


def test_the_group_is_paused_seen_to_leave_and_folds_again(bench: Bench, client: FakeFolding) -> None:
    """Written down, armed, paused, verified; then folding, at rest, and nothing left in the ledger."""
    applied = bench.hold()
    assert (applied.share, applied.detail) == (10, "Folding@home is paused and off the card")
    assert bench.ledger.read() == (UnpauseFolding(client.url, "", False),)
    assert bench.told == ["arm"]
    assert bench.backend.release().detail == "Folding@home folds again"
    assert client.asked == ["pause ''", "fold ''"]
    assert not client.paused()
    assert bench.told == ["arm", "rest"]
    assert not bench.ledger.path.exists()


def test_a_second_wish_sends_nothing_more(bench: Bench, client: FakeFolding) -> None:
    """10 and 0 are the same here."""
    bench.hold()
    before = list(client.log)
    assert bench.backend.apply(0).share == 0
    assert client.asked == ["pause ''"]
    assert client.log == before


def test_no_command_bears_a_time(bench: Bench, client: FakeFolding) -> None:
    """A stamp ahead of the client's clock would block every later command, the user's too."""
    bench.hold()
    bench.backend.release()
    assert client.asked == ["pause ''", "fold ''"]
    assert all(set(command) == {"cmd", "state", "group"} for command in client.raw)


def test_paused_is_not_yielded_before_the_unit_has_no_process(bench: Bench, client: FakeFolding) -> None:
    """The core takes a while to leave the card; until then nothing is claimed."""
    client.leaving = 0.4
    bench.backend.apply(10)
    applied = bench.until(lambda applied: applied.share == 10)
    assert (applied.verified, applied.detail) == (False, "Folding@home is paused and still letting go of the card")
    assert applied.look_in
    bench.until(lambda applied: applied.verified is True)


def test_a_core_that_does_not_leave_is_said(bench: Bench, client: FakeFolding) -> None:
    """After 61 s the client would have killed it."""
    client.leaving = 60.0
    bench.backend.apply(10)
    bench.until(lambda applied: applied.share == 10)
    bench.clock.advance(BUDGET)
    applied = bench.backend.verify()
    assert (applied.share, applied.verified, applied.look_in) == (10, False, None)
    assert applied.detail == "Folding@home is paused and has not let go of the card in 61 s"


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_machine_is_asked_too_whether_the_core_has_left(tmp_path: Path) -> None:
    """A client that says so too early is not believed while its core lives."""
    with background_job("FahCore_26") as job, folding(units=[gpu_unit(pid=job.pid)]) as client:
        bench = Bench(client.url, tmp_path)
        bench.backend.apply(10)
        wait_until(lambda: "pid" not in client.state["units"][0], what="the client to say that it has left")
        time.sleep(0.1)
        assert bench.backend.verify().verified is False
        os.kill(job.pid, signal.SIGKILL)
        bench.until(lambda applied: applied.verified is True)
        bench.backend.release()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_number_of_another_program_is_no_core(tmp_path: Path) -> None:
    """A client in a container counts its processes anew."""
    with folding(units=[gpu_unit(pid=os.getpid())]) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        bench.backend.release()


# ---- What was before comes back --------------------------------------------------------------------------------------


def test_a_group_that_was_finishing_goes_on_finishing(tmp_path: Path) -> None:
    """Not by `fold`, which would let it take new units; and no other group is deleted by the way."""
    groups = {"": group(gpu=False), "card": group(finish=True), "idle": group(paused=True, gpu=False)}
    with folding(groups, [gpu_unit(group="card"), cpu_unit()]) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        assert bench.ledger.read() == (UnpauseFolding(client.url, "card", True),)
        assert not client.config("card")["finish"]
        assert bench.backend.release().detail == "Folding@home's group 'card' goes on finishing its units"
        assert (client.paused("card"), client.config("card")["finish"]) == (False, True)
        assert (client.paused(), client.paused("idle")) == (False, True)
        assert client.asked == ["pause 'card'", "config"]


def test_only_the_groups_with_a_card_are_paused(tmp_path: Path) -> None:
    """CPU folding may go on; a group that its user has paused stays as it is."""
    groups = {"": group(gpu=False), "one": group(), "two": group(), "mine": group(paused=True)}
    units = [cpu_unit(), gpu_unit(2, "one", 4713), gpu_unit(3, "two", 4714), gpu_unit(4, "mine", None)]
    with folding(groups, units) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        assert client.asked == ["pause 'one'", "pause 'two'"]
        assert bench.backend.release().detail
        assert sorted(client.asked[2:]) == ["fold 'one'", "fold 'two'"]
        assert client.paused("mine")


def test_where_no_group_is_known_to_have_a_card_all_that_fold_are_paused(tmp_path: Path) -> None:
    """The server computes on the same processor then."""
    with folding({"": group(gpu=False), "b": group(gpu=False)}, [cpu_unit(), cpu_unit(3, "b", 4713)]) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        assert client.asked == ["pause ''", "pause 'b'"]
        bench.backend.release()


def test_two_groups_are_not_asked_within_one_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has one clock for all of them, and drops the second command without a word: in real seconds."""
    monkeypatch.setattr(folding_client, "SPACING", 1.5)
    groups = {"one": group(), "two": group()}
    with folding(groups, [gpu_unit(1, "one"), gpu_unit(2, "two", 4713)], second=1.0) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        bench.backend.release()
        assert client.log == client.obeyed
        assert len(client.asked) == 4
        assert min(later - sooner for sooner, later in pairwise(client.at)) > 1.0


def test_a_group_that_somebody_lets_fold_meanwhile_is_left_alone(bench: Bench, client: FakeFolding) -> None:
    """It is said, struck from the ledger and not paused again before it was given back."""
    bench.hold()
    before = list(client.log)
    client.say("groups", "", "config", "paused", False)
    client.say("units", 0, "pause_reason", "")
    client.say("units", 0, "pid", 4800)
    applied = bench.until(lambda applied: applied.verified is False)
    assert (applied.share, applied.detail) == (100, "Folding@home was let fold by somebody else, and so do we")
    assert not bench.ledger.path.exists()
    bench.backend.release()
    assert client.log == before
    bench.hold()


def test_a_finish_asked_for_meanwhile_is_kept(bench: Bench, client: FakeFolding) -> None:
    """The user's later word goes over what was before."""
    bench.hold()
    client.say("groups", "", "config", "finish", True)
    bench.backend.release()
    assert (client.paused(), client.config()["finish"]) == (False, True)


def test_a_group_that_paused_itself_after_lost_units_is_never_let_fold(bench: Bench, client: FakeFolding) -> None:
    """The client does that to stop losing more."""
    bench.hold()
    client.say("groups", "", "failed", "Paused due too many failed Work Units.")
    bench.backend.release()
    assert client.asked == ["pause ''"]
    assert client.paused()


def test_a_group_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Naming a group that is not there would create it, paused."""
    with folding({"": group(gpu=False), "card": group()}, [gpu_unit(group="card")]) as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        client.say("groups", "card", None)
        bench.until(lambda applied: applied.share == 100)
        bench.backend.release()
        assert set(client.state["groups"]) == {""}
        assert not bench.ledger.path.exists()
        assert undo(UnpauseFolding(client.url, "card", False)).settled
        assert set(client.state["groups"]) == {""}


def test_a_group_that_finished_its_units_meanwhile_stays_paused(client: FakeFolding) -> None:
    """That is how the client itself ends a finish."""
    client.say("groups", "", "config", "paused", True)
    client.say("units", 0, None)
    done = undo(UnpauseFolding(client.url, "", True))
    assert (done.settled, done.sentence) == (True, "Folding@home has finished its units, and stays paused")
    assert client.log == []


# ---- Not needed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "units", "sentence"),
    [
        (group(paused=True), [gpu_unit(pid=None, pause_reason="Paused")], "Folding@home is paused"),
        (group(), [], "Folding@home has no units"),
        (group(), [gpu_unit(pid=None, state="ASSIGN")], "Folding@home has nothing on the card yet"),
        (
            group(),
            [gpu_unit(pid=None, pause_reason="Waiting for idle system")],
            "Folding@home says: Waiting for idle system",
        ),
        (
            group(paused=True, failed="Paused due too many failed Work Units."),
            [],
            "Folding@home has paused itself after units that failed",
        ),
    ],
)
def test_what_is_not_folding_is_not_asked(
    tmp_path: Path, one: dict[str, Any], units: list[dict[str, Any]], sentence: str
) -> None:
    """Nothing is sent, nothing is claimed, and the reason is said."""
    with folding({"": one}, units) as client:
        bench = Bench(client.url, tmp_path)
        assert bench.backend.apply(0) == Applied(100, None, f"not needed: {sentence}")
        bench.backend.release()
        assert client.log == []


def test_a_unit_that_begins_while_the_card_is_needed_is_paused_too(tmp_path: Path) -> None:
    """It waits for an idle system, and a long reply is one."""
    with folding(units=[gpu_unit(pid=None, pause_reason="Waiting for idle system")]) as client:
        bench = Bench(client.url, tmp_path)
        assert bench.backend.apply(0).verified is None
        client.say("units", 0, "pause_reason", "")
        client.say("units", 0, "pid", 4800)
        bench.until(lambda applied: applied.verified is True)
        bench.backend.release()
        assert client.asked == ["pause ''", "fold ''"]


def test_where_nobody_listens_there_is_nothing_to_hold(tmp_path: Path) -> None:
    """It does not fit, and if it had been chosen it would not be needed."""
    bench = Bench(NOWHERE, tmp_path)
    with pytest.raises(BackendUnavailable, match=r"no Folding@home client at 127.0.0.1:9: nobody listens"):
        bench.backend.priority()
    assert bench.backend.apply(10).verified is None
    assert bench.backend.release() == Applied(100, None, "")


# ---- Commands that are lost, late or cancelled -----------------------------------------------------------------------


def test_a_command_that_was_dropped_without_a_word_is_sent_again(bench: Bench, client: FakeFolding) -> None:
    """Somebody else's command in the same second leads to that."""
    client._changed["state"] = int(time.time() / client.second) + 2
    bench.hold()
    assert client.log[0] == "pause '' dropped"
    assert client.asked == ["pause ''"]
    bench.backend.release()


def test_giving_back_right_after_a_pause_waits_for_its_second(bench: Bench, client: FakeFolding) -> None:
    """Fold at once would be lost, and the job left paused."""
    bench.backend.apply(10)
    bench.backend.release()
    assert client.asked == ["pause ''", "fold ''"]
    assert not client.paused()


def test_a_pause_that_was_cancelled_before_its_turn_is_not_sent(
    bench: Bench, client: FakeFolding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short flicker of a guess costs nothing."""
    bench.hold()
    bench.backend.release()
    with monkeypatch.context() as not_yet:
        not_yet.setattr(folding_client, "SPACING", 60.0)
        applied = bench.backend.apply(10)
        assert (applied.share, applied.verified) == (100, False)
        assert applied.detail == "Folding@home will be asked to pause in a moment"
        bench.backend.release()
    time.sleep(0.2)  # its turn
    bench.backend.verify()
    assert client.asked == ["pause ''", "fold ''"]


def test_a_pause_on_its_way_is_waited_for_and_undone(
    bench: Bench, client: FakeFolding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sent and shows late: nothing stays in flight."""
    monkeypatch.setattr(folding_client, "SPACING", 2.0)
    client.delay = 0.5
    bench.backend.apply(10)
    bench.backend.release()
    assert not client.paused()
    assert client.asked == ["pause ''", "fold ''"]


def test_a_client_that_never_obeys_is_said_and_asked_no_more_than_four_times(bench: Bench, client: FakeFolding) -> None:
    """The card is not yielded; the next wish tries anew."""
    client.deaf = True
    bench.backend.apply(10)
    applied = bench.until(lambda applied: applied.look_in is None)
    assert (applied.share, applied.verified) == (100, False)
    assert applied.detail == "Folding@home does not confirm that it pauses"
    assert client.log == ["pause '' dropped"] * 4
    client.deaf = False
    bench.hold()
    bench.backend.release()
    assert not client.paused()


def test_a_client_that_does_not_let_go_of_a_pause_stays_in_the_ledger(bench: Bench, client: FakeFolding) -> None:
    """It is an error with a reason, and the next try ends it."""
    bench.hold()
    client.deaf = True
    with pytest.raises(LedgerError, match="does not confirm that it folds again"):
        bench.backend.release()
    assert bench.ledger.read()
    client.deaf = False
    bench.backend.release()
    assert not client.paused()


# ---- Clients that are gone, broken or foreign ------------------------------------------------------------------------


def test_a_client_that_goes_away_while_paused_is_given_back_when_it_returns(tmp_path: Path) -> None:
    """It keeps its pause over a restart; nobody else will end it."""
    with folding() as client:
        bench = Bench(client.url, tmp_path)
        bench.hold()
        port = int(client.url.split(":")[2].split("/")[0])
    applied = bench.until(lambda applied: "nobody listens" in applied.detail)
    assert (applied.share, applied.verified) == (100, False)
    owed = bench.backend.release()
    assert (owed.share, owed.verified) == (100, False)
    assert owed.look_in
    assert "may still be paused by us: no Folding@home client" in owed.detail
    assert bench.ledger.read()
    with folding({"": group(paused=True)}, [gpu_unit(pid=None, pause_reason="Paused")], port=port) as client:
        assert bench.backend.verify().detail == "Folding@home folds again"
        assert not client.paused()
        assert not bench.ledger.path.exists()


def test_a_connection_that_breaks_is_made_anew(bench: Bench, client: FakeFolding) -> None:
    """What was paused before is still ours."""
    bench.hold()
    before = list(client.log)
    client.hang_up()
    bench.until(lambda applied: applied.verified is True)
    assert client.log == before
    bench.backend.release()


@pytest.mark.parametrize("frame", ["{", "7", "[]", '["units"]', "null", '{"groups": {"": 3}}'])
def test_a_state_that_is_not_understood_is_said(bench: Bench, client: FakeFolding, frame: str) -> None:
    """It is not verified, with the reason, and nothing is sent."""
    client.first = frame
    applied = bench.backend.apply(10)
    assert (applied.share, applied.verified) == (100, False)
    assert applied.detail == "what Folding@home says is not understood"
    assert client.log == []


@pytest.mark.parametrize(
    "frame", ["{", '["units", 7, "pid", 3]', '["groups", "", "config", 3, 4, 5]', '["units",-3,1]']
)
def test_a_change_that_is_not_understood_leads_to_a_new_look(bench: Bench, client: FakeFolding, frame: str) -> None:
    """For a moment nothing is claimed; then the whole state is fetched again."""
    bench.hold()
    client.send(frame)
    applied = bench.until(lambda applied: applied.verified is not True)
    assert (applied.share, applied.detail) == (100, "what Folding@home says is not understood")
    bench.until(lambda applied: applied.verified is True)
    bench.backend.release()
    assert client.asked == ["pause ''", "fold ''"]


def test_a_foreign_page_is_refused_and_we_are_none(client: FakeFolding) -> None:
    """No Origin is sent, so the client lets us in."""
    with pytest.raises(Exception, match="401"), connect(client.url, origin="http://127.0.0.1:9999"):  # type: ignore[arg-type]
        pass
    folding_client.FoldingClient(client.url).close()


def test_a_client_that_refuses_us_is_said(client: FakeFolding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not fit, with the status."""
    monkeypatch.setattr(client, "let_in", None)
    opening = folding_client.connect
    monkeypatch.setattr(folding_client, "connect", lambda url, **more: opening(url, origin="http://evil", **more))
    with pytest.raises(BackendUnavailable, match="refuses the connection: HTTP 401"):
        Bench(client.url, tmp_path).backend.priority()


def test_neither_proxy_nor_redirect_takes_it_off_the_address(
    client: FakeFolding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment may name a proxy for browsers."""
    for name in ("http_proxy", "ws_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert Bench(client.url, tmp_path).backend.priority() > 0


def test_what_is_no_client_is_said(tmp_path: Path) -> None:
    """Another program may have the port."""
    import http.server  # noqa: PLC0415 - for this test only
    import threading  # noqa: PLC0415

    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.handle_request)
        thread.start()
        backend = Bench(f"ws://127.0.0.1:{other.server_port}/x", tmp_path).backend
        with pytest.raises(BackendUnavailable, match="is no Folding@home client"):
            backend.priority()
        thread.join()


def test_a_client_that_hangs_is_said_and_stays_owed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket still takes connections; only it does not answer."""
    import socket  # noqa: PLC0415 - for this test only

    monkeypatch.setattr(folding_client, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"ws://127.0.0.1:{hung.getsockname()[1]}/"
        bench = Bench(url, tmp_path)
        applied = bench.backend.apply(10)
        assert (applied.share, applied.verified) == (100, False)
        assert applied.detail.endswith("does not answer")
        assert not undo(UnpauseFolding(url, "", False)).settled


def test_the_passkey_is_neither_kept_nor_logged(
    bench: Bench, client: FakeFolding, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where somebody logs everything."""
    caplog.set_level(logging.DEBUG)
    bench.hold()
    client.say("config", "passkey", PASSKEY)
    bench.backend.verify()
    assert bench.backend._client
    assert PASSKEY not in str(bench.backend._client._state._tree)
    bench.backend.release()
    said = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert PASSKEY not in "".join(said)


# ---- Older clients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", [False, True])
def test_an_older_client_is_spoken_to_in_its_own_words(tmp_path: Path, finish: bool) -> None:
    """8.1 and 8.2 know no groups."""
    with folding() as client:
        del client.state["groups"]
        client.state["config"] |= {"paused": False, "finish": finish}
        bench = Bench(client.url, tmp_path)
        bench.hold()
        bench.backend.release()
        obeyed = list(dict.fromkeys(client.obeyed))  # a pair is asked again as a pair
        assert obeyed == ["pause", "unpause", *(["finish"] if finish else [])]
        assert (client.state["config"]["paused"], client.state["config"]["finish"]) == (False, finish)


# ---- What it says of itself ------------------------------------------------------------------------------------------


def test_changes_are_applied_as_the_web_control_does() -> None:
    """Paths, deletion by null, -1 appends, -2 appends several, and what is missing on the way is made."""
    state = FoldingState({"groups": {"": group()}, "units": [gpu_unit(1), gpu_unit(2)], "config": None})
    for change in (
        ["units", 0, "wu_progress", 0.75],
        ["units", 1, None],
        ["units", -1, gpu_unit(3)],
        ["units", -2, [gpu_unit(4), gpu_unit(5)]],
        ["units", 4, gpu_unit(6)],
        ["units", 0, "pid", None],
        ["groups", "", "failed", None],
        ["groups", "b", "config", {"paused": True}],
        ["log", -2, ["a line"]],
        ["config", "passkey", PASSKEY],
        "ping",
    ):
        state.take(change)
    groups = state.groups()
    assert [unit.id for unit in groups[""].units] == ["unit1", "unit3", "unit4", "unit5", "unit6"]
    assert (groups[""].units[0].progress, groups[""].units[0].pid) == (0.75, None)
    assert (groups["b"].paused, groups["b"].units) == (True, ())


# ---- What a pause costs ----------------------------------------------------------------------------------------------


def test_work_that_is_done_twice_is_counted(bench: Bench, client: FakeFolding) -> None:
    """The unit was at 50 % and goes on from its last checkpoint."""
    client.checkpoint = 0.46
    bench.hold()
    assert bench.backend.release().look_in
    wait_until(lambda: "pid" in client.state["units"][0], what="the core")
    lost = [bench.backend.verify().lost for _ in range(8)]
    assert sum(lost) == pytest.approx(0.04)
    assert bench.backend.verify().look_in is None


# ---- Undoing ---------------------------------------------------------------------------------------------------------


def test_undoing_what_is_paused_lets_it_fold(client: FakeFolding) -> None:
    """As the guardian and the next start do."""
    client.say("groups", "", "config", "paused", True)
    done = undo(UnpauseFolding(client.url, "", False))
    assert (done.settled, done.sentence) == (True, "Folding@home folds again")
    assert client.asked == ["fold ''"]


def test_undoing_what_folds_sends_nothing(client: FakeFolding) -> None:
    """Somebody else was quicker, or the pause was never sent."""
    assert undo(UnpauseFolding(client.url, "", False)).settled
    assert client.log == []


def test_undoing_waits_for_a_pause_that_comes_late(client: FakeFolding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sent it may be dead before the client has read it."""
    import threading  # noqa: PLC0415 - for this test only

    monkeypatch.setattr(folding_client, "SPACING", 2.0)
    threading.Timer(0.2, client.say, ["groups", "", "config", "paused", True]).start()
    assert undo(UnpauseFolding(client.url, "", False)).sentence == "Folding@home folds again"
    assert not client.paused()


def test_undoing_without_a_client_stays_owed() -> None:
    """The client keeps its pause until it is there again."""
    done = undo(UnpauseFolding(NOWHERE, "card", False))
    assert not done.settled
    assert done.sentence.startswith("Folding@home's group 'card' may still be paused by us: no Folding@home client")


def test_the_module_is_small_for_the_guardian() -> None:
    """Clock and settings are names for a type checker only."""
    assert not hasattr(module, "Settings")
