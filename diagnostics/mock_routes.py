"""What the stand-in server answers on llama-server's paths, over the slots of mock_slots.py."""

import json
import re
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flask import Flask, Response, jsonify, request

from diagnostics import mock_shapes as shapes
from diagnostics.mock_slots import ClientGone, Died, Gone, Refused, Slots, Turn, invalid
from engine.clock import Clock

_REPLY = "This is the stand-in server speaking. "
_REPLY_TOKENS = 64  # when the client sets no limit
_STEP = 0.02  # seconds after which a slow call looks whether its client is still there


class Routes:
    """All paths, as a Flask `app`. `restore`, `token`: seconds that a cold prompt waits and that each token takes."""

    def __init__(self, slots: Slots, clock: Clock, *, restore: float, token: float, die: Callable[[], None]) -> None:
        self.start_mark = ""
        self._slots, self._clock, self._die = slots, clock, die
        self._restore, self._token = restore, token
        self.app = Flask("stand-in")
        for path, view in (
            ("/health", lambda: jsonify(status="ok")),
            ("/v1/health", lambda: jsonify(status="ok")),
            ("/props", lambda: jsonify(shapes.props(slots))),
            ("/slots", self._list),
            ("/metrics", self._metrics),
            ("/models", lambda: jsonify(shapes.models())),
            ("/v1/models", lambda: jsonify(shapes.models())),
        ):
            self.app.add_url_rule(path, path, view)
        for path, act in (
            ("/slots/<number>", self._act),
            ("/completion", self._completion),
            ("/v1/chat/completions", self._chat),
        ):
            self.app.add_url_rule(path, path, act, methods=["POST"])
        self.app.register_error_handler(Refused, _refuse)
        for status in (404, 405):
            self.app.register_error_handler(
                status, lambda _: _refuse(Refused(404, "not_found_error", "File Not Found"))
            )
        self.app.register_error_handler(ClientGone, lambda _: Response(status=400))  # nobody is there to read it
        self.app.register_error_handler(Died, self._died)

    def _died(self, _: Died) -> Response:
        self._die()
        return Response(status=500)  # the connection is cut: nobody reads it

    def _list(self) -> Response:
        self._slots.wake()
        return jsonify([shapes.slot(slot, self._slots.context) for slot in self._slots.all])

    def _metrics(self) -> Response:
        headers = {"Process-Start-Time-Unix": self.start_mark}
        return Response(shapes.metrics(self._slots), mimetype="text/plain", headers=headers)

    def _act(self, number: str) -> Response:
        if self._slots.folder is None:
            text = "This server does not support slots action. Start it with `--slot-save-path`"
            raise Refused(501, "not_supported_error", text)
        self._slots.wake()
        digits = re.match(r"\s*[+-]?\d{1,9}(?!\d)", number)
        if not digits:
            raise invalid("Invalid slot ID")
        slot, gone, began = int(digits[0]), _watch_client(), self._clock.now()
        action = request.args.get("action")
        if action == "erase":
            return jsonify(id_slot=slot, n_erased=self._slots.erase(slot, gone))
        if action not in ("save", "restore"):
            raise invalid("Invalid action")
        name = _field(_body(), "filename")
        if action == "save":
            act, tokens, size = self._slots.save, "n_saved", "n_written"
        else:
            act, tokens, size = self._slots.restore, "n_restored", "n_read"
        counted, sized = act(slot, name, gone)
        times = {f"{action}_ms": (self._clock.now() - began) * 1000.0}
        return jsonify({"id_slot": slot, "filename": name, tokens: counted, size: sized, "timings": times})

    def _completion(self) -> Response:
        body = _body()
        prompt = _field(body, "prompt")
        if prompt == []:
            raise invalid('"prompt" must not be empty')
        text = "".join(map(chr, prompt)) if isinstance(prompt, list) else str(prompt)
        gone = _watch_client()
        turn = self._slots.begin(text, body.get("id_slot"), gone)
        tokens = self._speak(turn, body.get("n_predict", -1), gone)
        if not body.get("stream"):
            return self._whole(turn, tokens, shapes.completion)
        return self._stream(turn, _events(map(shapes.completion_part, tokens), lambda: [shapes.completion(turn, "")]))

    def _chat(self) -> Response:
        body = _body()
        lines = [f"<{message['role']}>{message['content']}\n" for message in _field(body, "messages")]
        gone = _watch_client()
        turn = self._slots.begin("".join(lines) + "<assistant>", body.get("id_slot"), gone)
        tokens = self._speak(turn, body.get("max_tokens", -1), gone)
        if not body.get("stream"):
            return self._whole(turn, tokens, shapes.chat)
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        return self._stream(turn, self._chat_events(turn, tokens, usage=usage))

    def _chat_events(self, turn: Turn, tokens: Iterable[str], *, usage: bool) -> Iterator[str]:
        yield _event(shapes.chat_part({"role": "assistant", "content": None}))
        parts = (shapes.chat_part({"content": token}) for token in tokens)
        yield from _events(parts, lambda: shapes.chat_end(turn, usage=usage))
        yield "data: [DONE]\n\n"

    def _speak(self, turn: Turn, limit: int, gone: Gone) -> Iterator[str]:
        """Compute the prompt, slowly if it is cold, then write the reply token by token, in the time each takes."""
        began = self._clock.now()
        self._pause(self._restore if turn.cold else 0.0, gone)
        self._slots.prefilled(turn)
        first = self._clock.now()
        turn.prompt_ms = (first - began) * 1000.0
        room = self._slots.context - len(turn.prompt)
        for index in range(min(room, limit if limit >= 0 else _REPLY_TOKENS)):
            self._pause(self._token, gone)
            token = _REPLY[index % len(_REPLY)]
            self._slots.say(turn, token)
            turn.predicted_ms = (self._clock.now() - first) * 1000.0
            yield token

    def _pause(self, seconds: float, gone: Gone) -> None:
        until = self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0.0:
            time.sleep(min(left, _STEP))
            if gone():
                raise ClientGone

    def _whole(self, turn: Turn, tokens: Iterable[str], shape: Callable[[Turn, str], shapes.Json]) -> Response:
        try:
            return jsonify(shape(turn, "".join(tokens)))
        finally:
            self._slots.finish(turn)

    def _stream(self, turn: Turn, events: Iterator[str]) -> Response:
        def until_gone() -> Iterator[str]:
            try:
                yield from events
            except ClientGone:
                return
            finally:
                self._slots.finish(turn)

        response = Response(until_gone(), mimetype="text/event-stream")
        response.call_on_close(lambda: self._slots.finish(turn))  # a stream that never began has no finally
        return response


def _events(parts: Iterable[shapes.Json], end: Callable[[], list[shapes.Json]]) -> Iterator[str]:
    for part in parts:
        yield _event(part)
    for part in end():  # made last: it counts what was said
        yield _event(part)


def _event(part: shapes.Json) -> str:
    return f"data: {json.dumps(part)}\n\n"


def _refuse(no: Refused) -> Response:
    response = jsonify(shapes.error(no.status, no.kind, no.message))
    response.status_code = no.status
    return response


def _body() -> dict[str, Any]:
    """Return the request's JSON object, or refuse in the words of llama-server's JSON library."""
    try:
        body = json.loads(request.get_data())
    except ValueError as error:
        raise invalid(f"[json.exception.parse_error.101] parse error: {error}") from None
    if not isinstance(body, dict):
        raise invalid("[json.exception.type_error.305] the body is not an object")
    return body


def _field(body: dict[str, Any], name: str) -> Any:
    if name not in body:
        raise invalid(f"[json.exception.out_of_range.403] key '{name}' not found")
    return body[name]


def _watch_client() -> Gone:
    """Return a question that tells whether the client of this request has hung up."""
    peer: socket.socket = request.environ["werkzeug.socket"]

    def gone() -> bool:
        try:
            readable, _, _ = select.select([peer], [], [], 0)
            return bool(readable) and peer.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):  # closed by ourselves meanwhile
            return True

    return gone
