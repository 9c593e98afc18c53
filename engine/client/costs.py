"""How long a save will hold the server, which does nothing else meanwhile. Pure.

Hanging up does not end a save, so what would be long must not be begun. What is not known is taken to go
as fast as memory takes it: larger files of an unknown disk are approached step by step.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.client.index import Cost

LIMIT = 2.0  # s that a save may be expected to hold the server: about as long as the slot has rested before it
FIRST = 5.0  # s that the first one of a model may, which tells what the next ones take
UNKNOWN_TOKEN = 200_000  # bytes, where the model's file does not tell: most models of up to 30B take less
FASTEST = 1e9  # bytes/s believed of what was not measured: what a system takes into its memory before the disk
TELLING = 100_000_000  # bytes from which on a file says something of the disk's speed
FRESH = 86400.0  # s that a measured speed is believed: the disk may have been busy, or been replaced


@dataclass(frozen=True, slots=True)
class Expected:
    """What a save will take: bytes and seconds."""

    size: int
    seconds: float


def expect(tokens: int, own: Cost | None, others: Iterable[Cost], wall: float, token: int | None) -> Expected:
    """Return what saving so many tokens will take.

    `own`: of this model at this server, `others`: of its other models, which have the same disk. `token`: bytes that
    one takes by the model's file, if that tells.
    """
    if own is None:
        size = tokens * (token or UNKNOWN_TOKEN)
        speeds = [cost.size / cost.seconds for cost in others if _tells(cost, wall)]
        return Expected(size, size / min([*speeds, FASTEST]))
    size = int(tokens * own.size / own.tokens)
    if tokens > own.tokens:  # a part of it may be the same for any number of tokens
        size = min(size, own.size + (tokens - own.tokens) * (token or UNKNOWN_TOKEN))
    if not _is_fresh(own, wall):
        return Expected(size, min(size / FASTEST, own.seconds * size / own.size or size / FASTEST))
    if size <= own.size:
        return Expected(size, own.seconds * size / own.size)
    speed = min(own.size / own.seconds, FASTEST) if _tells(own, wall) else FASTEST
    return Expected(size, own.seconds + (size - own.size) / speed)


def bearable(expected: Expected, own: Cost | None) -> bool:
    """Tell whether the server may be held that long for it."""
    return expected.seconds <= (FIRST if own is None else LIMIT)


def of_unfinished(tokens: int, expected: Expected, seen: int, waited: float, wall: float) -> Cost:
    """Return what a save will have taken that did not end within `waited` seconds; `seen`: bytes on disk by then."""
    size = max(seen, expected.size)
    return Cost(tokens, size, max(waited, waited * size / seen) if seen else waited, wall)


def _is_fresh(cost: Cost, wall: float) -> bool:
    return abs(wall - cost.at) < FRESH


def _tells(cost: Cost, wall: float) -> bool:
    return cost.size >= TELLING and cost.seconds > 0 and _is_fresh(cost, wall)
