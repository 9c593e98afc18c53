"""What is due when on the acting thread, what is tried again, what is dropped, and how it ends."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.fake_server import LOADING, FakeServer, Reply
from helpers.wait import wait_until

from engine.client import prefetcher as module
from engine.client.answers import Kind
from engine.client.contexts import Contexts, model_key
from engine.client.index import SavedContext
from engine.client.prefetcher import Prefetcher
from engine.client.view import Facts, Reuse, View
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.errors import ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable

FACTS = Facts(Kind.LLAMA_SERVER, has_slots=True, has_metrics=True, command_line=("x",), save_path="/nowhere")


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.time

    def slept(self) -> float:
        """Return 0: never suspended."""
        return 0.0

    def wall(self) -> float:
        """Return Unix seconds."""
        return self.time


@contextmanager
def prefetcher_at(url: str, folder: Path, view: View | None = None, clock: Clock | None = None) -> Iterator[Prefetcher]:
    """Return a prefetcher that was not started."""
    view = view or View(facts=FACTS, reachable=True)
    settings = Settings(server_url=url)
    one = Prefetcher(settings, view, Contexts(folder / "c.json"), clock or SystemClock(), lambda _: None)
    try:
        yield one
    finally:
        one.close(5.0)
        one._bench.server.close()


def due(prefetcher: Prefetcher, clock: Clock) -> str | None:
    """Return the name of what is due now, without doing it."""
    at = [prefetcher._prepare_at, prefetcher._keep_at, prefetcher._awake_at, prefetcher._expire_at]
    if prefetcher._noticed or prefetcher._stranded or any(one is not None and one <= clock.now() for one in at):
        job = prefetcher._next()
        return getattr(job, "__name__", None)
    return None


@pytest.mark.parametrize("error", [ServerUnreachable("gone"), ServerLoading(503, "Loading model")])
def test_a_server_that_is_not_there_is_asked_again_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """After 1, 2, 4, 8 and 16 s; then it is over."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:

        def fail(_: Facts) -> None:
            raise error

        monkeypatch.setattr(one._restorer, "prepare", fail)
        one.prepare()
        waits = []
        for _ in range(5):
            one._prepare_at = None
            one._prepare()
            assert one._prepare_at is not None
            waits.append(one._prepare_at - clock.now())
        one._prepare_at = None
        with pytest.raises(type(error)):
            one._prepare()
        assert one._prepare_at is None
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize("error", [ServerTimeout("late"), ServerRefused(500, "no")])
def test_an_unknown_outcome_and_a_refusal_are_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The slot may hold anything."""
    with prefetcher_at("http://127.0.0.1:9", tmp_path) as one:

        def fail(_: Facts) -> None:
            raise error

        monkeypatch.setattr(one._restorer, "prepare", fail)
        with pytest.raises(type(error)):
            one._prepare()
        assert one._prepare_at is None


def test_a_server_that_is_lost_is_waited_for(tmp_path: Path) -> None:
    """It may be back while the user still types."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, View(facts=None), clock) as one:
        one._prepare()
        assert one._prepare_at == clock.now() + 1.0


def test_cancel_drops_what_is_queued_and_every_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even the retry of a call that was in flight."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:
        one.prepare()
        one.cancel()
        assert due(one, clock) == "expire"
        assert due(one, clock) is None

        def fail(_: Facts) -> None:
            one.cancel()
            raise ServerUnreachable("gone")

        monkeypatch.setattr(one._restorer, "prepare", fail)
        one.prepare()
        job = one._next()
        assert job
        with pytest.raises(ServerUnreachable):
            job()
        assert one._prepare_at is None


def test_cancel_leaves_a_call_alone_that_was_sent(tmp_path: Path) -> None:
    """Its answer is taken in."""
    view = View(facts=FACTS, reachable=True, loss="the server was lost")
    with FakeServer() as fake, prefetcher_at(fake.url, tmp_path, view) as one:
        fake.on("/slots", Reply(body=[{"id": 0, "is_processing": False}], delay=0.3))
        one.start()
        one.prepare()
        wait_until(lambda: fake.requests or one._prepare_at is None)
        one.cancel()
        assert one._thread.is_alive()


def test_a_save_waits_until_the_slot_has_rested(tmp_path: Path) -> None:
    """For two seconds after the turn."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:
        assert due(one, clock) == "expire"
        one.keep()
        clock.time += 1.9
        assert due(one, clock) is None
        clock.time += 0.1
        assert due(one, clock) == "keep"


def test_a_save_gives_way_to_a_preparation_and_is_made_up_for(tmp_path: Path) -> None:
    """A prompt that comes now must not wait for a save; if none comes, the turn is saved after all."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:
        assert due(one, clock) == "expire"
        one.keep()
        one.prepare()
        assert due(one, clock) == "_prepare"
        clock.time += 5.0
        assert [due(one, clock), due(one, clock)] == ["_stay_awake", None]
        one.cancel()
        clock.time += 2.0
        assert due(one, clock) == "keep"
        one.cancel()
        clock.time += 2.0
        assert due(one, clock) is None


@pytest.mark.parametrize(
    ("facts", "pause"),
    [
        (replace(FACTS, command_line=("x", "--sleep-idle-seconds", "6")), 2.0),
        (replace(FACTS, command_line=("x", "--sleep-idle-seconds", "600")), 10.0),
        (replace(FACTS, command_line=None), 1.0),
        (None, 1.0),
    ],
)
def test_while_prepared_the_server_is_kept_awake(tmp_path: Path, facts: Facts | None, pause: float) -> None:
    """Three times in the time after which it would sleep, until the preparation is over."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, View(facts=facts, reachable=True), clock) as one:
        assert due(one, clock) == "expire"
        one.prepare()
        assert [due(one, clock) for _ in range(3)] == ["_prepare", "_stay_awake", None]
        clock.time += pause - 0.01
        assert due(one, clock) is None
        clock.time += 0.02
        assert due(one, clock) == "_stay_awake"
        one.cancel()
        clock.time += 100.0
        assert due(one, clock) is None


def test_a_stranded_prompt_comes_first_and_a_loss_before_a_preparation(tmp_path: Path) -> None:
    """What was noticed is taken in before it is acted upon."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:
        one.prepare()
        one.noticed(Reuse(1, 2))
        one.free()
        assert [due(one, clock) for _ in range(3)] == ["free_stranded", "<lambda>", "_prepare"]


def test_contexts_are_looked_through_for_old_ones_now_and_then(tmp_path: Path) -> None:
    """At the start and every ten minutes."""
    clock = Clock()
    with prefetcher_at("http://127.0.0.1:9", tmp_path, clock=clock) as one:
        assert [due(one, clock), due(one, clock)] == ["expire", None]
        clock.time += module.EXPIRE_EVERY
        assert due(one, clock) == "expire"


def test_what_became_of_a_restore_is_asked_before_each_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next job may send it again."""
    done: list[str] = []
    with prefetcher_at("http://127.0.0.1:9", tmp_path) as one:
        monkeypatch.setattr(one._restorer, "settle", lambda: done.append("settle"))
        one._do(lambda: done.append("job"))
    assert done == ["settle", "job"]


def test_a_restore_in_which_the_program_ended_is_not_tried_again(tmp_path: Path) -> None:
    """From the first moment on."""
    contexts = Contexts(tmp_path / "c.json")
    saved = SavedContext(
        filename="zat-scs-0123456789ab-a.bin",
        folder="/nowhere",
        slot=0,
        tokens=9,
        size=9,
        stamp=None,
        digest=None,
        server="http://127.0.0.1:9",
        model=model_key(FACTS),
        build=None,
        n_ctx=None,
        total_slots=None,
        cache_types="",
        saved_at=SystemClock().wall(),
    )
    contexts.add(saved)
    contexts.restoring(saved)
    with prefetcher_at("http://127.0.0.1:9", tmp_path) as one:
        one.start()
        wait_until(lambda: one._bench.contexts.best(FACTS, "http://127.0.0.1:9") is None)


def test_live_settings_are_taken_over(tmp_path: Path) -> None:
    """KEEP_CONTEXT and CONTEXT_HOURS; the address stays."""
    with prefetcher_at("http://127.0.0.1:9", tmp_path) as one:
        one.reconfigure(Settings(server_url="http://127.0.0.1:7", keep_context=False, context_hours=1.0))
        now = one._bench.settings
        assert (now.server_url, now.keep_context, now.context_hours) == ("http://127.0.0.1:9", False, 1.0)


def test_whatever_goes_wrong_the_thread_goes_on_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors of the server as one line, defects with their trace."""
    with prefetcher_at("http://127.0.0.1:9", tmp_path) as one:

        def refuse() -> None:
            raise ServerRefused(500, "no")

        def break_down() -> None:
            raise ZeroDivisionError

        with caplog.at_level(logging.WARNING):
            for job in (refuse, refuse, break_down):
                one._do(job)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]


@pytest.mark.parametrize("reply", [Reply(silent=True), LOADING, Reply(raw=b"")])
def test_it_ends_in_time_whatever_the_server_does(tmp_path: Path, reply: Reply) -> None:
    """A call in flight is broken off, and no thread is left."""
    clock = SystemClock()
    with FakeServer() as fake, prefetcher_at(fake.url, tmp_path) as one:
        fake.on("/slots", reply)
        one._view.sleeping = True
        one._view.facts = Facts(Kind.ROUTER, model="m")  # woken without a context, with a long timeout
        one.start()
        one.prepare()
        wait_until(lambda: fake.requests)
        began = clock.now()
        one.close(5.0)
        assert clock.now() - began < 2.0
    assert "context" not in {thread.name for thread in threading.enumerate()}
