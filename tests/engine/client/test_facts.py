"""What we rely on in llama-server, asked of the real one and of our stand-in: both must behave alike."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.rig import QUIET, Call, ask, at_work, busy, refusal

from diagnostics.mock_server import StandIn
from diagnostics.real_server import RealServer
from engine.client.api import Health, Kind, LlamaServer, Props, Slot
from engine.errors import ServerRefused, ServerUnreachable

CONTEXT = 16384
HELLO = "Tell me about the sea, and take your time. " * 5  # each character is a token, and one begins the prompt
UNUSABLE = "Unable to restore slot: No available space in KV cache or invalid slot save file"


@pytest.fixture(scope="module")
def saves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the server's folder of saved contexts."""
    return tmp_path_factory.mktemp("saves")


@pytest.fixture(scope="module", params=[pytest.param("real", marks=pytest.mark.real), "stand-in"])
def url(request: pytest.FixtureRequest, saves: Path) -> Iterator[str]:
    """Return the address of the real server, then of the stand-in, each with one slot."""
    server: Any
    if request.param == "real":
        model = request.getfixturevalue("tiny_model")
        server = RealServer(model, saves, context=CONTEXT, slot_save_path=saves)
    else:
        server = StandIn(0, 1.0, saves, context=CONTEXT, token_ms=1.0)
    with server:
        yield server.url


@pytest.fixture
def server(url: str) -> Iterator[LlamaServer]:
    """Return a client of that server, whose slot is empty."""
    assert ask(url, "/slots/0?action=erase", method="POST")[0] == 200
    with LlamaServer(url) as client:
        yield client


# ---- Questions -------------------------------------------------------------------------------------------------------


def test_it_says_what_it_is(url: str, server: LlamaServer) -> None:
    """Health, props, models, and that it is llama-server."""
    assert server.health() is Health.OK
    assert ask(url, "/v1/health") == (200, {"status": "ok"})
    props = server.props()
    assert props == Props(
        total_slots=1,
        n_ctx=CONTEXT,
        model_path=props.model_path,
        model_alias=props.model_alias,
        build_info=props.build_info,
        endpoint_slots=True,
        endpoint_metrics=True,
    )
    assert props.model_path
    assert props.build_info
    assert [model.status for model in server.models()] == [None]
    assert server.identify().kind is Kind.LLAMA_SERVER


def test_slots_tell_what_they_hold(server: LlamaServer) -> None:
    """After a turn the slot holds the prompt and all but the last token of the reply."""
    server.complete(HELLO, 4, timeout=30)
    (slot,) = server.slots()
    held = 1 + len(HELLO) + 3
    assert slot == Slot(
        id=0,
        is_processing=False,
        n_ctx=CONTEXT,
        id_task=slot.id_task,
        n_prompt_tokens=held,
        n_prompt_tokens_processed=0,
        n_prompt_tokens_cache=0,
        n_decoded=0,
    )
    assert slot.id_task is not None


def test_a_busy_slot_shows_it(url: str, server: LlamaServer) -> None:
    """In /slots and in /metrics."""
    with busy(url):
        (slot,) = server.slots()
        assert slot.is_processing
        assert server.metrics().processing == 1
    at_work(url, processing=0, gap=QUIET)


def test_counters_count(server: LlamaServer) -> None:
    """Tokens that were re-used are counted apart; the mark of the start stays."""
    before = server.metrics()
    server.complete(HELLO, 4, timeout=30)
    server.complete(HELLO, 4, timeout=30)
    after = server.metrics()
    whole = 1 + len(HELLO)
    assert (before.processing, before.deferred) == (0, 0)
    assert [
        getattr(after, name) - getattr(before, name)
        for name in ("prompt_tokens", "prompt_tokens_cached", "predicted_tokens")
    ] == [whole + 1, whole - 1, 8]
    assert after.start_mark == before.start_mark is not None


@pytest.mark.parametrize("usage", [False, True])
def test_a_streamed_chat_ends_with_its_timings(url: str, server: LlamaServer, usage: bool) -> None:
    """The last chunk before [DONE] has them, and with them the usage if it was asked for."""
    server.health()
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True}
    first, *middle, last = _stream(url, "/v1/chat/completions", body | {"stream_options": {"include_usage": usage}})
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    texts = [chunk["choices"][0]["delta"]["content"] for chunk in middle if "content" in chunk["choices"][0]["delta"]]
    assert len(texts) == 3
    assert last["timings"]["predicted_n"] == 3
    assert ("usage" in last) == usage


def test_a_streamed_completion_ends_with_its_timings(url: str, server: LlamaServer) -> None:
    """The last chunk says stop."""
    server.health()
    *parts, last = _stream(url, "/completion", {"prompt": HELLO, "n_predict": 3, "stream": True})
    assert [(len(part["content"]), part["stop"]) for part in parts] == [(1, False)] * 3
    assert last["stop"]
    assert last["content"] == ""
    assert last["timings"]["prompt_n"] + last["timings"]["cache_n"] == 1 + len(HELLO)


def test_a_chat_tells_what_it_re_used(url: str, server: LlamaServer) -> None:
    """The same chat twice computes one token the second time."""
    server.health()
    body = {"messages": [{"role": "user", "content": HELLO}], "max_tokens": 2}
    _, first = ask(url, "/v1/chat/completions", body)
    _, second = ask(url, "/v1/chat/completions", body)
    total = first["usage"]["prompt_tokens"]
    assert second["timings"]["prompt_n"] == 1
    assert second["timings"]["cache_n"] == total - 1
    assert second["usage"]["prompt_tokens_details"] == {"cached_tokens": total - 1}
    assert len(second["choices"][0]["message"]["content"]) == 2


def _stream(url: str, path: str, body: dict[str, Any]) -> list[Any]:
    """Return the chunks of a streamed answer, without the final [DONE]."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url + path, json.dumps(body).encode()), timeout=30) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        lines = [line.decode().removeprefix("data: ").strip() for line in response]
    return [json.loads(line) for line in lines if line not in ("", "[DONE]")]


# ---- Save, restore, erase --------------------------------------------------------------------------------------------


def test_a_context_outlives_its_slot(url: str, server: LlamaServer, saves: Path) -> None:
    """Saved, erased and restored, it is re-used: `cache_n` proves it. An erased one is not."""
    server.complete(HELLO, 4, timeout=30)
    held = 1 + len(HELLO) + 3
    saved = server.save(0, "a.bin", timeout=5)
    assert saved.n_saved == held
    assert saved.n_written == (saves / "a.bin").stat().st_size
    assert ask(url, "/slots/0?action=erase", method="POST") == (200, {"id_slot": 0, "n_erased": held})
    restored = server.restore(0, "a.bin", timeout=5)
    assert (restored.n_restored, restored.n_read) == (held, saved.n_written)
    assert server.complete(HELLO, 1, timeout=30).cache_n == len(HELLO)
    ask(url, "/slots/0?action=erase", method="POST")
    assert server.complete(HELLO, 1, timeout=30).cache_n == 0


def test_an_empty_slot_saves_nothing(server: LlamaServer) -> None:
    """36 bytes, which restore as nothing."""
    saved = server.save(0, "empty.bin", timeout=5)
    assert (saved.n_saved, saved.n_written) == (0, 36)
    assert server.restore(0, "empty.bin", timeout=5).n_restored == 0


@pytest.mark.parametrize("content", [None, b"", b"garbage " * 100])
def test_a_failed_restore_wipes_the_slot(server: LlamaServer, saves: Path, content: bytes | None) -> None:
    """Missing, empty or broken: one text for all, and a warm slot is cold afterwards."""
    server.complete(HELLO, 4, timeout=30)
    (saves / "bad.bin").unlink(missing_ok=True)
    if content is not None:
        (saves / "bad.bin").write_bytes(content)
    with pytest.raises(ServerRefused, match=UNUSABLE) as no:
        server.restore(0, "bad.bin", timeout=5)
    assert no.value.status == 400
    assert server.complete(HELLO, 1, timeout=30).cache_n == 0


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b.bin", "x..y", "a.bin.", " a", ""])
def test_some_names_are_refused(server: LlamaServer, name: str) -> None:
    """And the slot is left alone."""
    server.complete(HELLO, 1, timeout=30)
    with pytest.raises(ServerRefused, match="Invalid filename") as no:
        server.save(0, name, timeout=5)
    assert no.value.status == 400
    assert server.complete(HELLO, 1, timeout=30).cache_n == len(HELLO)


def test_inner_spaces_and_a_leading_dot_are_allowed(server: LlamaServer) -> None:
    """In names of files."""
    for name in (".hidden", "with a space.bin"):
        assert server.save(0, name, timeout=5).n_saved == 0


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/slots/0?action=restore", {}, 400, "key 'filename' not found"),
        ("/slots/0?action=save", b"", 400, "parse_error.101"),
        ("/slots/0?action=save", b"nonsense", 400, "parse_error.101"),
        ("/slots/0", {}, 400, "Invalid action"),
        ("/slots/0?action=foo", {}, 400, "Invalid action"),
        ("/slots/abc?action=save", {"filename": "a.bin"}, 400, "Invalid slot ID"),
        ("/slots/99999999999?action=save", {"filename": "a.bin"}, 400, "Invalid slot ID"),
        ("/slots/0/restore", {"filename": "a.bin"}, 404, "File Not Found"),
        ("/nowhere", None, 404, "File Not Found"),
        ("/running", None, 404, "File Not Found"),
        ("/completion", {}, 400, "key 'prompt' not found"),
        ("/completion", {"prompt": [1] * (CONTEXT + 1)}, 400, "exceeds the available context size"),
    ],
)
def test_refusals_in_their_own_words(url: str, path: str, body: Any, status: int, message: str) -> None:
    """One shape for all."""
    code, text = refusal(url, path, body)
    assert (code, message in text) == (status, True), text


@pytest.mark.parametrize("number", ["7", "-1", "1x"])
def test_slot_numbers_wrap(url: str, server: LlamaServer, number: str) -> None:
    """A number that no slot has is some slot's: the number must be checked before."""
    server.complete(HELLO, 1, timeout=30)
    status, answer = ask(url, f"/slots/{number}?action=erase", method="POST")
    assert (status, answer["n_erased"]) == (200, 1 + len(HELLO))


# ---- Waiting for a busy slot -----------------------------------------------------------------------------------------


def test_an_action_on_a_busy_slot_waits_and_then_acts(url: str, server: LlamaServer) -> None:
    """So a restore replaces the turn that was just made."""
    server.save(0, "empty.bin", timeout=5)
    with busy(url):
        restore = Call(url, "restore", 0, "empty.bin")
        at_work(url, processing=1, deferred=1)
        assert not restore.is_over
    assert restore.result().n_restored == 0
    assert server.complete("talk " * 20, 1, timeout=30).cache_n == 0
    restore.drop()


def test_hanging_up_cancels_an_action_that_waits(url: str, server: LlamaServer) -> None:
    """The turn that was at work is still there afterwards."""
    server.save(0, "empty.bin", timeout=5)
    with busy(url):
        restore = Call(url, "restore", 0, "empty.bin")
        at_work(url, processing=1, deferred=1)
        restore.drop()
        assert isinstance(restore.error, ServerUnreachable)
        at_work(url, processing=1, gap=QUIET)
    at_work(url, processing=0, gap=QUIET)
    assert server.complete("talk " * 20, 1, timeout=30).cache_n > 0


def test_a_prompt_behind_a_cancelled_action_starts(url: str, server: LlamaServer) -> None:
    """Hanging up is the safe way out."""
    server.save(0, "empty.bin", timeout=5)
    with busy(url):
        restore = Call(url, "restore", 0, "empty.bin")
        at_work(url, processing=1, deferred=1)
        prompt = Call(url, "complete", HELLO, 2)
        at_work(url, processing=1, deferred=2)
        restore.drop()
        at_work(url, processing=1, deferred=1, gap=QUIET)
    assert prompt.result().predicted_n == 2
    prompt.drop()


def _strand(url: str, name: str) -> Call:
    """Return a prompt that waits behind a restore of this file, though the slot is idle."""
    with busy(url):
        restore = Call(url, "restore", 0, name)
        at_work(url, processing=1, deferred=1)
        prompt = Call(url, "complete", HELLO, 2)
        at_work(url, processing=1, deferred=2)
    restore.result()
    restore.drop()
    at_work(url, processing=0, deferred=1)
    return prompt


def test_a_prompt_behind_an_action_is_stranded_until_we_free_it(url: str, server: LlamaServer) -> None:
    """Our way of freeing it leaves the restored context alone."""
    server.complete(HELLO, 1, timeout=30)
    server.save(0, "hello.bin", timeout=5)
    prompt = _strand(url, "hello.bin")
    assert not prompt.is_over
    assert not server.slots()[0].is_processing
    server.unstrand(CONTEXT, 0)
    assert prompt.result().cache_n == len(HELLO)
    prompt.drop()


def test_any_other_prompt_frees_it_too_but_takes_the_slot(url: str, server: LlamaServer) -> None:
    """The restored context is gone then."""
    server.complete(HELLO, 1, timeout=30)
    server.save(0, "hello.bin", timeout=5)
    prompt = _strand(url, "hello.bin")
    server.complete("x", 1, timeout=10)
    assert prompt.result().cache_n <= 1
    prompt.drop()
