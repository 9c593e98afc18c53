"""The client against a server that answers by script: shapes, deadlines, and every way to break off."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.fake_server import LOADING, FakeServer, Reply, says_no
from helpers.wait import wait_until

from engine.client.api import Health, Kind, LlamaServer, Metrics, Model, Props, Restored, Saved, Slot
from engine.errors import ServerError, ServerHungUp, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable

OK = Reply(body={"status": "ok"})


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """Return a server without a script."""
    with FakeServer() as server:
        yield server


@pytest.fixture
def client(fake: FakeServer) -> Iterator[LlamaServer]:
    """Return a client of it."""
    with LlamaServer(fake.url) as server:
        yield server


# ---- Shapes ----------------------------------------------------------------------------------------------------------


def test_health_tells_ready_from_loading(fake: FakeServer, client: LlamaServer) -> None:
    """A server that loads its model answers, but is not ready."""
    fake.on("/health", LOADING, OK)
    assert client.health() is Health.LOADING
    assert client.health() is Health.OK


@pytest.mark.parametrize("body", [{"status": "no slot available"}, {"error": "Unexpected endpoint"}, "OK"])
def test_not_every_yes_is_health(fake: FakeServer, client: LlamaServer, body: Any) -> None:
    """Other programs answer 200 to any path."""
    fake.on("/health", Reply(body=body))
    with pytest.raises(ServerRefused):
        client.health()


def test_props_are_read(fake: FakeServer, client: LlamaServer) -> None:
    """What is known is taken, what is unknown ignored."""
    fake.on(
        "/props",
        Reply(
            body={
                "default_generation_settings": {"n_ctx": 4096, "params": {"seed": 1}},
                "total_slots": 4,
                "model_path": "/m.gguf",
                "model_alias": "m",
                "build_info": "b1",
                "is_sleeping": True,
                "endpoint_slots": True,
                "endpoint_metrics": False,
                "ui": {},
            }
        ),
    )
    assert client.props() == Props(
        total_slots=4,
        n_ctx=4096,
        model_path="/m.gguf",
        model_alias="m",
        build_info="b1",
        is_sleeping=True,
        endpoint_slots=True,
        endpoint_metrics=False,
    )


def test_a_router_says_so(fake: FakeServer, client: LlamaServer) -> None:
    """Without a model in the question, a router's props are its own."""
    fake.on("/props", Reply(body={"role": "router", "max_instances": 4}))
    assert client.props().is_router


def test_slots_are_read_fresh_and_used(fake: FakeServer, client: LlamaServer) -> None:
    """A fresh slot says little; older servers give `next_token` as one object."""
    fresh = {"id": 0, "n_ctx": 512, "is_processing": False}
    used = {"id": 1, "is_processing": True, "id_task": 7, "n_prompt_tokens": 9, "next_token": [{"n_decoded": 3}]}
    old = {"id": 2, "is_processing": True, "next_token": {"n_decoded": 5}}
    fake.on("/slots", Reply(body=[fresh, used, old, old | {"next_token": []}]))
    assert client.slots() == (
        Slot(id=0, is_processing=False, n_ctx=512),
        Slot(id=1, is_processing=True, id_task=7, n_prompt_tokens=9, n_decoded=3),
        Slot(id=2, is_processing=True, n_decoded=5),
        Slot(id=2, is_processing=True),
    )


def test_metrics_are_read_and_may_be_absent(fake: FakeServer, client: LlamaServer) -> None:
    """A counter that is missing or unreadable is None, labels and exponents are understood."""
    text = (
        "# HELP llamacpp:requests_processing text\nllamacpp:requests_processing 1\nllamacpp:requests_deferred NaN\n"
        'llamacpp:prompt_tokens_total{model="m"} 1.5e+06\nllamacpp:tokens_predicted_total\nother:thing 4\n'
        "llamacpp:prompt_seconds_total 1.25\n"
    )
    fake.on("/metrics", Reply(body=text, headers={"Process-Start-Time-Unix": "42"}))
    assert client.metrics() == Metrics(processing=1, prompt_tokens=1_500_000, prompt_seconds=1.25, start_mark="42")


def test_models_of_a_server_and_of_a_router(fake: FakeServer, client: LlamaServer) -> None:
    """Only a router tells what each model does."""
    fake.on("/models", Reply(body={"data": [{"id": "a", "status": {"value": "sleeping"}}, {"id": "b"}]}))
    assert client.models() == (Model(id="a", status="sleeping"), Model(id="b"))


def test_save_and_restore_send_action_name_and_model(fake: FakeServer, client: LlamaServer) -> None:
    """A router finds the model in the body, not in the query."""
    saved = {"id_slot": 3, "filename": "a.bin", "n_saved": 10, "n_written": 500, "timings": {"save_ms": 1.5}}
    restored = {"n_restored": 10, "n_read": 500, "timings": {"restore_ms": 2.5}}
    fake.on("/slots/3", Reply(body=saved), Reply(body=restored))
    assert client.save(3, "a.bin", timeout=5) == Saved(n_saved=10, n_written=500, save_ms=1.5)
    assert client.restore(3, "a.bin", "m", timeout=5) == Restored(n_restored=10, n_read=500, restore_ms=2.5)
    first, second = fake.requests
    assert (first.method, first.query, first.json) == ("POST", {"action": ["save"]}, {"filename": "a.bin"})
    assert (second.query, second.json) == ({"action": ["restore"]}, {"filename": "a.bin", "model": "m"})


def test_questions_name_the_model_in_the_query(fake: FakeServer, client: LlamaServer) -> None:
    """So a router passes them on."""
    fake.on("/props", Reply(body={})).on("/slots", Reply(body=[])).on("/metrics", Reply(body="llamacpp:x 1\n"))
    client.props("a b")
    client.slots("a b")
    client.metrics("a b")
    assert [request.query for request in fake.requests] == [{"model": ["a b"]}] * 3


def test_a_completion_is_counted(fake: FakeServer, client: LlamaServer) -> None:
    """Its text is dropped; what was re-used is the proof of a hit."""
    times = {"cache_n": 1260, "prompt_n": 1, "predicted_n": 1}
    fake.on("/completion", Reply(body={"content": "x", "timings": times}))
    answer = client.complete("hello", 1, 2, timeout=5)
    assert (answer.cache_n, answer.prompt_n, answer.predicted_n) == (1260, 1, 1)
    assert fake.requests[0].json == {"prompt": "hello", "n_predict": 1, "cache_prompt": True, "id_slot": 2}


def test_unstranding_takes_the_refusal_it_asks_for(fake: FakeServer, client: LlamaServer) -> None:
    """The prompt is one token longer than the slot; another refusal is an error."""
    fake.on("/completion", says_no(400, "request exceeds the context size"), says_no(401, "Invalid API Key"))
    client.unstrand(16, 0)
    assert len(fake.requests[0].json["prompt"]) == 17
    with pytest.raises(ServerRefused, match="401"):
        client.unstrand(16, 0)


# ---- Refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (says_no(501, "This server does not support slots action"), "does not support slots action"),
        (Reply(404, {"error": "unknown path"}), "unknown path"),
        (Reply(404, "page not found"), "page not found"),
        (Reply(500, b"\xff\xfe"), "HTTP 500"),
        (Reply(502), r"\(empty\)"),
        (Reply(200, "<html>hello</html>"), "not JSON: <html>hello</html>"),
        (Reply(200, {"total_slots": "four"}), "unexpected answer: Expected `int"),
        (Reply(200, b"x" * 5_000_000), "too large"),
        (Reply(301, "moved", {"Location": "http://elsewhere.example/"}), "points to http://elsewhere.example/"),
        (Reply(307, b"y" * 5_000_000, {"Location": "/other"}), "too large"),
    ],
)
def test_refusals_say_why(fake: FakeServer, client: LlamaServer, reply: Reply, message: str) -> None:
    """Whatever the answer is made of, it becomes our error, and the next call works."""
    fake.on("/props", reply).on("/health", OK).on("/other", OK)
    with pytest.raises(ServerRefused, match=message) as refusal:
        client.props()
    assert refusal.value.status == reply.status
    assert client.health() is Health.OK
    assert [request.path for request in fake.requests] == ["/props", "/health"]


def test_text_that_is_no_metrics_is_refused(fake: FakeServer, client: LlamaServer) -> None:
    """A web page is not a row of zeros."""
    fake.on("/metrics", Reply(body="<html>"))
    with pytest.raises(ServerRefused, match="not metrics: <html>"):
        client.metrics()


def test_loading_is_an_error_of_its_own(fake: FakeServer, client: LlamaServer) -> None:
    """Another 503 is a plain refusal."""
    fake.on("/props", LOADING, says_no(503, "no slot available", "unavailable_error"))
    with pytest.raises(ServerLoading, match="503"):
        client.props()
    with pytest.raises(ServerRefused) as refusal:
        client.props()
    assert not isinstance(refusal.value, ServerLoading)


def test_the_key_is_sent_and_never_shown(fake: FakeServer) -> None:
    """Not even where the server echoes it."""
    fake.on("/props", says_no(400, "bad header: Bearer s3cret"))
    with LlamaServer(fake.url, "s3cret") as client, pytest.raises(ServerRefused) as refusal:
        client.props()
    assert fake.requests[0].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(refusal.value) + refusal.value.message


def test_without_a_key_none_is_sent(fake: FakeServer, client: LlamaServer) -> None:
    """No header, not an empty one."""
    fake.on("/health", OK)
    client.health()
    assert "authorization" not in fake.requests[0].headers


# ---- Addresses -------------------------------------------------------------------------------------------------------


def test_a_path_prefix_is_kept(fake: FakeServer) -> None:
    """With and without a slash at its end."""
    fake.on("/llm/health", OK)
    for end in ("/llm", "/llm/"):
        with LlamaServer(fake.url + end) as client:
            assert client.health() is Health.OK


def test_ipv6_is_an_address_like_any_other() -> None:
    """In brackets."""
    try:
        server = FakeServer("::1")
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server.on("/health", OK) as fake, LlamaServer(fake.url) as client:
        assert client.health() is Health.OK


def test_localhost_finds_a_server_on_ipv4_only(fake: FakeServer) -> None:
    """Even where the name means ::1 first."""
    fake.on("/health", OK)
    with LlamaServer(f"http://localhost:{fake.port}") as client:
        assert client.health() is Health.OK


def test_the_environment_leads_nowhere(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy in the environment sees nothing of ours."""
    with FakeServer() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        fake.on("/health", OK)
        with LlamaServer(fake.url) as client:
            assert client.health() is Health.OK
        assert proxy.connections == 0


def test_one_connection_serves_all_calls(fake: FakeServer, client: LlamaServer) -> None:
    """A refusal does not cost it either."""
    fake.on("/health", OK)
    for _ in range(5):
        client.health()
        with pytest.raises(ServerRefused):
            client.props()
    assert fake.connections == 1


# ---- Breaking off ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(raw=b""), ServerHungUp),
        (Reply(raw=b"SSH-2.0-something\r\n"), ServerUnreachable),
        (Reply(raw=b"\x00\xff" * 200), ServerUnreachable),
        (Reply(body={"status": "ok"}, cut_after=30), ServerHungUp),
        (Reply(body={"status": "ok"}, cut_after=21), ServerHungUp),
        (Reply(body={"status": "ok"}, cut_after=40), ServerHungUp),
        (Reply(body={"status": "ok"}, cut_after=50), ServerHungUp),
        (Reply(body="zz", headers={"Content-Length": "", "Transfer-Encoding": "chunked"}), ServerError),
        (Reply(silent=True), ServerTimeout),
        (Reply(body={"status": "ok"}, delay=20), ServerTimeout),
        (Reply(body={"status": "ok"}, drip=0.05), ServerTimeout),
        (Reply(body=b" " * 400, drip=0.05, drip_body=True), ServerTimeout),
    ],
)
def test_whatever_breaks_becomes_our_error_in_time(
    fake: FakeServer, client: LlamaServer, reply: Reply, error: type[ServerError]
) -> None:
    """No trick of the server holds a call longer than its timeout, and the next call works."""
    fake.on("/props", reply).on("/health", OK)
    began = time.monotonic()
    with pytest.raises(error) as caught:
        client.props(timeout=0.5)
    assert time.monotonic() - began < 5
    assert "pool" not in str(caught.value).lower()
    assert client.health() is Health.OK


def test_nobody_there_is_unreachable(fake: FakeServer, client: LlamaServer) -> None:
    """The message names the address and the reason, not the library's innards."""
    fake.close()
    with pytest.raises(ServerUnreachable, match=r"^http://127.0.0.1:\d+: .*refused") as caught:
        client.health()
    assert caught.type is ServerUnreachable  # and nothing was sent over which a server could have ended


def test_a_server_that_comes_back_is_found_again(fake: FakeServer, client: LlamaServer) -> None:
    """A connection that the server has closed meanwhile is not used again."""
    fake.on("/health", Reply(body={"status": "ok"}, headers={"Connection": "close"}), OK)
    client.health()
    client.health()
    assert fake.connections == 2


def test_abort_ends_a_call_from_another_thread(fake: FakeServer, client: LlamaServer) -> None:
    """On a new connection and on one that was used before; without a call in flight nothing happens."""
    fake.on("/slots/0", Reply(silent=True)).on("/health", OK)
    for _ in range(2):
        client.abort()
        client.health()
        seen = len(fake.requests)
        outcome = _in_thread(client)
        wait_until(lambda seen=seen: len(fake.requests) > seen, what="the request")
        client.abort()
        outcome.thread.join(5)
        assert str(outcome.error) == "broken off by us"


class _Outcome:
    thread: threading.Thread
    error: Any = None


def _in_thread(client: LlamaServer) -> _Outcome:
    outcome = _Outcome()

    def call() -> None:
        try:
            client.restore(0, "a.bin", timeout=30)
        except ServerUnreachable as error:
            outcome.error = error

    outcome.thread = threading.Thread(target=call)
    outcome.thread.start()
    return outcome


# ---- Who is it -------------------------------------------------------------------------------------------------------

LM_STUDIO_NO = Reply(200, {"error": "Unexpected endpoint or method. (GET /props)"})


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ({"/props": Reply(body={"total_slots": 1})}, Kind.LLAMA_SERVER),
        ({"/props": LOADING}, Kind.LLAMA_SERVER),
        ({"/props": says_no(401, "Invalid API Key", "authentication_error")}, Kind.LLAMA_SERVER),
        ({"/props": Reply(body={"role": "router"})}, Kind.ROUTER),
        ({"/running": Reply(body={"running": []}), "/": Reply(302, headers={"Location": "/ui"})}, Kind.LLAMA_SWAP),
        ({"/": Reply(body="Ollama is running"), "/api/tags": Reply(body={"models": []})}, Kind.OLLAMA),
        (
            {
                "/props": LM_STUDIO_NO,
                "/running": LM_STUDIO_NO,
                "/": LM_STUDIO_NO,
                "/api/v0/models": Reply(body={"data": []}),
            },
            Kind.LM_STUDIO,
        ),
        ({"/": Reply(body="<html>It works!</html>")}, Kind.OTHER),
        ({}, Kind.OTHER),
    ],
)
def test_who_answers_is_named(fake: FakeServer, client: LlamaServer, script: dict[str, Reply], kind: Kind) -> None:
    """By what each answers, and with a sentence for people."""
    for path, reply in script.items():
        fake.on(path, reply)
    who = client.identify()
    assert who.kind is kind
    assert who.sentence.endswith(".")


def test_nobody_cannot_be_named(fake: FakeServer, client: LlamaServer) -> None:
    """That is an error of its own."""
    fake.close()
    with pytest.raises(ServerUnreachable):
        client.identify()
