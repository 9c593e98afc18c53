"""The language-model server's HTTP interface, and the only door to `requests`; it decides nothing.

Source of the shapes: llama.cpp, tools/server/README.md, and tests/engine/client/test_facts.py, which asks the real one.
"""

import http.client
import logging
import types
from collections.abc import Mapping
from typing import Any, Self

import requests
import urllib3
from requests.adapters import HTTPAdapter

from engine.client import answers
from engine.client.answers import Completion, Health, Identity, Kind, Metrics, Model, Props, Restored, Saved, Slot
from engine.client.wire import Line, timed
from engine.clock import SystemClock
from engine.errors import ServerError, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable

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
_CHUNK = 64 * 1024
logging.getLogger("urllib3").setLevel(logging.ERROR)  # a broken header would fill the log, twenty times a second
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
        self._session = requests.Session()
        self._made: dict[tuple[str, str, tuple[tuple[str, str], ...]], requests.PreparedRequest] = {}
        self._session.trust_env = False  # the environment's proxies and .netrc
        self._session.headers.update({"User-Agent": "zat-scs", "Accept-Encoding": "identity"})
        if api_key:
            self._session.headers["Authorization"] = f"Bearer {api_key}"
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(self._line))

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
            return answers.read_health(self._ask("GET", "/health", timeout).body)
        except ServerLoading:
            return Health.LOADING

    def props(self, model: str | None = None, timeout: float = 5.0) -> Props:
        """Ask what the server is. Wakes nothing."""
        return answers.read_props(self._ask("GET", "/props", timeout, query=_named(model)).body)

    def slots(self, model: str | None = None, timeout: float = 5.0) -> tuple[Slot, ...]:
        """Ask what the slots do. Wakes a sleeping server, and keeps it awake."""
        return answers.read_slots(self._ask("GET", "/slots", timeout, query=_named(model)).body)

    def metrics(self, model: str | None = None, timeout: float = 5.0) -> Metrics:
        """Ask for the counters. Wakes nothing; ServerRefused 501 where the server was started without them."""
        reply = self._ask("GET", "/metrics", timeout, query=_named(model))
        return answers.read_metrics(reply.body, reply.headers.get("Process-Start-Time-Unix"))

    def models(self, timeout: float = 5.0) -> tuple[Model, ...]:
        """Ask which models there are. Wakes nothing."""
        return answers.read_models(self._ask("GET", "/models", timeout).body)

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
        return answers.read_completion(self._ask("POST", "/completion", timeout, body=body).body)

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
                if sign in self._ask("GET", path, _PROBE).body:
                    return answers.identity(kind)
            except ServerRefused:
                continue
        return answers.identity(Kind.OTHER)

    def _act(self, slot: int, action: str, body: Mapping[str, object], timeout: float) -> bytes:
        return self._ask("POST", f"/slots/{slot}", timeout, query={"action": action}, body=body).body

    def _ask(
        self,
        method: str,
        path: str,
        timeout: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
    ) -> "_Reply":
        """Make one call and return its answer if it is a yes."""
        self._line.begin(timeout)
        try:
            reply = self._exchange(method, path, timeout, query, body)
        except (requests.RequestException, urllib3.exceptions.HTTPError, http.client.HTTPException, OSError) as error:
            raise self._translate(error, timeout) from None
        finally:
            self._line.end()
        if reply.status == 200:
            return reply
        if 300 <= reply.status < 400:
            text = f"points to {reply.headers.get('Location', 'nowhere')}, which is not followed"
        else:
            text = answers.error_text(reply.body)
        if self._key:
            text = text.replace(self._key, "(key)")  # a server may echo what it was sent
        if reply.status == 503 and "loading model" in text.lower():
            raise ServerLoading(reply.status, text)
        raise ServerRefused(reply.status, text)

    def _exchange(
        self,
        method: str,
        path: str,
        timeout: float,
        query: Mapping[str, str] | None,
        body: Mapping[str, object] | None,
    ) -> "_Reply":
        request = self._prepared(method, path, query, body)
        adapter = self._session.get_adapter(self.url)
        # Past the session's own send: it would read the environment and look for redirects, twenty times a second.
        with adapter.send(request, stream=True, timeout=timeout) as response:
            data = bytearray()
            for chunk in response.raw.stream(_CHUNK, decode_content=False):
                data += chunk
                if len(data) > _LIMIT:
                    raise ServerRefused(response.status_code, f"answer too large: over {_LIMIT} bytes")
            return _Reply(response.status_code, response.headers, bytes(data))

    def _prepared(
        self, method: str, path: str, query: Mapping[str, str] | None, body: Mapping[str, object] | None
    ) -> requests.PreparedRequest:
        """Return the request; one without a body is made once."""
        key = (method, path, tuple((query or {}).items()))
        made = self._made.get(key)
        if made is None or body is not None:
            request = requests.Request(method, self.url + path, params=query, json=body)
            made = self._session.prepare_request(request)
            if body is None and len(self._made) < _REQUESTS:
                self._made[key] = made
        return made

    def _translate(self, error: Exception, timeout: float) -> ServerError:
        """Return our error for one of the libraries'; its text names the root cause and never a header."""
        if self._line.was_cut:
            return ServerUnreachable("broken off by us")
        if isinstance(error, requests.ConnectTimeout):
            return ServerUnreachable(f"no connection to {self.url} within {timeout:g} s")
        if self._line.is_late or isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
            return ServerTimeout(f"no whole answer from {self.url} within {timeout:g} s")
        root: BaseException = error
        while inner := root.__cause__ or root.__context__:
            root = inner
        reason = (root.strerror if isinstance(root, OSError) else None) or str(root) or type(root).__name__
        return ServerUnreachable(f"{self.url}: {reason[:200]}")


def _named(model: str | None) -> dict[str, Any]:
    return {"model": model} if model is not None else {}


class _Reply:
    """Status, headers and body of one answer."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


class _Adapter(HTTPAdapter):
    """One connection, tied to our line, and no retries."""

    def __init__(self, line: Line) -> None:
        self._line = line
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **options)
        if "ConnectionCls" not in vars(pool):
            pool.ConnectionCls = timed(pool.ConnectionCls, self._line)
        return pool
