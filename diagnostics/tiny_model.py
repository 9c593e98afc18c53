"""Writes a language model with random weights, so that the real server can be run and measured without a download.

It talks nonsense; only its timing and the server's handling of its context mean anything.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import ZatError

SIZES: dict[str, dict[str, int]] = {
    "tiny": {},  # 1 MB: loads anywhere at once
    # 88 MB in eight bits, which are computed almost twice as fast as sixteen: a cold prompt takes seconds all the same.
    "80m-q8": {"dim": 768, "layers": 12, "ffn": 2304, "heads": 12, "kv_heads": 4, "bits": 8},
}
_TEXT = [chr(code) for code in range(0x20, 0x7F)]  # what the model can read as one token each, and write
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(
    path: Path,
    *,
    dim: int = 128,
    layers: int = 2,
    ffn: int = 384,
    heads: int = 4,
    kv_heads: int = 4,
    context: int = 32768,
    seed: int = 0,
    bits: int = 16,
) -> None:
    """Write a GGUF file of the llama architecture; the same seed gives the same weights, of 16 or 8 `bits` each.

    Each printable ASCII character is one token, any other one falls back to its bytes.
    Greedy output is printable and never ends by itself. Raises ZatError where the package gguf is missing.
    """
    try:
        import gguf  # noqa: PLC0415 - an optional package, wanted only here
    except ImportError as missing:
        raise ZatError("writing a model needs the package gguf: pip install 'zat-scs[real-server]'") from missing
    draft = path.with_suffix(f".{os.getpid()}.part")
    writer = gguf.GGUFWriter(draft, "llama")
    writer.add_name(f"random-{seed}")
    writer.add_context_length(context)
    writer.add_embedding_length(dim)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(dim // heads)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if bits == 16 else gguf.LlamaFileType.MOSTLY_Q8_0)
    silent = _add_tokenizer(writer, gguf.TokenType)
    kind = gguf.GGMLQuantizationType.F16 if bits == 16 else gguf.GGMLQuantizationType.Q8_0

    def add(name: str, weights: Any) -> None:
        if weights.ndim == 1:
            writer.add_tensor(name, weights)
        else:
            writer.add_tensor(name, gguf.quantize(weights, kind), raw_dtype=kind)

    _add_weights(add, np.random.default_rng(seed), silent, dim=dim, layers=layers, ffn=ffn, kv=dim // heads * kv_heads)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    draft.replace(path)


def cached(folder: Path, size: str = "tiny") -> Path:
    """Return the model of this size ("tiny" or "80m-q8") in the folder; the first call writes it."""
    path = folder / f"random-{size}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write(path, **SIZES[size])
    return path


def _add_tokenizer(writer: Any, kind: Any) -> int:
    """Describe the tokens to the writer; return how many of them, at the front, must never be spoken."""
    special = [("<unk>", kind.UNKNOWN), ("<s>", kind.CONTROL), ("</s>", kind.CONTROL)]
    special += [(f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)]
    special += [("<|im_start|>", kind.CONTROL), ("<|im_end|>", kind.CONTROL)]
    # This kind of tokenizer writes a space as U+2581.
    spoken = [(character.replace(" ", "\u2581"), kind.NORMAL) for character in _TEXT]
    tokens = special + spoken
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in tokens])
    writer.add_token_scores([0.0] * len(special) + [-1.0] * len(spoken))
    writer.add_token_types([kind for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(_TEMPLATE)
    return len(special)


def _add_weights(
    add: Callable[[str, Any], None],
    chance: np.random.Generator,
    silent: int,
    *,
    dim: int,
    layers: int,
    ffn: int,
    kv: int,
) -> None:
    """Fill every tensor by chance; output rows of the first `silent` tokens are zero, so others always win."""

    def random(name: str, rows: int, columns: int, zero_rows: int = 0) -> None:
        weights = chance.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)
        weights[:zero_rows] = 0
        add(name, weights)

    def ones(name: str) -> None:
        add(name, np.ones(dim, dtype=np.float32))

    vocabulary = silent + len(_TEXT)
    random("token_embd.weight", vocabulary, dim)
    for number in range(layers):
        layer = f"blk.{number}"
        ones(f"{layer}.attn_norm.weight")
        for part, rows, columns in (
            ("attn_q", dim, dim),
            ("attn_k", kv, dim),
            ("attn_v", kv, dim),
            ("attn_output", dim, dim),
            ("ffn_gate", ffn, dim),
            ("ffn_up", ffn, dim),
            ("ffn_down", dim, ffn),
        ):
            random(f"{layer}.{part}.weight", rows, columns)
        ones(f"{layer}.ffn_norm.weight")
    ones("output_norm.weight")
    random("output.weight", vocabulary, dim, zero_rows=silent)
