"""What looks at the server mean: scripts of looks and the events they stand for."""

import logging
import threading
from collections.abc import Iterable
from dataclasses import replace

import pytest
from helpers.fake_server import FakeServer, Reply
from helpers.wait import wait_until

from engine.client.observer import Look
from engine.client.view import Reuse, View
from engine.client.watcher import Interpreter, Watcher
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import (
    Event,
    PromptArrived,
    PromptFinished,
    ServerBack,
    ServerLost,
    ServerReport,
    ServerSlept,
    ServerState,
)

REFUSED = Look(reached=False, reason="refused")
GONE = Look(reached=False, certain=True, reason="its process has ended")
LOADING = Look(reached=True, loading=True)
ASLEEP = Look(reached=True, sleeping=True, work=0)
LATE = Look(reached=True, late=True)
SKIPPED = Look(reached=True, skipped=True)
UNSEEN = Look(reached=True)


def up(
    work: int = 0, *, predicted: int = 0, deferred: int = 0, computed: int = 0, cached: int = 0, mark: str = "1"
) -> Look:
    """Return what /metrics shows."""
    return Look(
        reached=True,
        work=work,
        deferred=deferred,
        predicted_tokens=predicted,
        prompt_tokens=computed,
        cached_tokens=cached,
        start_mark=mark,
    )


class Script:
    """Feeds looks, a tenth of a second apart, to an interpreter."""

    def __init__(self, *looks: Look, every: float = 0.1) -> None:
        self.view = View()
        self.interpreter = Interpreter(self.view)
        self.now = 100.0
        self.every = every
        self.feed(looks)

    def feed(self, looks: Iterable[Look]) -> list[str]:
        """Return the events of these looks by name; a lost server with its reason."""
        events: list[Event] = []
        for look in looks:
            self.now += self.every
            events += self.interpreter.take(self.now, look)
        return [_name(event) for event in events]

    def then(self, *looks: Look) -> list[str]:
        """Return what these further looks mean."""
        return self.feed(looks)


def _name(event: Event) -> str:
    match event:
        case PromptArrived():
            return "arrived"
        case PromptFinished():
            return "finished"
        case ServerBack(busy):
            return f"back {busy}"
        case ServerLost(reason):
            return f"lost: {reason}"
        case ServerSlept():
            return "slept"
        case _:
            return type(event).__name__


# ---- Loss and return -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("looks", "events"),
    [
        ([up()], ["back 0"]),
        ([up(2)], ["back 2"]),
        ([REFUSED], []),
        ([REFUSED, REFUSED], ["lost: refused"]),
        ([REFUSED, REFUSED, REFUSED, up()], ["lost: refused", "back 0"]),
        ([up(), REFUSED, up(), REFUSED, up()], ["back 0"]),
        ([up(), REFUSED, REFUSED], ["back 0", "lost: refused"]),
        ([up(), GONE], ["back 0", "lost: its process has ended"]),
        ([up(), LOADING, LOADING, up()], ["back 0", "lost: loading its model", "back 0"]),
        ([LOADING, up(1)], ["lost: loading its model", "back 1"]),
        ([ASLEEP], ["back 0"]),
        ([UNSEEN], ["back 0"]),
        ([up(), LATE, up()], ["back 0", "arrived", "finished"]),
        ([SKIPPED], ["back 0"]),
    ],
)
def test_looks_tell_loss_and_return(looks: list[Look], events: list[str]) -> None:
    """Two refusals in a row, an ended process or loading is a loss; 401, 501, sleep and late answers are not."""
    assert Script().then(*looks) == events


def test_a_first_refusal_asks_for_a_second_look_soon() -> None:
    """Until it is clear whether it is lost."""
    script = Script(up(), REFUSED)
    assert script.interpreter.doubtful
    script.then(REFUSED)
    assert not script.interpreter.doubtful


def test_late_answers_for_a_minute_are_a_loss() -> None:
    """A server whose health alone answers has hung; an answer in between starts the minute anew."""
    script = Script(up(), every=1.0)
    assert script.then(*[LATE] * 40, up(1), *[LATE] * 59) == ["arrived"]
    assert script.then(SKIPPED, LATE) == ["lost: "]
    assert not script.view.busy


def test_prompts_of_a_lost_server_are_over() -> None:
    """None is reported as finished, and the next ones count from none."""
    script = Script(up(2))
    assert script.then(GONE, up(), up(1)) == ["lost: its process has ended", "back 0", "arrived"]


@pytest.mark.parametrize("after", [up(mark="2", predicted=50), up(mark="1", predicted=3), up(mark="1", computed=1)])
def test_a_restart_between_two_looks_is_a_seen_loss(after: Look) -> None:
    """By its start mark, or by counters that fall."""
    script = Script(up(predicted=40, computed=40))
    assert script.view.loss is None
    starts = script.view.starts
    script.then(after)
    assert script.view.loss == "the server was started anew"
    assert script.view.starts == starts + 1


@pytest.mark.parametrize("end", [up(mark="2"), ASLEEP])
def test_a_prompt_that_ended_with_a_restart_or_before_sleep_leaves_nothing(end: Look) -> None:
    """It is over, and its context is gone."""
    script = Script(up(), up(1))
    assert script.then(end)[-1] == "finished"
    assert script.view.loss


def test_another_model_of_a_router_is_no_restart() -> None:
    """Its counters and mark are its own."""
    script = Script(Look(reached=True, work=0, model="a", predicted_tokens=40, start_mark="1"))
    assert script.then(Look(reached=True, work=0, model="b", predicted_tokens=2, start_mark="9")) == []
    assert script.view.loss is None


# ---- Prompts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("looks", "events"),
    [
        ([up(1), up()], ["arrived", "finished"]),
        ([up(3), up(1), up()], ["arrived"] * 3 + ["finished"] * 3),
        ([up(1), up(2), up(1), up(0)], ["arrived"] * 2 + ["finished"] * 2),
        ([up(predicted=8)], ["arrived", "finished"]),
        ([up(1), up(1, predicted=8), up(predicted=9)], ["arrived", "arrived", "finished", "finished"]),
        (
            [Look(reached=True, work=0, last_task=4), Look(reached=True, work=0, last_task=9)],
            ["arrived", "finished"] * 2,
        ),
        ([up(1), SKIPPED, SKIPPED, up(1), up()], ["arrived", "finished"]),
        ([up(1), UNSEEN], ["arrived", "finished"]),
        ([LATE, LATE, up(1), up()], ["arrived", "finished"]),
    ],
)
def test_as_many_prompts_finish_as_arrive(looks: list[Look], events: list[str]) -> None:
    """Those between two looks show by counters; what was not asked for stays, what cannot be seen is over."""
    assert Script(Look(reached=True, work=0, predicted_tokens=0)).then(*looks) == events


def test_a_counter_that_moved_long_ago_makes_no_prompt() -> None:
    """After a pause of the watch nobody knows when it moved."""
    script = Script(up(predicted=1))
    script.now += 60.0
    assert script.then(up(predicted=9)) == []


def test_our_own_slot_actions_and_requests_are_no_prompts() -> None:
    """A waiting action of ours is taken out, and a counter that our own request moved."""
    script = Script(up())
    script.view.own_actions = 1
    assert script.then(up(1, deferred=1)) == []
    assert script.then(up(2, deferred=1)) == ["arrived"]
    assert script.then(up(3, deferred=2)) == ["arrived"]
    script.view.own_actions = 0
    assert script.then(up()) == ["finished"] * 2
    script.view.own_requests += 1
    assert script.then(up(predicted=1)) == []
    assert script.then(up(predicted=2)) == ["arrived", "finished"]


@pytest.mark.parametrize(
    ("before", "after", "reuse"),
    [
        (up(cached=10, computed=100), up(cached=1010, computed=140, predicted=5), Reuse(1000, 40)),
        (up(cached=10, computed=100), up(cached=10, computed=1201, predicted=5), Reuse(0, 1101)),
        (up(), Look(reached=True, work=0, predicted_tokens=5), None),
        (
            replace(up(), prompt_seconds=2.0),
            replace(up(cached=10, computed=100, predicted=5), prompt_seconds=2.5),
            Reuse(10, 100, 0.5),
        ),
    ],
)
def test_reuse_counts_from_the_last_rest(before: Look, after: Look, reuse: Reuse | None) -> None:
    """What the prompt took from the cache, and what it computed; None where there are no counters."""
    script = Script(before)
    script.then(up(1, cached=before.cached_tokens or 0, computed=before.prompt_tokens or 0))
    assert script.interpreter.reuse is None
    script.then(after)
    assert script.interpreter.reuse == reuse


def test_after_a_prompt_the_server_holds_its_context_itself() -> None:
    """The loss is over."""
    script = Script(up())
    script.view.loss = "the server fell asleep"
    script.then(up(1))
    assert script.view.loss
    script.then(up())
    assert script.view.loss is None


# ---- Sleep -----------------------------------------------------------------------------------------------------------


def test_falling_asleep_is_told_once_and_is_a_loss() -> None:
    """The context is gone."""
    script = Script(up())
    assert script.then(ASLEEP, ASLEEP) == ["slept"]
    assert script.view.loss == "the server fell asleep"
    assert script.view.sleeping


def test_a_wake_that_is_not_ours_is_an_arrival() -> None:
    """Even if its prompt does not show yet; if none ever does, it is over after a while."""
    script = Script(up(), ASLEEP)
    assert script.then(up(), up(), up(1), up(1), up()) == ["arrived", "finished"]
    script.then(ASLEEP)
    assert script.then(*[up()] * 25) == ["arrived"]
    assert script.then(*[up()] * 10) == ["finished"]


def test_our_own_wake_is_no_arrival() -> None:
    """But a prompt that comes then is."""
    script = Script(up(), ASLEEP)
    script.view.waking = True
    assert script.then(up(), up()) == []
    assert script.then(up(1)) == ["arrived"]
    assert not script.view.waking


# ---- Prompts that the server forgot ----------------------------------------------------------------------------------


def test_a_prompt_beside_idle_slots_is_stranded_only_behind_an_action_of_ours() -> None:
    """Without one nothing is ever sent; the doubt ends once nothing works nor waits."""
    script = Script(up(), *[up(1, deferred=1)] * 9)
    assert not script.interpreter.stranded
    script.view.in_doubt = True
    seen = []
    for look in [up(1, deferred=1)] * 3:
        script.then(look)
        seen.append(script.interpreter.stranded)
    assert seen == [False, False, True]
    script.then(up(2, deferred=1))
    script.then(up())
    assert script.view.in_doubt, "that look may have been under way before the action ended"
    script.then(up())
    assert not script.view.in_doubt


def test_while_our_action_still_waits_nothing_is_stranded() -> None:
    """What waits may be the action itself."""
    script = Script(up())
    script.view.in_doubt, script.view.own_actions = True, 1
    script.then(*[up(1, deferred=1)] * 5)
    assert not script.interpreter.stranded


def test_where_waiting_is_not_shown_a_stranded_prompt_is_supposed_once() -> None:
    """/slots alone shows only that they are idle."""
    idle = Look(reached=True, work=0)
    script = Script(idle)
    script.view.in_doubt = True
    script.then(Look(reached=True, work=1))
    assert not script.interpreter.stranded
    script.then(idle)
    assert not script.interpreter.stranded
    script.then(idle)
    assert script.interpreter.stranded
    script.then(idle)
    assert not script.interpreter.stranded


# ---- The thread ------------------------------------------------------------------------------------------------------


class Notes:
    """A helper that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def noticed(self, reuse: Reuse | None) -> None:
        """Note it."""
        self.told.append(f"noticed {reuse}")

    def take_back(self) -> None:
        """Note it."""
        self.told.append("take back")

    def free(self) -> None:
        """Note it."""
        self.told.append("free")


def metrics(processing: int, deferred: int = 0) -> Reply:
    """Return an answer of /metrics."""
    return Reply(body=f"llamacpp:requests_processing {processing}\nllamacpp:requests_deferred {deferred}\n")


PROPS = Reply(
    body={"total_slots": 1, "default_generation_settings": {"n_ctx": 99}, "endpoint_metrics": True, "model_path": "m"}
)


def test_the_thread_posts_what_it_sees_and_ends() -> None:
    """Events, and a report for each change; afterwards no thread is left."""
    posted: list[Event] = []
    server = FakeServer().on("/props", PROPS).on("/metrics", metrics(0), metrics(1), metrics(1), metrics(0))
    with server:
        watcher = Watcher(Settings(server_url=server.url), View(), SystemClock(), posted.append, Notes())
        watcher.start()
        watcher.attend(20.0)
        wait_until(lambda: PromptFinished() in posted)
        server.close()
        wait_until(lambda: any(isinstance(event, ServerLost) for event in posted))
        watcher.close(5.0)
    events = [event for event in posted if not isinstance(event, ServerReport)]
    assert events[:3] == [ServerBack(), PromptArrived(), PromptFinished()]
    states = [event.server for event in posted if isinstance(event, ServerReport)]
    assert states == [ServerState.UP, ServerState.BUSY, ServerState.UP, ServerState.DOWN]
    assert "server-watch" not in {thread.name for thread in threading.enumerate()}


def test_an_action_of_ours_in_a_prompts_way_is_taken_back() -> None:
    """As soon as a slot is seen to work."""
    notes, view = Notes(), View(own_actions=1)
    with FakeServer() as server:
        server.on("/props", PROPS).on("/metrics", metrics(0, 1), metrics(1, 1))
        watcher = Watcher(Settings(server_url=server.url), view, SystemClock(), lambda _: None, notes)
        watcher.start()
        wait_until(lambda: "take back" in notes.told)
        assert sum(request.path == "/metrics" for request in server.requests) >= 2
        watcher.close(5.0)


def test_a_hanging_server_does_not_hold_up_the_end() -> None:
    """A look in flight is broken off."""
    with FakeServer() as server:
        server.on("/props", Reply(silent=True))
        watcher = Watcher(Settings(server_url=server.url), View(), SystemClock(), lambda _: None, Notes())
        watcher.start()
        wait_until(lambda: server.requests)
        clock = SystemClock()
        began = clock.now()
        watcher.close(5.0)
        assert clock.now() - began < 2.0
    assert "server-watch" not in {thread.name for thread in threading.enumerate()}


def test_a_defect_of_ours_is_logged_once_and_the_watch_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """A lost server would else go unseen."""
    seen: list[Event] = []

    def post(event: Event) -> None:
        seen.append(event)
        if len(seen) < 3:
            raise ValueError(event)

    with FakeServer() as server, caplog.at_level(logging.ERROR):
        server.on("/props", PROPS).on("/metrics", metrics(0), metrics(1), metrics(0), metrics(1))
        watcher = Watcher(Settings(server_url=server.url), View(), SystemClock(), post, Notes())
        watcher.start()
        wait_until(lambda: len(seen) > 4)
        watcher.close(5.0)
    assert sum("a look at the server failed" in record.message for record in caplog.records) == 1


def test_a_count_that_cannot_be_is_not_believed() -> None:
    """A server that claims 10^40 prompts must not fill the memory with events."""
    interpreter = Interpreter(View())
    interpreter.take(1.0, Look(reached=True, work=0))
    assert len(interpreter.take(1.1, Look(reached=True, work=10**40))) <= 1000
