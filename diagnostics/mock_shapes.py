"""The shapes of llama-server's answers, as the stand-in gives them. Pure: values in, values for JSON out."""

from diagnostics.mock_slots import Slots, SlotState, Turn

MODEL = "stand-in.gguf"
Json = dict[str, object]


def error(status: int, kind: str, message: str) -> Json:
    """Return the body of every answer that says no."""
    return {"error": {"code": status, "message": message, "type": kind}}


def props(slots: Slots) -> Json:
    """Return the body of /props."""
    return {
        "default_generation_settings": {"n_ctx": slots.context},
        "total_slots": len(slots.all),
        "model_alias": MODEL,
        "model_path": MODEL,
        "endpoint_slots": True,
        "endpoint_metrics": True,
        "build_info": "stand-in",
        "is_sleeping": slots.asleep,
    }


def slot(state: SlotState, context: int) -> Json:
    """Return one item of /slots; before its first request a slot says less."""
    fresh: Json = {"id": state.id, "n_ctx": context, "speculative": False, "is_processing": state.busy}
    if state.task is None:
        return fresh
    return fresh | {
        "id_task": state.task,
        "n_prompt_tokens": state.prompt + state.decoded if state.busy else len(state.text),
        "n_prompt_tokens_processed": state.processed,
        "n_prompt_tokens_cache": state.reused,
        "next_token": [{"has_next_token": state.busy, "n_remain": -1, "n_decoded": state.decoded}],
    }


def metrics(slots: Slots) -> str:
    """Return the text of /metrics."""
    return "".join(
        f"# HELP llamacpp:{name} {text}\n# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}\n"
        for name, text, kind, value in (
            ("prompt_tokens_total", "Prompt tokens computed", "counter", slots.prompt_tokens),
            ("prompt_tokens_cached_total", "Prompt tokens re-used", "counter", slots.cached_tokens),
            ("tokens_predicted_total", "Tokens written", "counter", slots.predicted_tokens),
            ("requests_processing", "Prompts at work", "gauge", slots.processing),
            ("requests_deferred", "Calls that wait", "gauge", slots.deferred),
        )
    )


def models() -> Json:
    """Return the body of /models."""
    return {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "llamacpp"}]}


def completion_part(token: str) -> Json:
    """Return one streamed token of /completion."""
    return {"index": 0, "content": token, "stop": False}


def completion(turn: Turn, content: str) -> Json:
    """Return the body of /completion, which is also its last chunk."""
    return {
        "index": 0,
        "content": content,
        "id_slot": turn.slot.id,
        "stop": True,
        "model": MODEL,
        "tokens_predicted": len(turn.reply),
        "tokens_evaluated": len(turn.prompt),
        "tokens_cached": len(turn.prompt) + max(0, len(turn.reply) - 1),
        "stop_type": "limit",
        "truncated": False,
        "timings": _timings(turn),
    }


def chat_part(delta: Json, finish_reason: str | None = None) -> Json:
    """Return one chunk of a streamed chat."""
    choice = {"finish_reason": finish_reason, "index": 0, "delta": delta}
    return {"choices": [choice], "model": MODEL, "object": "chat.completion.chunk"}


def chat_end(turn: Turn, *, usage: bool) -> list[Json]:
    """Return the last chunks of a streamed chat: the timings are in the very last, with the usage if asked for."""
    last = chat_part({}, "length")
    if not usage:
        return [last | {"timings": _timings(turn)}]
    return [last, last | {"choices": [], "usage": _usage(turn), "timings": _timings(turn)}]


def chat(turn: Turn, content: str) -> Json:
    """Return the body of a chat that is not streamed."""
    choice = {"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": content}}
    return {
        "choices": [choice],
        "model": MODEL,
        "object": "chat.completion",
        "usage": _usage(turn),
        "timings": _timings(turn),
    }


def _timings(turn: Turn) -> Json:
    return {
        "cache_n": turn.reused,
        "prompt_n": len(turn.prompt) - turn.reused,
        "prompt_ms": turn.prompt_ms,
        "predicted_n": len(turn.reply),
        "predicted_ms": turn.predicted_ms,
    }


def _usage(turn: Turn) -> Json:
    return {
        "prompt_tokens": len(turn.prompt),
        "completion_tokens": len(turn.reply),
        "total_tokens": len(turn.prompt) + len(turn.reply),
        "prompt_tokens_details": {"cached_tokens": turn.reused},
    }
