"""Runs one of our programs and notes each tick of its engine where overhead.py can read it: its begin and its work.

    python -m diagnostics.overhead_inside NOTES MODULE ARGUMENTS...

The notes lie in shared memory, so that they cost next to nothing; the names of the threads lie beside them.
"""

import json
import mmap
import runpy
import struct
import sys
import threading
from pathlib import Path

from engine.clock import SystemClock
from engine.events import Snapshot
from engine.loop import Engine

TICK = struct.Struct("dd")  # when it began, monotonic; seconds of work
_NAMES = 50  # ticks after which threads are named anew: one may have taken another's place
ROOM = 1 << 16  # ticks: more than an hour and a half


def size() -> int:
    """Return how many bytes the notes take: how many ticks there are, and the ticks."""
    return TICK.size * (ROOM + 1)


def note_ticks(notes: Path) -> None:
    """Let every engine in this process note its ticks from now on."""
    with notes.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), size())
    clock, inner, count, known = SystemClock(), Engine.tick, 0, 0

    def tick(engine: Engine, now: float) -> Snapshot:
        nonlocal count, known
        began = clock.now()
        snapshot = inner(engine, now)
        work = clock.now() - began
        if threading.active_count() != known or count % _NAMES == 0:
            known = threading.active_count()
            own = (thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread))  # noqa: SLF001 - no public way
            names = {thread.native_id: thread.name for thread in own}
            notes.with_suffix(".json").write_text(json.dumps(names), "utf-8")
        if count < ROOM:
            count += 1
            TICK.pack_into(memory, TICK.size * count, began, work)
            struct.pack_into("q", memory, 0, count)
        return snapshot

    Engine.tick = tick  # type: ignore[method-assign,assignment] # a probe around the real one


def main(argv: list[str]) -> None:
    """Be the program that was named."""
    notes, module, *words = argv
    note_ticks(Path(notes))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
