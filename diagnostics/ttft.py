"""Measures the time to the first token as a user's program sees it: streamed, from its send; any llama-server."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from engine.clock import STEP, Clock

PATIENCE = 600.0  # s for one answer: a cold prompt of 8,000 tokens beside a busy job takes minutes on a small machine


@dataclass(frozen=True, slots=True)
class Target:
    """Where prompts go. `slot` None: the server chooses."""

    url: str
    api_key: str = ""
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One streamed reply. `first`: seconds from the send to the first content.

    `cache_n`: tokens re-used, `prompt_n`: tokens computed; None where the server does not say.
    """

    first: float
    cache_n: int | None
    prompt_n: int | None


class Refusal(OSError):  # noqa: N818 - an answer
    """The server said no; the message is its own."""


def ask(target: Target, prompt: str, clock: Clock, n_predict: int = 8) -> Answer:
    """Send a prompt to /completion on a connection that stands already. Raises OSError and HTTPException.

    A reply without any content is an error, too: it has no first token.
    """
    body = {
        "prompt": prompt,
        "n_predict": n_predict,
        "stream": True,
        "cache_prompt": True,
        "temperature": 0,
        "ignore_eos": True,  # a model that has nothing to say would give no first token
    }
    if target.slot is not None:
        body["id_slot"] = target.slot
    connection = _connect(target)
    try:
        data, headers = json.dumps(body), _headers(target)
        sent = clock.now()
        connection.request("POST", _path(target, "/completion"), data, headers)
        return _read(_agreed(connection.getresponse()), sent, clock)
    finally:
        connection.close()


def erase(target: Target, slot: int) -> None:
    """Empty a slot. Raises OSError and HTTPException."""
    connection = _connect(target)
    try:
        connection.request("POST", _path(target, f"/slots/{slot}?action=erase"), "{}", _headers(target))
        _agreed(connection.getresponse()).read()
    finally:
        connection.close()


def _connect(target: Target) -> http.client.HTTPConnection:
    where = urlsplit(target.url)
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(where.hostname or "", where.port, timeout=PATIENCE)
    connection.connect()
    return connection


def _path(target: Target, path: str) -> str:
    return urlsplit(target.url).path.rstrip("/") + path


def _headers(target: Target) -> Mapping[str, str]:
    key = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    return {"Content-Type": "application/json", **key}


def _agreed(response: http.client.HTTPResponse) -> http.client.HTTPResponse:
    if response.status == 200:
        return response
    text = response.read(2000).decode("utf-8", "replace")
    try:
        text = str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        text = text[:200]
    raise Refusal(f"HTTP {response.status}: {text}")


def _read(response: http.client.HTTPResponse, sent: float, clock: Clock) -> Answer:
    first = None
    cache_n = prompt_n = None
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        part = json.loads(line.removeprefix(b"data: "))
        if part.get("content") and first is None:
            first = max(clock.now() - sent, STEP)  # none comes in no time: others divide by it
        timings = part.get("timings") or {}
        cache_n, prompt_n = timings.get("cache_n", cache_n), timings.get("prompt_n", prompt_n)
    if first is None:
        raise Refusal("the server answered without a token")
    return Answer(first, cache_n, prompt_n)
