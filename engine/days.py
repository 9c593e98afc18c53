"""The daily sums of what helping brought and cost, kept in the data folder: counts and seconds only."""

import functools
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec

from engine.account import Day
from engine.benefit import Benefit
from engine.clock import Clock
from engine.config.settings import Settings
from engine.config.store import write_private
from engine.events import Moved, Tick
from engine.orchestration.machine import Machine
from engine.reports import Reports

log = logging.getLogger(__name__)

VERSION = 1
KEPT = 400  # days
PATIENCE = 2.0  # s at the end for a writing that is under way

_Rate = Annotated[float, msgspec.Meta(gt=0)]


class Kept(msgspec.Struct, frozen=True):
    """What the file holds. `rates`: tokens a second that each server computed lately, by an opaque name."""

    version: int = VERSION
    days: list[Day] = []
    rates: dict[str, list[_Rate]] = {}


def load(path: Path) -> Kept:
    """Return what is kept; nothing where there is no file, and a warning where it cannot be used."""
    kept, reason = _read(path)
    if reason:
        log.warning("%s cannot be used, so what was saved until now is not known: %s", path, reason)
    return kept


def _read(path: Path) -> tuple[Kept, str]:
    """Return what is kept, and "" or the reason why nothing is."""
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Kept)
    except FileNotFoundError:
        return Kept(), ""
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Kept(), str(error)
    return (kept, "") if kept.version == VERSION else (Kept(), "it is of another version")


def _begin(path: Path) -> Kept:
    """Return what is kept, for an engine that goes on with it: what cannot be used is set aside first."""
    kept, reason = _read(path)
    if reason:
        aside = path.with_name(f"{path.name}.broken")
        log.warning("%s cannot be used and is kept as %s; days are counted anew: %s", path, aside.name, reason)
        with suppress(OSError):
            path.replace(aside)
    return kept


def local_date(wall: float) -> str:
    """Return the local day of a Unix time, such as 2026-11-30."""
    return _date_in(int(wall // 60))


@functools.lru_cache(maxsize=2)  # it is asked at each tick, and no day begins within a minute
def _date_in(minute: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(60 * minute))


def last_days(days: Iterable[Day], count: int, wall: float) -> list[Day]:
    """Return the `count` days up to the one of this Unix time, oldest first; those without a record are empty."""
    known = {day.date: day for day in days}
    noon = time.mktime((*time.localtime(wall)[:3], 12, 0, 0, 0, 0, -1))  # at noon no change of the hour reaches a day
    dates = [local_date(noon - 86400 * back) for back in range(count - 1, -1, -1)]
    return [known.get(date) or Day(date) for date in dates]


class DayBook:
    """The books of the engine, written down now and then. `path`: the file, None: only while the engine runs.

    Belongs to the loop's thread; while that runs, the file is written on another.
    """

    EVERY = 600.0  # s between two writings

    def __init__(self, path: Path | None, clock: Clock) -> None:
        kept = _begin(path) if path else Kept()
        self._path = path
        self._clock = clock
        self._benefit = Benefit(kept.days, kept.rates)
        self._written_at = clock.now()
        self._written = self._content()
        self._writer: threading.Thread | None = None
        self.today: Day | None = None

    def weigh(self, tick: Tick, settings: Settings) -> Tick:
        """Return the tick with whether a preparation pays now."""
        return tick if self._benefit.pays(tick.probability, settings) else replace(tick, pays=False)

    def step(self, now: float, moves: Sequence[Moved], machine: Machine, reports: Reports) -> None:
        """Book what happened in this tick; blocks nobody."""
        self._benefit.step(now, local_date(self._clock.wall()), moves, machine, reports.share)
        for report in reports.take_prompts():
            self._benefit.prompted(report)
        self.today = self._benefit.today
        if self._path and now - self._written_at >= self.EVERY:
            self._written_at = now
            if self._writer is None or not self._writer.is_alive():  # else the disk hangs, and the loop must not
                self._writer = threading.Thread(target=self._write, args=(self._content(),), name="days", daemon=True)
                self._writer.start()

    def close(self) -> None:
        """Write down what is new."""
        if self._writer:
            self._writer.join(PATIENCE)
            if self._writer.is_alive():  # the disk hangs, and nobody shall wait for it
                return
        self._write(self._content())

    def _write(self, content: Kept) -> None:
        if self._path and content != self._written:
            self._written = content
            _save(self._path, content)

    def _content(self) -> Kept:
        # Days are frozen: copying the list is all that the loop has to do.
        days = sorted(self._benefit.days.values(), key=_date)
        return Kept(days=days[-KEPT:], rates=self._benefit.rates)


def _date(day: Day) -> str:
    return day.date


def _save(path: Path, content: Kept) -> None:
    """Write it, readable by this user only. A disk that refuses is said and does no harm."""
    try:
        write_private(path, msgspec.json.encode(content))
    except OSError as error:
        log.warning("%s cannot be written; what was saved lately is not remembered: %s", path, error)
