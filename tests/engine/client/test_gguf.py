"""What a model's file says of the room that its context takes."""

import struct
from pathlib import Path
from typing import Any

import pytest
from helpers.wait import wait_until

from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.client.api import LlamaServer
from engine.client.gguf import token_bytes
from engine.clock import SystemClock

LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.tags": ["chat", "de"],
    "llama.block_count": 32,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "llama.rope.freq_base": 0.5,
}


def text(words: str) -> bytes:
    """Return a string as the format has it."""
    return struct.pack("<Q", len(words.encode())) + words.encode()


def value(one: Any) -> bytes:
    """Return a typed value as the format has it."""
    match one:
        case str():
            return struct.pack("<I", 8) + text(one)
        case float():
            return struct.pack("<If", 6, one)
        case list():
            inner = [value(item) for item in one]
            return struct.pack("<I", 9) + inner[0][:4] + struct.pack("<Q", len(one)) + b"".join(i[4:] for i in inner)
        case _:
            return struct.pack("<II", 4, one)


def model(folder: Path, told: dict[str, Any], *, head: bytes = b"GGUF", version: int = 3) -> Path:
    """Write the head of a model file."""
    path = folder / "m.gguf"
    pairs = b"".join(text(key) + value(one) for key, one in told.items())
    path.write_bytes(head + struct.pack("<IQQ", version, 0, len(told)) + pairs)
    token_bytes.cache_clear()
    return path


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, 131_072),  # Llama 3 8B: 128 KiB
        ({"llama.attention.head_count_kv": 32}, 524_288),  # Llama 2 7B: 512 KiB
        ({"llama.attention.head_count_kv": [8] * 16 + [0] * 16}, 65_536),
        ({"llama.attention.key_length": 192, "llama.attention.value_length": 128}, 8 * 32 * 320 * 2),
        ({"tokenizer.ggml.tokens": ["a", "b"]}, 131_072),
    ],
)
def test_the_room_of_a_token_follows_from_the_attention(tmp_path: Path, more: dict[str, Any], expected: int) -> None:
    """Keys and values of each head that is kept, in each layer, 16 bits each."""
    assert token_bytes(model(tmp_path, LLAMA | more)) == expected


def test_what_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    """Whatever lies there."""
    assert token_bytes(tmp_path / "none.gguf") is None
    assert token_bytes(model(tmp_path, LLAMA, head=b"GGML")) is None
    assert token_bytes(model(tmp_path, LLAMA, version=1)) is None
    assert token_bytes(model(tmp_path, LLAMA | {"llama.attention.head_count": "many"})) is None
    assert token_bytes(model(tmp_path, LLAMA | {"llama.attention.head_count": 0})) is None
    assert token_bytes(model(tmp_path, {"general.architecture": "new"})) is None
    assert token_bytes(model(tmp_path, LLAMA | {"llama.attention.head_count_kv": ["8"]})) is None
    cut = model(tmp_path, LLAMA)
    cut.write_bytes(cut.read_bytes()[:90])
    assert token_bytes(cut) is None


@pytest.mark.real
def test_a_real_model_takes_what_its_file_says(tiny_model: Path, tmp_path: Path) -> None:
    """The server's own file is that large, but for a few bytes of its own for each token."""
    expected = token_bytes(tiny_model)
    assert expected is not None
    with RealServer(tiny_model, tmp_path, slot_save_path=tmp_path) as real, LlamaServer(real.url, "") as server:
        complete(real.url, "word " * 200, SystemClock())
        wait_until(lambda: not server.slots()[0].is_processing, what="rest")
        saved = server.save(0, "x.bin", timeout=20)
    assert expected * saved.n_saved <= saved.n_written <= 1.1 * expected * saved.n_saved
