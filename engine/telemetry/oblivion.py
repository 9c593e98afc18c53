"""Leaves no title behind in memory that was freed: such memory keeps its content until somebody uses it again."""

import socket
from typing import Any

_ALIKE = 6  # blocks of each size: those freed last are handed out first
_SIZES = (*range(1, 512, 16), *range(512, 1280, 16))  # bytes; of Python's own blocks, then of the C library's


class ForgetfulLine:
    """A socket that wipes what it received through; else the one that it is made of."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)

    def recv(self, size: int) -> bytes:
        """Receive `size` bytes at most. socket.recv() itself would leave them in a block that is hardly used again."""
        buffer = bytearray(size)
        count = self._line.recv_into(buffer)
        answer = bytes(memoryview(buffer)[:count])
        buffer[:count] = bytes(count)
        return answer


def overwrite_freed() -> None:
    """Fill blocks that this thread freed lately, of any size that an answer of 1 kB or its parts may have, with zeros.

    Takes a tenth of a millisecond.
    """
    blocks = [bytes(size) for size in _SIZES for _ in range(_ALIKE)]
    blocks.clear()
