"""The language-model server's HTTP interface, and the only door to `requests`; it decides nothing.

Source of the shapes: llama.cpp, tools/server/README.md, and tests/engine/client/test_facts.py, which asks the real one.
"""

import http.client
import types
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from engine.client import answers
from engine.client.answers import Completion, Health, Identity, Kind, Metrics, Model, Props, Restored, Saved, Slot
from engine.client.wire import Line, NoConnection, tied
from engine.clock import SystemClock
from engine.errors import ServerError, ServerHungUp, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable

__all__ = [
    "Completion",
    "Health",
    "Identity",
    "Kind",
    "LlamaServer",
    "Metrics",
    "Model",
    "Props",
    "Restored",
    "Saved",
    "Slot",
]
_LIMIT = 4 * 1024 * 1024  # bytes of one answer; the largest honest one (/props with a chat template) has some 100 kB
_REQUESTS = 50  # made once and kept; a router's models may be many
_PROBE = 2.0  # seconds for one question of identify()


class LlamaServer:
    """One llama-server, over one persistent connection.

    Belongs to one thread; only `abort()` may be called from another one.
    Every call takes `timeout`: seconds for the whole call, however slowly the answer drips in. All calls raise
    ServerUnreachable, ServerTimeout, ServerLoading or ServerRefused; nothing is retried, no redirect is followed and
    no proxy used. `model` names the model where the server is a router.
    """

    def __init__(self, url: str, api_key: str = "") -> None:
        self.url = url.rstrip("/")
        self._key = api_key
        self._line = Line(SystemClock())
        self._wire = _Wire(self.url, self._line)
        self._made: dict[tuple[str, str, tuple[tuple[str, str], ...]], requests.PreparedRequest] = {}
        self._session = requests.Session()
        self._session.trust_env = False  # the environment's proxies and .netrc
        self._session.headers = CaseInsensitiveDict({"User-Agent": "zat-scs"})
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def abort(self) -> None:
        """Break off the call in flight, from another thread; it raises ServerUnreachable there.

        The server forgets a slot action that still waits for its slot, but looks for this only after a second in which
        it answered nobody (/metrics and /slots count, /health and /props do not). Without a call in flight: nothing.
        """
        self._line.cut()

    def health(self, timeout: float = 5.0) -> Health:
        """Ask whether the server takes requests. Needs no key, wakes nothing, and does not show sleep."""
        try:
            return answers.read_health(self._ask("GET", "/health", timeout).content)
        except ServerLoading:
            return Health.LOADING

    def props(self, model: str | None = None, timeout: float = 5.0) -> Props:
        """Ask what the server is. Wakes nothing."""
        return answers.read_props(self._ask("GET", "/props", timeout, query=_named(model)).content)

    def slots(self, model: str | None = None, timeout: float = 5.0) -> tuple[Slot, ...]:
        """Ask what the slots do. Wakes a sleeping server, and keeps it awake."""
        return answers.read_slots(self._ask("GET", "/slots", timeout, query=_named(model)).content)

    def metrics(self, model: str | None = None, timeout: float = 5.0) -> Metrics:
        """Ask for the counters. Wakes nothing; ServerRefused 501 where the server was started without them."""
        reply = self._ask("GET", "/metrics", timeout, query=_named(model))
        return answers.read_metrics(reply.content, reply.headers.get("Process-Start-Time-Unix"))

    def models(self, timeout: float = 5.0) -> tuple[Model, ...]:
        """Ask which models there are. Wakes nothing."""
        return answers.read_models(self._ask("GET", "/models", timeout).content)

    def save(self, slot: int, filename: str, model: str | None = None, *, timeout: float) -> Saved:
        """Write the context of a slot to a file in the server's own folder. Waits while the slot is busy."""
        return answers.read_saved(self._act(slot, "save", {"filename": filename, **_named(model)}, timeout))

    def restore(self, slot: int, filename: str, model: str | None = None, *, timeout: float) -> Restored:
        """Replace the context of a slot by a file's. Waits while the slot is busy, wakes a sleeping server.

        A refusal leaves the slot empty, and a file that is cut short ends the server: check before.
        """
        return answers.read_restored(self._act(slot, "restore", {"filename": filename, **_named(model)}, timeout))

    def complete(
        self,
        prompt: str | list[int],
        n_predict: int,
        slot: int | None = None,
        model: str | None = None,
        *,
        timeout: float,
    ) -> Completion:
        """Let the model continue a prompt (text or token numbers) by `n_predict` tokens, and drop the text."""
        body = {"prompt": prompt, "n_predict": n_predict, "cache_prompt": True, **_named(model)}
        if slot is not None:
            body["id_slot"] = slot
        return answers.read_completion(self._ask("POST", "/completion", timeout, body=body).content)

    def unstrand(self, n_ctx: int, slot: int, model: str | None = None, timeout: float = 2.0) -> None:
        """Start a prompt that waits behind a slot action though its slot, which can hold `n_ctx` tokens, is idle.

        Any prompt that ends does so; this one is too long for the slot, so it ends at once and, unlike a short one,
        leaves the slot's context as it is.
        """
        try:
            self.complete([1] * (n_ctx + 1), 1, slot, model, timeout=timeout)
        except ServerRefused as refusal:
            if refusal.status != 400:
                raise

    def identify(self) -> Identity:
        """Find out who answers at this address: what is not llama-server is named. Wakes nothing."""
        try:
            props = self.props(timeout=_PROBE)
        except ServerLoading:
            return answers.identity(Kind.LLAMA_SERVER)
        except ServerRefused as refusal:
            if refusal.status == 401 and refusal.message == "Invalid API Key":
                return answers.identity(Kind.LLAMA_SERVER)
        else:
            if props.is_router:
                return answers.identity(Kind.ROUTER)
            if props.total_slots is not None:
                return answers.identity(Kind.LLAMA_SERVER)
        for kind, path, sign in (
            (Kind.LLAMA_SWAP, "/running", b'"running"'),
            (Kind.OLLAMA, "/", b"Ollama is running"),
            (Kind.LM_STUDIO, "/api/v0/models", b'"data"'),
        ):
            try:
                if sign in self._ask("GET", path, _PROBE).content:
                    return answers.identity(kind)
            except ServerRefused:
                continue
        return answers.identity(Kind.OTHER)

    def _act(self, slot: int, action: str, body: Mapping[str, object], timeout: float) -> bytes:
        return self._ask("POST", f"/slots/{slot}", timeout, query={"action": action}, body=body).content

    def _ask(
        self,
        method: str,
        path: str,
        timeout: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> requests.Response:
        """Make one call and return its answer if it is a yes."""
        self._line.begin(timeout)
        try:
            reply = self._exchange(method, path, query, body)
        except (http.client.HTTPException, OSError, UnicodeError) as error:  # those of requests are OSErrors
            raise self._translate(error, timeout) from None
        finally:
            self._line.end()
        if reply.status_code == 200:
            return reply
        if 300 <= reply.status_code < 400:
            text = f"points to {reply.headers.get('Location', 'nowhere')}, which is not followed"
        else:
            text = answers.error_text(reply.content)
        if self._key:
            text = text.replace(self._key, "(key)")  # a server may echo what it was sent
        if reply.status_code == 503 and "loading model" in text.lower():
            raise ServerLoading(reply.status_code, text)
        raise ServerRefused(reply.status_code, text)

    def _exchange(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Mapping[str, object] | None
    ) -> requests.Response:
        """Return the answer; a request without a body is made once."""
        key = (method, path, tuple((query or {}).items()))
        made = self._made.get(key)
        if made is None or body is not None:
            made = self._session.prepare_request(requests.Request(method, self.url + path, params=query, json=body))
            if body is None and len(self._made) < _REQUESTS:
                self._made[key] = made
        # Past the session's own send: it would read the environment and look for redirects, twenty times a second.
        return self._wire.send(made)

    def _translate(self, error: Exception, timeout: float) -> ServerError:
        """Return our error for one of the library's; its text names the root cause and never a header."""
        if self._line.was_cut:
            return ServerUnreachable("broken off by us")
        if isinstance(error, NoConnection):
            return ServerUnreachable(f"no connection to {self.url} within {timeout:g} s")
        if self._line.is_late or isinstance(error, TimeoutError):
            return ServerTimeout(f"no whole answer from {self.url} within {timeout:g} s")
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        hung_up = isinstance(error, ConnectionResetError | BrokenPipeError | http.client.IncompleteRead)
        return (ServerHungUp if hung_up else ServerUnreachable)(f"{self.url}: {reason[:200]}")


def _named(model: str | None) -> dict[str, Any]:
    return {"model": model} if model is not None else {}


class _Wire(BaseAdapter):
    """What `requests` sends through: one connection, tied to our line, and no retries."""

    def __init__(self, url: str, line: Line) -> None:
        super().__init__()
        self._connection = tied(urlsplit(url), line, DEFAULT_CA_BUNDLE_PATH)

    def send(self, request: requests.PreparedRequest, *_options: Any, **_more: Any) -> requests.Response:
        """Send it and take the whole answer; how long that may take, the line knows."""
        connection = self._connection
        connection.get_ready()
        try:
            connection.request(request.method or "", request.path_url, request.body, request.headers)
            with connection.getresponse() as answer:
                response = requests.Response()
                response.status_code = answer.status
                response.headers = CaseInsensitiveDict(answer.headers.items())
                response._content = _whole(answer)  # noqa: SLF001 - the library's own adapters have no other way either
                return response
        except BaseException:
            connection.close()  # what is left of this answer is no part of the next one
            raise

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _whole(response: http.client.HTTPResponse) -> bytes:
    """Read the body; the library itself takes one that is cut short for whole."""
    body = response.read(_LIMIT + 1)
    if len(body) > _LIMIT:
        raise ServerRefused(response.status, f"answer too large: over {_LIMIT} bytes")
    if response.length:
        raise http.client.IncompleteRead(body, response.length)
    return body
