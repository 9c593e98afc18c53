"""Which questions one look asks, and what it makes of strange answers."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.clock import STEP
from helpers.fake_server import LOADING, FakeServer, Reply, says_no
from helpers.forwarder import forwarded
from helpers.rig import Call
from helpers.wait import wait_until

from diagnostics.real_server import RealServer
from engine.client import observer as module
from engine.client.answers import Kind
from engine.client.observer import Look, Observer
from engine.client.view import View
from engine.client.watcher import Watcher
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import Event, ServerReport

METRICS = Reply(
    body="llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\nllamacpp:tokens_predicted_total 7\n"
)
SLOTS = Reply(body=[{"id": 0, "is_processing": True, "id_task": 3}, {"id": 1, "is_processing": False, "id_task": 8}])


def props(*, metrics: bool = False, slots: bool = True, sleeping: bool = False, **more: Any) -> Reply:
    """Return an answer of /props."""
    shown = {"endpoint_metrics": metrics, "endpoint_slots": slots, "is_sleeping": sleeping}
    return Reply(
        body={"total_slots": 2, "default_generation_settings": {"n_ctx": 99}, "model_path": "m", **shown, **more}
    )


@contextmanager
def observing(server: FakeServer | RealServer, path: str = "", key: str = "") -> Iterator[Observer]:
    """Return an observer of this server."""
    observer = Observer(Settings(server_url=server.url + path, api_key=key))
    try:
        yield observer
    finally:
        observer.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """Return a server that answers by script, and whose command line cannot be read: so it may sleep."""
    monkeypatch.setattr(module, "command_line", lambda _: None)
    with FakeServer() as server:
        yield server


@pytest.fixture
def never_sleeps(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server's command line say that it does not sleep."""
    del fake  # after it
    monkeypatch.setattr(module, "command_line", lambda _: ("llama-server",))


def asked(fake: FakeServer, since: int = 0) -> Counter[str]:
    """Count the paths asked for."""
    return Counter(request.path for request in fake.requests[since:])


def step(observer: Observer, now: float = 0.0, *, keen: bool = True, **more: bool) -> Look:
    """Take one look."""
    return observer.look(now, keen=keen, **{"busy": False, **more})


# ---- What is asked ---------------------------------------------------------------------------------------------------


def test_with_metrics_the_slots_are_never_asked_for(fake: FakeServer) -> None:
    """/slots wakes a sleeping server and keeps it awake; /props only now and then."""
    fake.on("/props", props(metrics=True)).on("/metrics", Reply(body="llamacpp:requests_processing 0\n"))
    with observing(fake) as observer:
        step(observer)
        learned = len(fake.requests)
        for tenth in range(40):
            assert step(observer, tenth / 10).work == 0
    counts = asked(fake, learned)
    assert counts["/slots"] == 0
    assert (counts["/metrics"], counts["/props"]) == (40, 1)


def test_what_works_is_not_asked_whether_it_sleeps(fake: FakeServer) -> None:
    """Work shows by the metrics alone."""
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS)
    with observing(fake) as observer:
        look = step(observer)
        learned = len(fake.requests)
        for second in range(10):
            step(observer, float(second))
    assert (look.work, look.deferred, look.predicted_tokens) == (3, 2, 7)
    assert set(asked(fake, learned)) == {"/metrics"}


def test_a_sleeping_server_is_asked_only_whether_it_still_sleeps(fake: FakeServer) -> None:
    """With metrics or without, keen or not."""
    for metrics in (True, False):
        fake.on("/props", props(metrics=metrics, sleeping=True)).on("/metrics", METRICS).on("/slots", SLOTS)
        with observing(fake) as observer:
            step(observer)
            learned = len(fake.requests)
            assert all(step(observer, second / 10).sleeping for second in range(20))
        assert set(asked(fake, learned)) == {"/props"}


def test_slots_of_a_server_that_may_sleep_are_asked_only_when_keen(fake: FakeServer) -> None:
    """Awake by /props first, each time."""
    fake.on("/props", props()).on("/slots", SLOTS)
    with observing(fake) as observer:
        assert step(observer, keen=False).work is None
        assert asked(fake)["/slots"] == 0
        look = step(observer, keen=True)
        assert (look.work, look.deferred, look.last_task) == (1, None, 8)
        fake.on("/props", props(sleeping=True))
        assert step(observer, keen=True).sleeping
    assert asked(fake)["/slots"] == 1


@pytest.mark.usefixtures("never_sleeps")
def test_slots_of_a_server_that_never_sleeps_are_asked_always(fake: FakeServer) -> None:
    """Nothing else shows its prompts."""
    fake.on("/props", props()).on("/slots", SLOTS)
    with observing(fake) as observer:
        step(observer, keen=False)
        learned = len(fake.requests)
        assert step(observer, keen=False).work == 1
    assert asked(fake, learned) == {"/slots": 1}


@pytest.mark.usefixtures("never_sleeps")
def test_without_metrics_and_slots_health_still_shows_a_loss(fake: FakeServer) -> None:
    """Though no prompt is seen."""
    fake.on("/props", props(slots=False)).on("/health", Reply(body={"status": "ok"}), LOADING)
    with observing(fake) as observer:
        look = step(observer)
        assert (look.reached, look.work) == (True, None)
        assert step(observer).loading


def test_quiet_asks_only_what_lets_it_notice_that_we_hung_up(fake: FakeServer) -> None:
    """Neither /metrics nor /slots."""
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS).on("/health", Reply(body={"status": "ok"}))
    with observing(fake) as observer:
        step(observer)
        learned = len(fake.requests)
        assert step(observer, quiet=True).skipped
    assert asked(fake, learned) == {"/health": 1}


def test_a_path_prefix_is_kept_and_the_key_sent(fake: FakeServer) -> None:
    """As --api-prefix and --api-key want it."""
    fake.on("/llm/props", props(metrics=True)).on("/llm/metrics", METRICS)
    with observing(fake, "/llm", key="k3y") as observer:
        assert step(observer).work == 3
    assert {request.headers["authorization"] for request in fake.requests} == {"Bearer k3y"}


# ---- Who answers -----------------------------------------------------------------------------------------------------


def test_a_wrong_key_is_said_and_is_no_loss(fake: FakeServer) -> None:
    """Health needs no key."""
    fake.on("/props", says_no(401, "Invalid API Key")).on("/health", Reply(body={"status": "ok"}))
    with observing(fake, key="wr0ng") as observer:
        assert step(observer).reached
        assert step(observer).reached
        assert observer.facts
        assert "API key" in observer.facts.shortcoming
        assert "wr0ng" not in str(observer.facts)


@pytest.mark.parametrize(
    ("path", "answer", "kind"),
    [
        ("/", "Ollama is running", Kind.OLLAMA),
        ("/api/v0/models", {"data": []}, Kind.LM_STUDIO),
        ("/running", {"running": []}, Kind.LLAMA_SWAP),
        ("/nothing", "", Kind.OTHER),
    ],
)
def test_others_are_named_watched_for_loss_and_asked_again_later(
    fake: FakeServer, path: str, answer: Any, kind: Kind
) -> None:
    """Ollama, LM Studio and llama-swap are no llama-server, but one may come to their address."""
    fake.on(path, Reply(body=answer))
    with observing(fake) as observer:
        assert step(observer).reached
        assert observer.facts
        assert observer.facts.kind is kind
        assert step(observer, 1.0).work is None
        fake.on("/props", props(metrics=True)).on("/metrics", METRICS)
        assert step(observer, 2.0).work is None
        assert step(observer, 31.0).work == 3


def router(**status: str) -> Reply:
    """Return a router's list of models."""
    return Reply(body={"data": [{"id": name, "status": {"value": value}} for name, value in status.items()]})


def test_a_router_is_never_asked_about_a_model_that_is_not_in_use(fake: FakeServer) -> None:
    """Any question about one would load it."""
    fake.on("/props", Reply(body={"role": "router"})).on("/models", router(a="unloaded", b="loading", c="unloaded"))
    with observing(fake) as observer:
        look = step(observer)
        assert (look.reached, look.sleeping) == (True, True)
        assert observer.facts
        assert observer.facts.shortcoming == "no model is loaded"
        step(observer)
    assert all(not request.query for request in fake.requests)


def test_a_router_is_asked_about_all_models_in_use_and_the_one_at_work_counts(fake: FakeServer) -> None:
    """Sleeping ones are left asleep."""
    both = router(a="loaded", b="sleeping", c="unloaded", d="loaded")
    idle = Reply(body="llamacpp:requests_processing 0\n")
    fake.on("/props", Reply(body={"role": "router"}), Reply(body={"role": "router"}), props(metrics=True))
    fake.on("/models", both).on("/metrics", idle, METRICS, idle, idle)
    with observing(fake) as observer:
        look = step(observer)
        assert (look.work, look.model) == (3, "d")
        look = step(observer)
        assert (look.work, look.model) == (0, "d")
        assert observer.facts
        assert observer.facts.model == "d"
    asked_about = {(request.path, *request.query.get("model", [])) for request in fake.requests}
    assert ("/metrics", "b") not in asked_about
    assert not {name for _, *names in asked_about for name in names} & {"c"}
    assert asked(fake)["/slots"] == 0


@pytest.mark.parametrize(("args", "asked_for"), [(["--model", "m"], 2), (["--sleep-idle-seconds", "9"], 0)])
def test_a_router_tells_whether_a_model_may_sleep(fake: FakeServer, args: list[str], asked_for: int) -> None:
    """By how it is started: the flags may stand in a file. Asking for slots would keep it awake."""
    loaded = {"id": "a", "status": {"value": "loaded", "args": args}}
    fake.on("/props", Reply(body={"role": "router"}), Reply(body={"role": "router"}), props())
    fake.on("/models", Reply(body={"data": [loaded]})).on("/slots", SLOTS)
    with observing(fake) as observer:
        step(observer, keen=False)
        step(observer, keen=False)
    assert asked(fake)["/slots"] == asked_for


def test_a_router_whose_only_model_sleeps_is_asleep(fake: FakeServer) -> None:
    """Its slots are not asked for."""
    fake.on("/props", Reply(body={"role": "router"}), Reply(body={"role": "router"}), props(metrics=True))
    fake.on("/models", router(a="sleeping"))
    with observing(fake) as observer:
        assert step(observer).sleeping
        assert observer.facts
        assert observer.facts.model == "a"


# ---- Loss ------------------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_no_certain_loss(fake: FakeServer) -> None:
    """A second one must follow, unless its process is seen to be gone."""
    fake.close()
    with observing(fake) as observer:
        look = step(observer)
        assert (look.reached, look.certain) == (False, False)


def test_an_ended_process_is_a_certain_loss(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One look is enough."""
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS)
    with observing(fake) as observer:
        look = step(observer)
        assert look.process
        assert look.process.pid == os.getpid()
        fake.close()
        monkeypatch.setattr(module, "alive", lambda _: False)
        look = step(observer)
        assert (look.reached, look.certain, look.reason) == (False, True, "its process has ended")
        assert observer.facts is None
        assert not step(observer).certain


def test_a_server_started_anew_is_learned_anew(fake: FakeServer) -> None:
    """It may be another build with other flags, even if no look met it down."""
    mark = "Process-Start-Time-Unix"
    counters = "llamacpp:requests_processing 0\n"
    fake.on("/props", props(metrics=True, build_info="b1"))
    fake.on("/metrics", Reply(body=counters, headers={mark: "1"}), Reply(body=counters, headers={mark: "2"}))
    with observing(fake) as observer:
        step(observer)
        fake.on("/props", props(metrics=True, build_info="b2"))
        assert step(observer).start_mark == "2"
        assert observer.facts
        assert observer.facts.build == "b2"


def test_a_server_that_answers_only_between_batches_is_busy(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its health answers at once, its metrics late."""
    monkeypatch.setattr(module, "LATE", 0.1)
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS, Reply(delay=1.0)).on(
        "/health", Reply(body={"status": "ok"})
    )
    with observing(fake) as observer:
        step(observer)
        look = step(observer)
        assert (look.reached, look.late) == (True, True)


@pytest.mark.parametrize(("is_busy", "patience"), [(False, 0.3), (True, 0.9)])
def test_a_server_that_answers_nothing_is_lost_sooner_when_idle(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool, patience: float
) -> None:
    """After 5 s, or 60 s when it had work; here scaled down."""
    for name, value in (("LATE", 0.1), ("LOST_IDLE", 0.3), ("LOST_BUSY", 0.9)):
        monkeypatch.setattr(module, name, value)
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS, Reply(silent=True)).on("/health", Reply(silent=True))
    with observing(fake) as observer:
        step(observer)
        began = time.perf_counter()
        look = step(observer, busy=is_busy)
        assert (look.reached, look.certain) == (False, True)
        assert time.perf_counter() - began >= patience - 2 * STEP  # two waits, one after the other


@pytest.mark.parametrize("path", ["/props", "/metrics"])
def test_loading_is_seen_whatever_is_asked(fake: FakeServer, path: str) -> None:
    """503 with these words."""
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS).on(path, LOADING)
    with observing(fake) as observer:
        look = step(observer)
        assert (look.reached, look.loading) == (True, True)


STRANGE = {
    "redirect": Reply(302, headers={"Location": "http://127.0.0.1:9/"}),
    "not metrics": Reply(body="<html>hello</html>"),
    "huge": Reply(body=b"x" * 5_000_000),
    "truncated": Reply(body="llamacpp:requests_processing 0\n", cut_after=45),
    "half open": Reply(raw=b"HTTP/1.1 200"),
    "no http": Reply(raw=b"\x00\x01\x02\r\n\r\n"),
    "hangs up": Reply(raw=b""),
    "server error": says_no(500, "out of memory"),
    "not found": says_no(404, "File Not Found"),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("path", ["/props", "/metrics"])
def test_strange_answers_become_a_sentence_and_the_watch_goes_on(
    fake: FakeServer, path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is raised out of the thread, nothing logged at each look."""
    fake.on("/props", props(metrics=True)).on("/metrics", METRICS).on(path, STRANGE[name])
    posted: list[Event] = []

    class Deaf:
        def noticed(self, reuse: object) -> None: ...
        def take_back(self) -> None: ...
        def free(self) -> None: ...

    watcher = Watcher(Settings(server_url=fake.url), View(), SystemClock(), posted.append, Deaf())
    watcher.start()
    wait_until(lambda: any(isinstance(event, ServerReport) for event in posted))
    count = len(fake.requests)
    wait_until(lambda: len(fake.requests) > count + 2, what="the watch to go on")
    watcher.close(5.0)
    reports = [event for event in posted if isinstance(event, ServerReport)]
    assert all(report.detail for report in reports)
    assert len(reports) <= 3
    assert not caplog.records
    assert "server-watch" not in {thread.name for thread in threading.enumerate()}


# ---- The real server -------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_the_real_server_sleeps_on_while_it_is_watched(tiny_model: Path, tmp_path: Path) -> None:
    """With metrics and without; keen looks at its slots keep it awake only where there are no metrics."""
    clock = SystemClock()
    with RealServer(tiny_model, tmp_path, sleep_idle_seconds=1) as server, observing(server) as observer:
        wait_until(lambda: step(observer, clock.now()).sleeping, what="sleep with metrics, keen")
    with RealServer(tiny_model, tmp_path, sleep_idle_seconds=1, metrics=False) as server, observing(server) as observer:
        wait_until(lambda: step(observer, clock.now(), keen=False).sleeping, what="sleep without metrics")
        assert step(observer, clock.now(), keen=True).sleeping
        assert step(observer, clock.now(), keen=True).sleeping


@pytest.mark.real
def test_behind_a_forwarder_the_real_server_sleeps_on_too(tiny_model: Path, tmp_path: Path) -> None:
    """Whoever listens here has a command line without the flag, which says nothing of the server."""
    clock = SystemClock()
    with (
        RealServer(tiny_model, tmp_path, sleep_idle_seconds=1, metrics=False) as server,
        forwarded(server.port) as url,
        closing(Observer(Settings(server_url=url))) as observer,
    ):
        wait_until(lambda: step(observer, clock.now(), keen=False).sleeping, what="sleep behind a forwarder")
        assert observer.facts
        assert observer.facts.process
        assert observer.facts.process.pid != server.pid
        for keen in (False, True, True):
            assert step(observer, clock.now(), keen=keen).sleeping


@pytest.mark.real
@pytest.mark.parametrize("metrics", [True, False])
def test_work_of_the_real_server_is_seen(tiny_model: Path, tmp_path: Path, *, metrics: bool) -> None:
    """By its metrics, or by its slots; and its folder and process are known by its command line."""
    with (
        RealServer(tiny_model, tmp_path, metrics=metrics, slot_save_path=tmp_path, context=16384) as server,
        observing(server) as observer,
    ):
        assert step(observer).work == 0
        talk = Call(server.url, "complete", "talk " * 20, 100_000)
        wait_until(lambda: step(observer, keen=False).work == 1, what="the prompt to be seen")
        talk.drop()
        assert observer.facts
        assert observer.facts.save_path == str(tmp_path)
        assert observer.facts.process
        assert observer.facts.process.pid == server.pid
        assert not observer.facts.can_sleep
        server.kill()
        assert step(observer).certain


@pytest.mark.real
def test_a_real_server_with_a_key_is_there_but_not_seen(tiny_model: Path, tmp_path: Path) -> None:
    """Until the key is right."""
    with RealServer(tiny_model, tmp_path, api_key="s3cret") as server:
        with observing(server) as stranger:
            assert step(stranger).reached
            assert stranger.facts
            assert stranger.facts.needs_key
        with observing(server, key="s3cret") as observer:
            assert step(observer).work == 0
