"""Proof that the card was yielded: the memory that server and job have on it, by NVIDIA's NVML where there is one.

A stopped process keeps its memory, so "stopped" and "there is room" are two things; this tells the second.
"""

import logging
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine import processes
from engine.clock import Clock

_log = logging.getLogger(__name__)

_EVERY = 1.0  # seconds between two looks
_AFTERWARDS = 5.0  # seconds for which the card is still watched when the job was given back
_PATIENCE = 2.0  # seconds for the thread to end
_MIB = 1 << 20
_NOT_SAID = (3, 4, 13)  # NVML: not supported, no permission, function not found


@dataclass(frozen=True, slots=True)
class Vram:
    """Memory of the card in MiB: what the server has, what the job has, what is free. None: not known."""

    server: int | None = None
    job: int | None = None
    free: int | None = None

    def __str__(self) -> str:
        named = (("server", self.server), ("job", self.job), ("free", self.free))
        return ", ".join(f"{name} {mib} MiB" for name, mib in named if mib is not None) or "memory of the card unknown"


class VramReader:
    """Looks once a second on a thread of its own, while something is held and shortly after; else it sleeps.

    `watch` and `latest` return at once and may be used from any thread. Without NVML it says so once, and rests.
    """

    def __init__(self, clock: Clock, load: Callable[[], Any] | None = None) -> None:
        self._clock = clock
        self._card = _Card(load or _pynvml)
        self._latest = Vram()
        self._thread: threading.Thread | None = None
        self._wake = threading.Condition()  # guards what follows
        self._server: int | None = None
        self._job: frozenset[int] = frozenset()
        self._until = float("-inf")  # until when somebody needs to know
        self._closing = False

    @property
    def latest(self) -> Vram:
        """What the last look showed; unknown again when nobody looks any more."""
        return self._latest

    @property
    def trouble(self) -> str:
        """Why nothing will ever be known here, "" where something may be."""
        return self._card.trouble

    def watch(self, held: bool, server: int | None, job: Collection[int]) -> None:
        """Say whether the job is held, and whose memory counts: process ids, as the system itself numbers them.

        To be called whenever one of these may have changed; the first time the job is held starts the thread.
        """
        with self._wake:
            self._server, self._job = server, frozenset(job)
            if held:
                self._until = float("inf")
            elif self._until == float("inf"):
                self._until = self._clock.now() + _AFTERWARDS
            if held and not self._thread and not self._closing:
                self._thread = threading.Thread(target=self._work, name="card-memory", daemon=True)
                self._thread.start()
            self._wake.notify()

    def tell(self, held: bool, server: int | None, job: Callable[[], Collection[int]]) -> str:
        """Watch, and return who has how much of the card as a sentence; "" where that is not known."""
        self.watch(held, server, job() if held else ())
        return "" if self._latest == Vram() else str(self._latest)

    def close(self) -> None:
        """End the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread:
            self._thread.join(_PATIENCE)

    def _work(self) -> None:
        while asked := self._next():
            self._latest = self._card.read(*asked)
            if self.trouble:
                _log.info("Memory of the card is not known: %s", self.trouble)
                return
            with self._wake:
                self._wake.wait_for(lambda: self._closing, _EVERY)
        self._card.close()

    def _next(self) -> tuple[int | None, frozenset[int]] | None:
        """Sleep while nobody needs to know; return whose memory counts, None at the end."""
        with self._wake:
            if not self._needed():
                self._latest = Vram()
            self._wake.wait_for(lambda: self._closing or self._needed())
            return None if self._closing else (self._server, self._job)

    def _needed(self) -> bool:
        return self._clock.now() < self._until


class _Card:
    """The only door to NVML. `trouble`: why there is nothing to read, "" while there is hope."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load
        self._nvml: Any = None
        self._has_worked = False
        self.trouble = ""

    def read(self, server: int | None, job: Collection[int]) -> Vram:
        """Look once. A driver in trouble gives unknown, and is opened anew at the next look."""
        nvml = self._nvml or self._open()
        if nvml is None:
            return Vram()
        try:
            vram = _measure(nvml, server, job)
        except nvml.NVMLError:
            self.close()
            return Vram()
        self._has_worked = True
        return vram

    def close(self) -> None:
        """Let the driver go."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            with suppress(nvml.NVMLError):  # it may have gone first
                nvml.nvmlShutdown()

    def _open(self) -> Any:
        try:
            nvml = self._load()
        except ImportError:
            self.trouble = "the package nvidia-ml-py is not installed"
            return None
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            self.trouble = "" if self._has_worked else str(error)
            return None
        self._nvml = nvml
        return nvml


def _pynvml() -> Any:
    import pynvml  # noqa: PLC0415 - only who has held a job needs it

    return pynvml


@dataclass(frozen=True, slots=True)
class _State:
    """One card, in bytes. None: the driver does not say; `used` by process, with None for one of unknown size."""

    free: int | None
    used: dict[int, int | None] | None


def _measure(nvml: Any, server: int | None, job: Collection[int]) -> Vram:
    cards = [_state(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
    ours = {*job, *([server] if server is not None else [])}
    concerned = [card for card in cards if card.used and card.used.keys() & ours] or cards
    free = [card.free for card in concerned if card.free is not None]
    return Vram(
        _used(cards, [server] if server is not None else []),
        _used(cards, job),
        sum(free) // _MIB if free and len(free) == len(concerned) else None,
    )


def _state(nvml: Any, handle: Any) -> _State:
    """Look at one card. A process may be in several lists, each time with all it has."""
    kinds = ("Compute", "Graphics", "MPSCompute")
    lists = [_asked(nvml, f"nvmlDeviceGet{kind}RunningProcesses", handle) for kind in kinds]
    answered = [listed for listed in lists if listed is not None]
    used = {one.pid: one.usedGpuMemory for listed in answered for one in listed}
    memory = _asked(nvml, "nvmlDeviceGetMemoryInfo", handle)  # a card that shares the system's memory has none
    return _State(memory and memory.free, used if answered else None)


def _asked(nvml: Any, name: str, handle: Any) -> Any:
    try:
        return getattr(nvml, name)(handle)
    except nvml.NVMLError as error:
        if error.value in _NOT_SAID:
            return None
        raise


def _used(cards: Collection[_State], pids: Collection[int]) -> int | None:
    """Return the sum in MiB; None where a part is not known, or the numbers are not those of this system."""
    tables = [card.used for card in cards if card.used is not None]
    listed = {pid for table in tables for pid in table}
    if not pids or not tables or (listed and not any(processes.look(pid) for pid in listed)):
        return None  # in a container the driver speaks of the numbers outside
    parts = [table[pid] for table in tables for pid in pids if pid in table]
    known = [part for part in parts if part is not None]
    return sum(known) // _MIB if len(known) == len(parts) else None
