"""What another process of this user holds in its memory, as bytes: found, or not, whatever it takes the bytes for."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

STRIDES = (1, 2, 4, 8, 32, 64)  # bytes from one key to the next: arrays of numbers, and events of the X server
PIECE = 16 << 20  # bytes read at once
SEAM = 1 << 14  # bytes read twice, so that nothing is missed between two pieces
PAGE = 4096
HEAD = 8  # bytes of a needle by which it is looked for
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) r\S+ \S+ \S+ \S+ *(.*)$", re.MULTILINE)
_SHARED = ("[vvar", "[vsyscall]", "/dev/", "/memfd:pulseaudio", "/dev/shm/pulse")  # what others own and see, too
Places = dict[str, list[str]]  # where each needle lies, by its name


def found(pid: int, needles: Mapping[str, bytes]) -> Places:
    """Return where each of these, of 8 bytes or more, lies in a process; those that are nowhere are left out."""
    places: Places = {}
    heads = np.array(sorted({int.from_bytes(needle[:HEAD], "little") for needle in needles.values()}), np.uint64)
    begins = np.zeros(1 << 16, np.bool_)
    begins[(heads & 0xFFFF).astype(np.intp)] = True
    for where, content in _pieces(pid):
        for at in _candidates(content, heads, begins):
            for name, needle in needles.items():
                if content.startswith(needle, at):
                    places.setdefault(name, []).append(where)
    return places


def rows(pid: int, needles: Mapping[str, bytes], shortest: int) -> Places:
    """Return where `shortest` numbers in a row of any of these lie at an even distance from each other.

    So arrays of one, two, four and eight bytes a number are found, and events that hold one each.
    """
    places: Places = {}
    for where, content in _pieces(pid):
        numbers = np.frombuffer(content, np.uint8)
        for name, row in needles.items():
            if any(in_a_row(numbers, row[at : at + shortest]) for at in range(len(row) - shortest + 1)):
                places.setdefault(name, []).append(where)
    return places


def in_a_row(numbers: np.ndarray, wanted: bytes) -> bool:
    """Tell whether these bytes lie in this order at an even distance from each other."""
    starts = np.flatnonzero(numbers == wanted[0])
    for stride in STRIDES:
        left = starts[starts + stride * (len(wanted) - 1) < len(numbers)]
        for place, value in enumerate(wanted[1:], 1):
            left = left[numbers[left + stride * place] == value]
        if len(left):
            return True
    return False


def texts(word: str) -> dict[str, bytes]:
    """Return a word in the ways that programs keep text."""
    return {name: word.encode(name) for name in ("utf-8", "utf-16-le", "utf-32-le", "utf-16-be", "utf-32-be")}


def _pieces(pid: int) -> Iterator[tuple[str, bytes]]:
    """Yield all that a process can read and that is not zero, each with what is mapped there.

    Left out is what it shares with the sound server, which owns that.
    """
    maps = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace")
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for low, high, name in _LINE.findall(maps):
            first, end = int(low, 16), int(high, 16)
            for start in range(first, end, PIECE) if not name.startswith(_SHARED) else ():
                try:
                    memory.seek(start)
                    content = memory.read(min(PIECE + SEAM, end - start))
                except (OSError, ValueError):  # unmapped meanwhile, or not to be read after all
                    continue
                yield from ((f"{start + at:x} {name or 'anonymous'}", part) for at, part in _filled(content))


def _filled(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the stretches of pages that hold anything but zeros, and where they begin."""
    whole = len(content) // PAGE * PAGE
    words = np.frombuffer(content, np.uint64, whole // 8).reshape(-1, PAGE // 8)
    used = np.concatenate(([False], words.any(axis=1), [False]))
    edges = np.flatnonzero(used[1:] != used[:-1]) * PAGE
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first, content[first:end]


def _candidates(content: bytes, heads: np.ndarray, begins: np.ndarray) -> Iterator[int]:
    """Yield where any of these heads lies."""
    for offset in range(HEAD):
        words = np.frombuffer(content, np.dtype("<u8"), (len(content) - offset) // HEAD, offset)
        likely = np.flatnonzero(begins[(words & 0xFFFF).astype(np.intp)])
        places = np.minimum(np.searchsorted(heads, words[likely]), len(heads) - 1)
        yield from (likely[heads[places] == words[likely]] * HEAD + offset).tolist()
