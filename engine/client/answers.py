"""What a server's answers mean: frozen values made from bytes, and who it is that answers. No I/O."""

import enum
import functools
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from engine.errors import ServerRefused

_T = TypeVar("_T")


class Health(enum.Enum):
    """Whether the server takes requests; a sleeping one counts as OK."""

    OK = "ok"
    LOADING = "loading"


@dataclass(frozen=True, slots=True, kw_only=True)
class Props:
    """What the server says of itself. `n_ctx`: tokens a slot can hold. None: not said (a router says little)."""

    total_slots: int | None = None
    n_ctx: int | None = None
    model_path: str | None = None
    model_alias: str | None = None
    build_info: str | None = None
    is_sleeping: bool = False
    endpoint_slots: bool | None = None
    endpoint_metrics: bool | None = None
    is_router: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One slot. Counts are in tokens, None before its first request; `n_prompt_tokens` is what it holds now."""

    id: int
    is_processing: bool
    n_ctx: int | None = None
    id_task: int | None = None
    n_prompt_tokens: int | None = None
    n_prompt_tokens_processed: int | None = None
    n_prompt_tokens_cache: int | None = None
    n_decoded: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Requests at work and waiting, and totals in tokens since the start; None where the server has no such counter.

    `start_mark` differs from one start of the server to the next and is the same in between.
    """

    processing: int | None = None
    deferred: int | None = None
    prompt_tokens: int | None = None  # computed, those re-used not counted
    prompt_tokens_cached: int | None = None
    prompt_seconds: float | None = None  # that computing prompt_tokens took
    predicted_tokens: int | None = None
    start_mark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model on offer. Only routers say its `status` (unloaded, loading, loaded, sleeping), and its flags."""

    id: str
    status: str | None = None
    args: tuple[str, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A context was written: tokens, bytes, milliseconds."""

    n_saved: int
    n_written: int
    save_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A context was read back: tokens, bytes, milliseconds."""

    n_restored: int
    n_read: int
    restore_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Tokens of one reply: `cache_n` re-used (the proof of a hit), `prompt_n` computed, `predicted_n` written."""

    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


class Kind(enum.Enum):
    """Who answers at the address."""

    LLAMA_SERVER = "llama_server"
    ROUTER = "router"
    LLAMA_SWAP = "llama_swap"
    OLLAMA = "ollama"
    LM_STUDIO = "lm_studio"
    OTHER = "other"


SENTENCES = {
    Kind.LLAMA_SERVER: "This is llama-server: prompts are seen, and contexts saved and restored.",
    Kind.ROUTER: "This is llama-server as a router: contexts are saved and restored for models that are loaded or "
    "asleep; a model that is not loaded is never loaded by us.",
    Kind.LLAMA_SWAP: "This is llama-swap, which hides the slots of the server behind it: the background job can be "
    "held back by hand, but prompts are not seen and contexts not restored. Set SERVER_URL to the llama-server "
    "itself, or to this address followed by /upstream/ and the model's name.",
    Kind.OLLAMA: "This is Ollama, which has no way to watch its slots or to save a context: the background job can be "
    "held back by hand, but prompts are not seen and contexts not restored. Use llama-server for those.",
    Kind.LM_STUDIO: "This is LM Studio, which has no way to watch its slots or to save a context: the background job "
    "can be held back by hand, but prompts are not seen and contexts not restored. Use llama-server for those.",
    Kind.OTHER: "Something answers here that is not llama-server: prompts are not seen and contexts not restored. "
    "Check SERVER_URL, its port and its path prefix.",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Who answers, and one sentence for people: what works with it and what does not."""

    kind: Kind
    sentence: str


def identity(kind: Kind) -> Identity:
    """Return who it is, together with its sentence."""
    return Identity(kind, SENTENCES[kind])


# ---- What lies deeper on the wire than in our values -----------------------------------------------------------------


class _Health(msgspec.Struct):
    status: str


class _Generation(msgspec.Struct):
    n_ctx: int | None = None


class _PropsRest(msgspec.Struct):
    default_generation_settings: _Generation | None = None
    role: str | None = None


class _NextToken(msgspec.Struct):
    n_decoded: int | None = None


class _SlotRest(msgspec.Struct):
    next_token: list[_NextToken] | _NextToken | None = None  # a bare object in older servers


class _Status(msgspec.Struct):
    value: str | None = None
    args: tuple[str, ...] | None = None


class _Model(msgspec.Struct):
    id: str
    status: _Status | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _Times(msgspec.Struct):
    save_ms: float = 0.0
    restore_ms: float = 0.0


class _Timed(msgspec.Struct):
    timings: _Times


class _Completion(msgspec.Struct):
    timings: Completion


class _Message(msgspec.Struct):
    message: str


class _Error(msgspec.Struct):
    error: _Message | str


def decode(body: bytes, kind: type[_T]) -> _T:
    """Read a 200 answer as this kind, or raise ServerRefused that says what is wrong with it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise ServerRefused(200, f"unexpected answer: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ServerRefused(200, f"not JSON: {shorten(body)}") from None


def read_health(body: bytes) -> Health:
    """Read the answer of /health, or raise ServerRefused: other programs say yes to any path."""
    status = decode(body, _Health).status
    if status != "ok":
        raise ServerRefused(200, f"not ready: {status[:100]}")
    return Health.OK


def read_props(body: bytes) -> Props:
    """Read the answer of /props."""
    props, rest = decode(body, Props), decode(body, _PropsRest)
    n_ctx = rest.default_generation_settings.n_ctx if rest.default_generation_settings else None
    return replace(props, n_ctx=n_ctx, is_router=rest.role == "router")


def read_slots(body: bytes) -> tuple[Slot, ...]:
    """Read the answer of /slots."""
    pairs = zip(decode(body, list[Slot]), decode(body, list[_SlotRest]), strict=True)
    return tuple(replace(slot, n_decoded=_decoded(rest)) for slot, rest in pairs)


def _decoded(rest: _SlotRest) -> int | None:
    token = rest.next_token
    if isinstance(token, list):
        token = token[0] if token else None
    return token.n_decoded if token else None


@functools.lru_cache(maxsize=8)  # a server at rest says the same ten times a second; a router has several models
def read_metrics(body: bytes, start_mark: str | None) -> Metrics:
    """Read the answer of /metrics, in the text form of Prometheus."""
    values: dict[str, int] = {}
    seconds: float | None = None
    for line in body.decode("utf-8", "replace").splitlines():
        if line.startswith("llamacpp:"):
            name, _, value = line.removeprefix("llamacpp:").rpartition(" ")
            try:
                number = float(value)
                values[name.partition("{")[0]] = int(number)
                seconds = number if name.startswith("prompt_seconds_total") else seconds
            except (ValueError, OverflowError):
                continue  # a counter we cannot read is one that is not there
    if not values:
        raise ServerRefused(200, f"not metrics: {shorten(body)}")
    return Metrics(
        processing=values.get("requests_processing"),
        deferred=values.get("requests_deferred"),
        prompt_tokens=values.get("prompt_tokens_total"),
        prompt_tokens_cached=values.get("prompt_tokens_cached_total"),
        prompt_seconds=seconds,
        predicted_tokens=values.get("tokens_predicted_total"),
        start_mark=start_mark,
    )


def read_models(body: bytes) -> tuple[Model, ...]:
    """Read the answer of /models."""
    said = [(model.id, model.status or _Status()) for model in decode(body, _Models).data]
    return tuple(Model(id=name, status=status.value, args=status.args) for name, status in said)


def read_saved(body: bytes) -> Saved:
    """Read the answer of a save."""
    return replace(decode(body, Saved), save_ms=decode(body, _Timed).timings.save_ms)


def read_restored(body: bytes) -> Restored:
    """Read the answer of a restore."""
    return replace(decode(body, Restored), restore_ms=decode(body, _Timed).timings.restore_ms)


def read_completion(body: bytes) -> Completion:
    """Read the answer of a completion that was not streamed."""
    return decode(body, _Completion).timings


def error_text(body: bytes) -> str:
    """Return the server's own words from an answer that says no."""
    try:
        error = msgspec.json.decode(body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return shorten(body)
    return shorten((error if isinstance(error, str) else error.message).encode())


def shorten(body: bytes) -> str:
    """Return the beginning of a body as one line of text."""
    return " ".join(body[:400].decode("utf-8", "replace").split())[:200] or "(empty)"
