"""Reads from the head of a model file how much room the context takes: what saving it will cost is known beforehand."""

import struct
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

_HEAD = 1 << 20  # bytes that are looked at: what describes the model stands before its vocabulary
_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_WIDTH = 2  # bytes of a cached number, 16 bits; quantised caches take less


@lru_cache(maxsize=8)
def token_bytes(model: Path) -> int | None:
    """Return how many bytes the keys and values of one token take at most; None where the file does not tell.

    Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    try:
        with model.open("rb") as file:
            return _from(_described(_Reader(file)))
    except (OSError, EOFError, TypeError, ValueError, LookupError, ArithmeticError, RecursionError, struct.error):
        return None


def _from(told: dict[str, object]) -> int | None:
    name = told["general.architecture"]

    def number(key: str) -> int:
        value = told[f"{name}.{key}"]
        if not isinstance(value, int):
            raise ValueError(key)  # noqa: TRY004 - the file is wrong, not the program
        return value

    heads, layers = number("attention.head_count"), number("block_count")
    each = number("embedding_length") // heads
    kept = told.get(f"{name}.attention.head_count_kv", heads)
    # Some models have another number in each layer.
    groups = sum(kept) if isinstance(kept, list) else layers * kept if isinstance(kept, int) else layers * heads
    sizes = [told.get(f"{name}.attention.{part}_length", each) for part in ("key", "value")]
    return groups * sum(size if isinstance(size, int) else each for size in sizes) * _WIDTH or None


def _described(reader: "_Reader") -> dict[str, object]:
    """Return what stands before the vocabulary. Raises ValueError for what is no such file."""
    if reader.take(4) != b"GGUF" or reader.number(4) < 2:
        raise ValueError("no GGUF file of a known version")
    reader.number(10)  # of tensors
    told: dict[str, object] = {}
    for _ in range(reader.number(10)):
        key = reader.text()
        if key.startswith("tokenizer."):
            break
        told[key] = reader.value(reader.number(4))
    return told


class _Reader:
    """Takes values from the head of a file, in order. Raises EOFError behind it."""

    def __init__(self, file: BinaryIO) -> None:
        self._data, self._at = file.read(_HEAD), 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self._data) - self._at:
            raise EOFError
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, kind: int) -> int:
        """Return a number of this GGUF type."""
        form = _FORMATS[kind]
        value = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return int(value)

    def text(self) -> str:
        """Return a string."""
        return self.take(self.number(10)).decode("utf-8")

    def value(self, kind: int) -> object:
        """Return a value of any type."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(kind)
        inner = self.number(4)
        return [self.value(inner) for _ in range(self.number(10))]
