"""What a process costs, read from outside: processor, wake-ups, memory, threads, and the notes of its ticks. Linux."""

import itertools
import json
import math
import re
import statistics
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics.overhead_inside import TICK

_PROC = Path("/proc")


class Unmeasured(Exception):  # noqa: N818 - what happened
    """A part could not be measured; the message is the reason, fit to be shown."""


@dataclass(frozen=True)
class Spread:
    """The middle and the worst one in a hundred."""

    p50: float
    p99: float


@dataclass(frozen=True)
class Cost:
    """What one program took in one stretch of time.

    `cpu_percent`: of one core, all threads. `wakeups_per_s`: how often a thread went to sleep. `resident_mb`,
    `proportional_mb`: at the end of the stretch; the second counts what is shared with others in part. `helpers_mb`:
    proportional size of its child processes. `by_thread`: percent of a core. None: it has no ticks.
    """

    cpu_percent: float
    wakeups_per_s: float
    resident_mb: float
    proportional_mb: float
    helpers_mb: float
    threads: int
    tick_work_ms: Spread | None
    tick_interval_ms: Spread | None
    by_thread: dict[str, float]


@dataclass(frozen=True)
class Reading:
    """The counters of a process at one moment: by thread, nanoseconds of work and voluntary switches."""

    threads: Mapping[int, tuple[int, int]]
    ticks: int


def spread(values: Sequence[float]) -> Spread | None:
    """Return median and 99th percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return Spread(statistics.median(ordered), ordered[math.ceil(0.99 * len(ordered)) - 1])


def read(pid: int, notes: Path | None) -> Reading:
    """Return the counters now. Raises Unmeasured."""
    threads = {}
    for task in _listed(_PROC / str(pid) / "task"):
        text, work = _text(task / "status"), _text(task / "schedstat")
        switches = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.MULTILINE)
        if switches and work:  # else it ended at this very moment
            threads[int(task.name)] = int(work.split()[0]), int(switches[1])
    if not threads:
        raise Unmeasured(f"process {pid} is gone, or this system does not tell what its threads do (Linux does)")
    return Reading(threads, 0 if notes is None else _count(notes))


def cost(pid: int, notes: Path | None, before: Reading, after: Reading, seconds: float) -> Cost:
    """Return what happened between two readings, `seconds` apart. Raises Unmeasured."""
    names = _names(notes)
    work, wakeups = 0, 0
    by_thread: dict[str, float] = {}
    for task, (busy, switches) in after.threads.items():
        busy_before, switches_before = before.threads.get(task, (0, 0))
        work += busy - busy_before
        wakeups += switches - switches_before
        name = names.get(str(task)) or _text(_PROC / str(pid) / "task" / str(task) / "comm").strip()
        by_thread[name] = by_thread.get(name, 0.0) + _percent(busy - busy_before, seconds)
    resident, proportional = memory(pid)
    ticks = [] if notes is None else _ticks(notes, before.ticks, after.ticks)
    gaps = [1000 * (later - earlier) for (earlier, _), (later, _) in itertools.pairwise(ticks)]
    return Cost(
        cpu_percent=_percent(work, seconds),
        wakeups_per_s=wakeups / seconds,
        resident_mb=resident,
        proportional_mb=proportional,
        helpers_mb=sum(memory(child)[1] for child in children(pid)),
        threads=len(after.threads),
        tick_work_ms=spread([1000 * worked for _, worked in ticks]),
        tick_interval_ms=spread(gaps),
        by_thread=dict(sorted(by_thread.items(), key=lambda item: -item[1])),
    )


def memory(pid: int) -> tuple[float, float]:
    """Return resident and proportional size in MB. Raises Unmeasured."""
    sizes = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", _text(_PROC / str(pid) / "smaps_rollup"), re.MULTILINE))
    if len(sizes) != 2:
        raise Unmeasured(f"process {pid} is gone, or this system does not tell its proportional size (Linux does)")
    return int(sizes["Rss"]) / 1024, int(sizes["Pss"]) / 1024


def children(pid: int) -> list[int]:
    """Return the processes that this one started."""
    found = (_text(task / "children") for task in _listed(_PROC / str(pid) / "task"))
    return [int(number) for line in found for number in line.split()]


def _percent(nanoseconds: int, seconds: float) -> float:
    return nanoseconds / 1e7 / seconds


def _count(notes: Path) -> int:
    with notes.open("rb") as file:
        (count,) = struct.unpack("q", file.read(8))
    return int(count)


def _ticks(notes: Path, first: int, last: int) -> list[tuple[float, float]]:
    with notes.open("rb") as file:
        file.seek(TICK.size * (first + 1))
        return [(began, work) for began, work in TICK.iter_unpack(file.read(TICK.size * (last - first)))]


def _names(notes: Path | None) -> dict[str, str]:
    """Return the names of Python's own threads, by their numbers as text."""
    text = "" if notes is None else _text(notes.with_suffix(".json"))
    return json.loads(text) if text else {}


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError:  # it ended at this very moment
        return ""
