"""What we rely on in the real llama-server alone: loading, keys, sleep, and the traps of saved contexts."""

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from helpers.rig import QUIET, Call, ask, at_work
from helpers.wait import wait_until

from diagnostics import tiny_model as writer
from diagnostics.real_server import RealServer
from engine.client.api import Health, Kind, LlamaServer
from engine.errors import ServerError, ServerLoading, ServerRefused, ServerUnreachable

pytestmark = pytest.mark.real

FIRST = "The harbour is full of boats this morning. " * 5
SECOND = "Nobody knows where the old map has gone to. " * 5
UNUSABLE = "Unable to restore slot: No available space in KV cache or invalid slot save file"
Start = Callable[..., tuple[RealServer, LlamaServer]]


@pytest.fixture
def start(tiny_model: Path, tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts a server which saves in `tmp_path`, with these options, and a client of it."""
    with ExitStack() as stack:

        def begin(model: Path = tiny_model, **options: Any) -> tuple[RealServer, LlamaServer]:
            options = {"slot_save_path": tmp_path, **options}
            server = stack.enter_context(RealServer(model, tmp_path, **options))
            return server, stack.enter_context(LlamaServer(server.url, options.get("api_key", "")))

        yield begin


# ---- Loading, keys, switched-off endpoints ---------------------------------------------------------------------------


def test_while_it_loads_it_says_so_on_every_path(tiny_model: Path, tmp_path: Path) -> None:
    """The port opens first; until the model is there each answer is a 503."""
    seen: set[str] = set()
    with LlamaServer("http://127.0.0.1:9") as nobody, pytest.raises(ServerUnreachable):
        nobody.health()
    for _ in range(10):  # the moment is short
        server = RealServer(tiny_model, tmp_path, slot_save_path=tmp_path)
        server.launch()
        try:
            with LlamaServer(server.url) as client:
                _watch_loading(client, seen)
        finally:
            server.kill()
        if seen >= {"health", "props", "restore"}:
            return
    pytest.fail(f"only seen while loading: {seen}")


def _watch_loading(client: LlamaServer, seen: set[str]) -> None:
    """Ask until the server is ready; note who was told that it loads."""
    while True:
        try:
            health = client.health()
        except ServerUnreachable:
            continue
        if health is Health.OK:
            return
        seen.add("health")
        for name, call in (("props", client.props), ("restore", lambda: client.restore(0, "x.bin", timeout=5))):
            try:
                call()
            except ServerLoading:
                seen.add(name)
            except ServerError:
                return


def test_a_key_guards_all_but_health(start: Start) -> None:
    """401 is an answer: the server is there, and ours."""
    server, client = start(api_key="s3cret")
    assert client.slots()[0].id == 0
    with LlamaServer(server.url, "wrong") as stranger:
        assert stranger.health() is Health.OK
        for question in (stranger.slots, stranger.props, stranger.metrics, stranger.models):
            with pytest.raises(ServerRefused, match="HTTP 401: Invalid API Key"):
                question()
        assert stranger.identify().kind is Kind.LLAMA_SERVER


def test_what_is_switched_off_says_501(start: Start) -> None:
    """Metrics, slots, and saving; without /slots saving goes on."""
    _, client = start(metrics=False, slots_endpoint=False)
    for question, text in ((client.metrics, "--metrics"), (client.slots, "slots")):
        with pytest.raises(ServerRefused, match=f"501.*{text}"):
            question()
    assert (client.props().endpoint_metrics, client.props().endpoint_slots) == (False, False)
    assert client.save(0, "a.bin", timeout=5).n_saved == 0
    server, client = start(slot_save_path=None)
    with pytest.raises(ServerRefused, match=r"501.*--slot-save-path"):
        client.save(0, "a.bin", timeout=5)
    assert ask(server.url, "/slots/0?action=erase", method="POST")[0] == 501


# ---- Traps of saved contexts -----------------------------------------------------------------------------------------


def test_a_file_cut_short_ends_the_server(start: Start, tmp_path: Path) -> None:
    """By SIGABRT: the size must be checked before."""
    server, client = start()
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "a.bin", timeout=5)
    whole = (tmp_path / "a.bin").read_bytes()
    (tmp_path / "a.bin").write_bytes(whole[:-1000])
    with pytest.raises(ServerUnreachable):
        client.restore(0, "a.bin", timeout=30)
    try:
        assert server.wait(30) == -6
    except subprocess.TimeoutExpired:
        pytest.fail("the server lives on")


def test_a_longer_context_does_not_fit_and_a_shorter_does(start: Start) -> None:
    """Whatever the size of the context was when it was saved; what does not fit wipes the slot."""
    _, large = start(context=2048)
    large.complete(FIRST, 1, timeout=30)
    large.save(0, "short.bin", timeout=5)
    large.complete("x" * 1000, 1, timeout=30)
    large.save(0, "long.bin", timeout=5)
    _, small = start(context=512)
    assert small.restore(0, "short.bin", timeout=5).n_restored == 1 + len(FIRST)
    assert small.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)
    with pytest.raises(ServerRefused, match=UNUSABLE):
        small.restore(0, "long.bin", timeout=5)
    assert small.complete(FIRST, 1, timeout=30).cache_n == 0


def test_another_models_context_is_refused_only_if_its_shape_differs(start: Start, tmp_path: Path) -> None:
    """Other weights of the same shape are taken in silence, and the wrong state is used."""
    twin, other = tmp_path / "twin.gguf", tmp_path / "other.gguf"
    writer.write(twin, seed=1)
    writer.write(other, dim=64)
    _, client = start()
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "a.bin", timeout=5)
    _, client = start(twin)
    assert client.restore(0, "a.bin", timeout=5).n_restored == 1 + len(FIRST)
    assert client.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)
    _, client = start(other)
    with pytest.raises(ServerRefused, match=UNUSABLE):
        client.restore(0, "a.bin", timeout=5)


def test_slots_apart_and_slots_in_common_do_not_mix(start: Start) -> None:
    """A single slot's file fits several only with --kv-unified; any slot may take it then."""
    _, single = start()
    single.complete(FIRST, 1, timeout=30)
    single.save(0, "a.bin", timeout=5)
    _, apart = start(slots=4)
    with pytest.raises(ServerRefused, match=UNUSABLE):
        apart.restore(0, "a.bin", timeout=5)
    _, common = start(slots=4, kv_unified=True)
    assert common.props().total_slots == 4
    assert common.restore(2, "a.bin", timeout=5).n_restored == 1 + len(FIRST)
    assert common.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)  # the prompt finds it by itself


def test_idle_slots_in_common_are_emptied_by_the_next_prompt(start: Start) -> None:
    """With --kv-unified a slot must be saved at once: later it saves nothing."""
    _, client = start(slots=2, kv_unified=True, cache_ram_mib=64)
    client.complete(FIRST, 1, 0, timeout=30)
    client.complete(SECOND, 1, 1, timeout=30)
    saved = client.save(0, "a.bin", timeout=5)
    assert (saved.n_saved, saved.n_written) == (0, 36)


def test_the_host_cache_keeps_replaced_prompts_but_not_restored_over_ones(start: Start) -> None:
    """A restore over a better slot loses it."""
    _, client = start(cache_ram_mib=64)
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "first.bin", timeout=5)
    client.complete(SECOND, 1, timeout=30)
    assert client.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)
    _, client = start(cache_ram_mib=64)
    client.complete(SECOND, 1, timeout=30)
    client.restore(0, "first.bin", timeout=5)
    assert client.complete(SECOND, 1, timeout=30).cache_n <= 1


def test_an_old_save_replaces_a_better_slot(start: Start) -> None:
    """What came after the save is computed again."""
    _, client = start()
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "a.bin", timeout=5)
    client.complete(FIRST + SECOND, 1, timeout=30)
    client.restore(0, "a.bin", timeout=5)
    again = client.complete(FIRST + SECOND, 1, timeout=30)
    assert (again.cache_n, again.prompt_n) == (1 + len(FIRST), len(SECOND))


def test_a_fresh_slot_does_not_show_a_restore(start: Start) -> None:
    """Only the restore's own answer does."""
    server, client = start()
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "a.bin", timeout=5)
    mark = client.metrics().start_mark
    server.restart()
    assert client.restore(0, "a.bin", timeout=5).n_restored == 1 + len(FIRST)
    assert client.slots()[0].n_prompt_tokens is None
    assert client.metrics().start_mark != mark
    assert client.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)


def test_often_asked_it_does_not_see_who_hung_up(start: Start) -> None:
    """Whoever polls /metrics or /slots keeps an action waiting whose client is long gone; /props does not."""
    server, client = start(context=16384)
    client.save(0, "empty.bin", timeout=5)
    talk = Call(server.url, "complete", "talk " * 20, 100_000)
    at_work(server.url, processing=1)
    restore = Call(server.url, "restore", 0, "empty.bin")
    at_work(server.url, processing=1, deferred=1)
    restore.drop()
    done = threading.Event()
    threading.Timer(2 * QUIET, done.set).start()
    while not done.wait(0.1):
        assert client.metrics().deferred == 1
    done.clear()
    threading.Timer(3.0, done.set).start()
    while not done.wait(0.1):
        client.props()
    assert client.metrics().deferred == 0
    talk.drop()


# ---- Sleep -----------------------------------------------------------------------------------------------------------


def test_sleep_shows_in_props_alone_and_loses_the_context(start: Start) -> None:
    """Health stays good, questions let it sleep, /slots wakes it; then a restore is needed."""
    _, client = start(sleep_idle_seconds=3)
    client.complete(FIRST, 1, timeout=30)
    client.save(0, "a.bin", timeout=5)

    def asleep() -> bool:
        client.metrics()  # neither wakes it nor keeps it awake
        client.models()
        return client.props().is_sleeping

    wait_until(asleep, what="sleep")
    assert client.health() is Health.OK
    client.metrics()
    assert client.props().is_sleeping
    client.slots(timeout=30)
    assert not client.props().is_sleeping
    assert client.complete(FIRST, 1, timeout=30).cache_n == 0
    wait_until(asleep, what="sleep again")
    assert client.restore(0, "a.bin", timeout=30).n_restored == 1 + len(FIRST)
    assert not client.props().is_sleeping
    assert client.complete(FIRST, 1, timeout=30).cache_n == len(FIRST)


def test_asking_for_slots_keeps_it_awake(start: Start) -> None:
    """For longer than it would else stay awake."""
    _, client = start(sleep_idle_seconds=3)
    client.complete(FIRST, 1, timeout=30)
    done = threading.Event()
    threading.Timer(5.0, done.set).start()
    while not done.wait(0.2):
        client.slots()
        assert not client.props().is_sleeping


def test_even_a_refused_action_wakes_it(start: Start) -> None:
    """So nothing is sent to a sleeping server but what it is to be woken for."""
    _, client = start(sleep_idle_seconds=3)
    wait_until(lambda: client.props().is_sleeping, what="sleep")
    with pytest.raises(ServerRefused, match="Invalid filename"):
        client.restore(0, "../x", timeout=30)
    assert not client.props().is_sleeping
