"""A slot action and the user's prompts that come in between: none is ever left waiting."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from helpers.fake_server import FakeServer, Reply, says_no
from helpers.rig import Call, ask, at_work
from helpers.wait import wait_until

from diagnostics import client
from diagnostics.real_server import RealServer
from engine.client import workbench
from engine.client.answers import Kind
from engine.client.contexts import Contexts
from engine.client.link import ServerLink
from engine.client.prefetcher import Prefetcher
from engine.client.view import Facts, View
from engine.client.watcher import Watcher
from engine.client.workbench import SLACK, Workbench
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.errors import ServerRefused, ServerTimeout, ServerUnreachable
from engine.events import ContextReport, ContextState, Event, PromptArrived, PromptFinished

CLOCK = SystemClock()
TALK = "The user and the model have talked about the garden for a while. " * 10
OTHER = "Nobody knows where the old map has gone to. " * 4


class User(threading.Thread):
    """Somebody who prompts, streamed, as a chat does."""

    def __init__(self, url: str, prompt: str, n_predict: int = 8) -> None:
        super().__init__()
        self.url, self.prompt, self.n_predict = url, prompt, n_predict
        self.reply: client.Reply | None = None
        self.start()

    def run(self) -> None:
        """Prompt."""
        self.reply = client.complete(self.url, self.prompt, CLOCK, n_predict=self.n_predict, timeout=60.0)

    def answer(self) -> client.Reply:
        """Wait for the reply; fail if there is none."""
        self.join(60.0)
        assert not self.is_alive(), "the user's prompt was never answered"
        assert self.reply
        return self.reply


class Desk:
    """Watcher and prefetcher at a server, as ServerLink has them; `bench` is driven by the test."""

    def __init__(self, url: str, folder: Path) -> None:
        self.view, self.posted = View(), list[Event]()
        settings = Settings(server_url=url)
        self.prefetcher = Prefetcher(settings, self.view, Contexts(folder / "contexts.json"), CLOCK, self.posted.append)
        self.watcher = Watcher(settings, self.view, CLOCK, self.posted.append, self.prefetcher)
        self.bench = self.prefetcher._bench
        self.prefetcher.start()
        self.watcher.start()
        self.watcher.attend(20.0)
        wait_until(lambda: self.view.facts)

    def close(self) -> None:
        """End both threads."""
        self.watcher.close(5.0)
        self.prefetcher.close(5.0)

    def restore(self, timeout: float) -> threading.Thread:
        """Restore without looking first, on a thread, as when a prompt came right after the look."""

        def act() -> None:
            with pytest.raises(ServerTimeout):
                self.bench.act(0, lambda: self.bench.server.restore(0, "a.bin", timeout=timeout))

        thread = threading.Thread(target=act)
        thread.start()
        return thread


@contextmanager
def desk_at(server: RealServer, folder: Path) -> Iterator[Desk]:
    """Return a desk at this server, after a context was saved as a.bin."""
    client.complete(server.url, TALK, CLOCK)
    assert ask(server.url, "/slots/0?action=save", {"filename": "a.bin"})[0] == 200
    desk = Desk(server.url, folder)
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture
def server(tiny_model: Path, tmp_path: Path) -> Iterator[RealServer]:
    """Return a real server with one slot."""
    with RealServer(tiny_model, tmp_path, slot_save_path=tmp_path, context=16384) as running:
        yield running


@pytest.mark.real
def test_a_prompt_stranded_behind_our_action_is_started(
    server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server forgets it; we see it wait beside an idle slot, and free it."""
    with desk_at(server, tmp_path) as desk:
        monkeypatch.setattr(desk.prefetcher, "take_back", lambda: None)  # the worst case: nobody takes it back
        first = User(server.url, OTHER, n_predict=12_000)
        at_work(server.url, processing=1)
        action = threading.Thread(
            target=lambda: desk.bench.act(0, lambda: desk.bench.server.restore(0, "a.bin", timeout=60.0))
        )
        action.start()
        at_work(server.url, processing=1, deferred=1)
        second = User(server.url, OTHER + "And now?")
        at_work(server.url, processing=1, deferred=2)
        first.answer()
        action.join(30)
        second.answer()
        assert desk.view.own_requests >= 1
        wait_until(lambda: not desk.view.in_doubt, what="the doubt to end")
        wait_until(lambda: desk.posted.count(PromptFinished()) == desk.posted.count(PromptArrived()))


@pytest.mark.real
def test_a_dropped_action_that_the_server_carries_out_all_the_same_strands_nobody(
    server: RealServer, tmp_path: Path
) -> None:
    """While it streams a reply it does not notice that we hung up."""
    with desk_at(server, tmp_path) as desk:
        first = User(server.url, OTHER, n_predict=12_000)
        at_work(server.url, processing=1)
        action = desk.restore(timeout=60.0)
        second = User(server.url, OTHER + "And now?")
        action.join(5.0)
        assert not action.is_alive(), "our action was not taken back"
        first.answer()
        second.answer()


@pytest.mark.real
def test_an_action_in_the_way_of_a_silent_prompt_is_taken_back_and_forgotten(
    server: RealServer, tmp_path: Path
) -> None:
    """We keep quiet long enough for the server to notice that we hung up; so the fresh turn stays."""
    with desk_at(server, tmp_path) as desk:
        talk = Call(server.url, "complete", OTHER, 100_000)
        wait_until(lambda: desk.view.busy)
        desk.restore(timeout=60.0).join(5.0)
        wait_until(lambda: not desk.view.in_doubt or CLOCK.now() > desk.view.quiet_until, what="the quiet to end")
        at_work(server.url, processing=1, deferred=0)
        assert desk.view.own_requests == 0
        talk.drop()
        wait_until(lambda: not desk.view.in_doubt, what="the doubt to end")
        assert desk.view.own_requests == 0


@pytest.mark.real
def test_our_looking_does_not_keep_a_prompt_at_work_whose_client_hung_up(server: RealServer, tmp_path: Path) -> None:
    """The server looks for that only after a second without questions for its metrics."""
    with desk_at(server, tmp_path) as desk:
        talk = Call(server.url, "complete", OTHER, 100_000)
        wait_until(lambda: desk.view.busy)
        talk.drop()
        wait_until(lambda: not desk.view.busy, what="the prompt to end")
        predicted = desk.bench.server.metrics().predicted_tokens
        assert predicted is not None
        assert predicted < 12_000, "it ran on until its context was full"


@pytest.mark.real
def test_without_actions_of_ours_no_completion_is_sent(server: RealServer, tmp_path: Path) -> None:
    """However many prompts wait."""
    with desk_at(server, tmp_path) as desk:
        users = [User(server.url, OTHER + str(number), n_predict=200) for number in range(4)]
        for user in users:
            user.answer()
        wait_until(lambda: desk.posted.count(PromptFinished()) == 4 or not desk.view.busy)
        assert (desk.view.own_requests, desk.view.in_doubt) == (0, False)


@pytest.mark.real
def test_prompts_that_meet_our_restore_are_answered_and_keep_their_turn(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty times two prompts, each at another moment around a restore, or behind it; the next re-uses nine tenths."""
    monkeypatch.setattr(workbench, "QUIET", 0.2)  # the prompts are short: the server has forgotten them by then
    chance, posted = random.Random(7), list[Event]()

    def restored() -> int:
        return sum(getattr(event, "context", None) is ContextState.RESTORED for event in posted)

    with RealServer(tiny_model, tmp_path, slot_save_path=tmp_path) as server, ExitStack() as stack:
        link = ServerLink(Settings(server_url=server.url), tmp_path / "contexts.json", CLOCK, posted.append)
        stack.callback(link.close, 10.0)
        link.start()
        link.attend(20.0)
        client.complete(server.url, TALK, CLOCK)
        link.keep()
        wait_until(lambda: any(isinstance(event, ContextReport) and event.detail == "saved" for event in posted))
        view = link._prefetcher._view
        for number in range(30):
            wait_until(lambda: not view.busy and not view.in_doubt, what="rest")
            before = restored()
            assert ask(server.url, "/slots/0?action=erase", method="POST")[0] == 200
            link.prepare()
            if number % 3 == 0:  # chance alone lets too few end on a busy machine
                wait_until(lambda before=before: restored() > before, what="the restore")
            time.sleep(chance.uniform(0.0, 0.012))
            first = User(server.url, TALK + "x" * 30, n_predict=2)
            time.sleep(chance.uniform(0.0, 0.012))
            second = User(server.url, TALK + "x" * 30, n_predict=2)
            first.answer()
            second.answer()
            link.cancel()
            again = User(server.url, TALK + "x" * 60, n_predict=2).answer()
            assert (again.cache_n or 0) >= 0.9 * len(TALK + "x" * 30)


# ---- By script -------------------------------------------------------------------------------------------------------


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[tuple[FakeServer, Workbench]]:
    """Return a scripted server and a workbench at it."""
    with FakeServer() as fake:
        view = View(facts=Facts(Kind.LLAMA_SERVER, n_ctx=10, has_metrics=True))
        bench = Workbench(Settings(server_url=fake.url), view, Contexts(tmp_path / "c.json"), CLOCK, lambda _: None)
        yield fake, bench
        bench.server.close()


def restore(bench: Workbench, timeout: float = 5.0) -> object:
    """Restore something."""
    return bench.act(0, lambda: bench.server.restore(0, "a.bin", timeout=timeout))


def test_an_answer_leaves_a_doubt_and_asks_for_no_quiet(scripted: tuple[FakeServer, Workbench]) -> None:
    """Yes or no: it may have waited a moment behind a prompt, with another one behind itself."""
    fake, bench = scripted
    fake.on("/slots/0", Reply(body={"n_restored": 1, "n_read": 9, "timings": {}}), says_no(400, "no"))
    restore(bench)
    assert (bench.view.in_doubt, bench.view.own_actions) == (True, 0)
    bench.view.in_doubt = False
    with pytest.raises(ServerRefused):
        restore(bench)
    assert (bench.view.in_doubt, bench.view.own_actions) == (True, 0)
    assert bench.view.quiet_until < CLOCK.now()


def test_no_answer_in_time_leaves_a_doubt_and_asks_for_quiet(scripted: tuple[FakeServer, Workbench]) -> None:
    """The server may carry it out yet."""
    fake, bench = scripted
    fake.on("/slots/0", Reply(silent=True))
    with pytest.raises(ServerTimeout):
        restore(bench, timeout=0.1)
    assert (bench.view.in_doubt, bench.view.own_actions) == (True, 0)
    assert bench.view.quiet_until > CLOCK.now()


def test_taken_back_its_outcome_is_unknown_and_a_broken_line_is_not(scripted: tuple[FakeServer, Workbench]) -> None:
    """The first is not tried again, the second is."""
    fake, bench = scripted
    fake.on("/slots/0", Reply(silent=True))

    def take_back() -> None:
        wait_until(lambda: any(request.path == "/slots/0" for request in fake.requests))
        bench.take_back()

    thread = threading.Thread(target=take_back)
    thread.start()
    with pytest.raises(ServerTimeout, match="taken back"):
        restore(bench)
    thread.join(5)
    fake.on("/slots/0", Reply(raw=b""))
    with pytest.raises(ServerUnreachable):
        restore(bench)


def test_nothing_is_taken_back_where_nothing_is_in_flight(scripted: tuple[FakeServer, Workbench]) -> None:
    """A question of ours goes on."""
    fake, bench = scripted
    bench.take_back()
    fake.on("/slots/0", Reply(body={"n_restored": 1, "n_read": 9, "timings": {}}))
    restore(bench)


def test_the_patience_follows_the_disk(scripted: tuple[FakeServer, Workbench]) -> None:
    """Within reason; small files say nothing of it."""
    _, bench = scripted
    unknown = bench.patience(1_000_000_000)
    bench.learn_speed(5000, 1000.0)
    assert bench.patience(1_000_000_000) == unknown
    bench.learn_speed(1_000_000_000, 1000.0)
    assert SLACK < bench.patience(1_000_000_000) < unknown


def test_a_report_is_made_once(tmp_path: Path) -> None:
    """The loop shows the last one."""
    posted: list[Event] = []
    bench = Workbench(Settings(), View(), Contexts(tmp_path / "c.json"), CLOCK, posted.append)
    bench.tell(ContextState.WARM, 5)
    bench.tell(ContextState.WARM, 5)
    bench.tell(ContextState.WARM, 6)
    assert [report.tokens for report in posted if isinstance(report, ContextReport)] == [5, 6]
