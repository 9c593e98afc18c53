"""A plain HTTP client as a user's program would be: sends a prompt, measures the time to its first token."""

import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit

from engine.clock import STEP, Clock


@dataclass(frozen=True, slots=True)
class Reply:
    """One streamed reply. `first_token`: seconds from the send to the first content; counts in tokens, None unsaid."""

    first_token: float
    text: str
    cache_n: int | None
    prompt_n: int | None


def complete(url: str, prompt: str, clock: Clock, *, n_predict: int = 8, timeout: float = 300.0) -> Reply:
    """Send a prompt to /completion, streamed. Raises OSError and http.client.HTTPException."""
    where = urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname or "127.0.0.1", where.port, timeout=timeout)
    body = {"prompt": prompt, "n_predict": n_predict, "stream": True, "cache_prompt": True, "temperature": 0}
    try:
        sent = clock.now()
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise http.client.HTTPException(f"HTTP {response.status}: {response.read(300)!r}")
        return _read(response, sent, clock)
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, sent: float, clock: Clock) -> Reply:
    first, text = float("nan"), ""
    cache_n = prompt_n = None
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        part = json.loads(line.removeprefix(b"data: "))
        if part.get("content") and not text:
            first = max(clock.now() - sent, STEP)  # none comes in no time: others divide by it
        text += part.get("content") or ""
        timings = part.get("timings") or {}
        cache_n, prompt_n = timings.get("cache_n", cache_n), timings.get("prompt_n", prompt_n)
    return Reply(first, text, cache_n, prompt_n)
