"""The course of overhead.py: which programs run when, what happens meanwhile, and what of it could not be measured.

All programs run side by side, so that each moment of a shared machine is the same for all: what counts is the ratio.
"""

import contextlib
import functools
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil

from diagnostics import overhead_programs as programs
from diagnostics import overhead_stage as stage
from diagnostics.loop_bench import server_in
from diagnostics.overhead_keys import KeyWindow, key_window
from diagnostics.overhead_probe import Cost, Spread, Unmeasured, spread
from diagnostics.overhead_programs import Program
from engine.clock import SystemClock

ENGINE, CLOSED, OPEN = "engine", "tray, window closed", "tray, window open"
LOOP, TRAY = "empty loop", "empty tray"
PROGRAMS = (LOOP, ENGINE, TRAY, CLOSED, OPEN)
QUIET, TYPING, SPEECH = "quiet", "typing", "speech"
CONDITIONS = (QUIET, TYPING, SPEECH)
SETTLE = 4.0  # s after each beginning: imports, first looks, the first sound
CALM = 65.0  # s without a key until all has calmed down
KEYS = 300  # for each measurement of how long they take
clock = SystemClock()
_T = TypeVar("_T")


@dataclass(frozen=True)
class Keys:
    """How long a key takes to reach the window in front, in milliseconds; `added`: with the engine less without."""

    without: Spread
    with_engine: Spread
    added: Spread


@dataclass
class Found:
    """What was found: `costs` by program and condition; None where `reasons` says why, by the same names."""

    seconds: float
    server: str = ""
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    load: list[float] = field(default_factory=list)  # of the last minute, before and after
    costs: dict[str, dict[str, Cost | None]] = field(
        default_factory=lambda: {name: dict.fromkeys(CONDITIONS) for name in PROGRAMS}
    )
    keys: Keys | None = None
    reasons: dict[str, str] = field(default_factory=dict)

    def reason(self, program: str, condition: str) -> str:
        """Say why this was not measured; empty: it was."""
        if self.costs[program][condition]:
            return ""
        return self.reasons.get(program) or self.reasons.get(condition) or "the program came up too late"

    def fail(self, error: Unmeasured, *names: str) -> None:
        """Note why something is missing; the first reason is the cause of others."""
        for name in names:
            self.reasons.setdefault(name, str(error))


def run(seconds: float, *, calm: float = CALM, only: tuple[str, ...] = PROGRAMS) -> Found:
    """Measure for so many seconds in each condition; `only` these programs."""
    found = Found(seconds)
    found.fail(Unmeasured("not asked for"), *(name for name in PROGRAMS if name not in only))
    if sys.platform != "linux":
        found.fail(Unmeasured("only Linux tells what the threads of a process do"), *PROGRAMS, "keys")
        return found
    found.load.append(psutil.getloadavg()[0])
    with tempfile.TemporaryDirectory(prefix="zat-bench-") as folder, server_in(Path(folder)) as (url, _, what):
        found.server = what
        course = Course(found, Path(folder), url, only)
        with course.on_a_screen():
            course.in_silence(calm)
            course.with_sound()
    found.load.append(psutil.getloadavg()[0])
    return found


class Course:
    """One run. Each step notes what it could not do, and the next one goes on without."""

    def __init__(self, found: Found, folder: Path, url: str, only: tuple[str, ...]) -> None:
        self._found, self._folder, self._url, self._only = found, folder, url, only
        self._display = ""
        self._window: KeyWindow | None = None
        self._round = 0

    @contextlib.contextmanager
    def on_a_screen(self) -> Iterator[None]:
        """Have a screen, with a panel and a window that takes keys, as far as this machine has them."""
        trays = {name for name in self._only if name in (TRAY, CLOSED, OPEN)}
        with ExitStack() as stack:
            try:
                self._display = stack.enter_context(stage.screen())
                window = stack.enter_context(key_window(self._display))
            except Unmeasured as error:
                self._found.fail(error, *trays, TYPING, "keys")
                self._only = tuple(name for name in self._only if name not in trays)
                yield
                return
            self._window = window
            if trays:
                try:
                    stack.enter_context(stage.panel(self._display, self._folder, window.has_tray))
                except Unmeasured as error:
                    self._found.fail(error, *trays)
                    self._only = tuple(name for name in self._only if name not in trays)
            yield

    def in_silence(self, calm: float) -> None:
        """Measure without a microphone: the keys' way, typing, and quiet."""
        before = self._latencies()
        with self._running({}, microphone=False) as (first, rest):
            during = self._latencies() if first else []
            running = rest()
            self._measure(running, TYPING, self._typing)
            threading.Event().wait(calm)
            self._measure(running, QUIET, contextlib.nullcontext)
        self._compare(before + self._latencies(), during)

    def with_sound(self) -> None:
        """Measure with a microphone that hears somebody speak."""
        try:
            with stage.sound() as env, self._running(env, microphone=True) as (_, rest):
                running = rest()
                length = self._found.seconds + 3 * SETTLE
                self._measure(running, SPEECH, lambda: stage.speech(env, self._folder, length))
        except Unmeasured as error:
            self._found.fail(error, SPEECH)

    @contextlib.contextmanager
    def _running(
        self, env: Mapping[str, str], *, microphone: bool
    ) -> Iterator[tuple[Program | None, Callable[[], list[Program]]]]:
        """Run the engine; yield it, and what runs the other programs and returns all."""
        self._round += 1
        env = {**env, **programs.desktop(self._display)} if self._display else env
        with ExitStack() as stack:

            def start(name: str) -> Program | None:
                if name not in self._only:
                    return None
                try:
                    return stack.enter_context(self._program(name, env, microphone=microphone))
                except Unmeasured as error:
                    self._found.fail(error, name)
                    return None

            engine = start(ENGINE)

            def rest() -> list[Program]:
                all_of_them = [engine, *(start(name) for name in PROGRAMS if name != ENGINE)]
                threading.Event().wait(SETTLE)
                if self._window:
                    self._window.focus()  # the status window took it
                return [program for program in all_of_them if program]

            yield engine, rest

    @contextlib.contextmanager
    def _program(self, name: str, env: Mapping[str, str], *, microphone: bool) -> Iterator[Program]:
        if name == LOOP:
            with programs.empty_loop() as program:
                yield program
        elif name == TRAY:
            with programs.empty_tray(self._display) as program:
                yield program
        else:
            words = ("engine",) if name == ENGINE else ("app",)
            folder = self._folder / f"{PROGRAMS.index(name)}-{self._round}"
            with programs.ours(name, words, folder, self._url, env, microphone=microphone) as program:
                if name == OPEN:
                    program.show_window()
                yield program

    def _typing(self) -> contextlib.AbstractContextManager[object]:
        if self._window is None:
            raise Unmeasured("there is no screen to type on")
        return stage.typing(self._display, self._found.seconds + 3 * SETTLE)

    def _measure(
        self, running: list[Program], condition: str, happens: Callable[[], contextlib.AbstractContextManager[object]]
    ) -> None:
        """Note what each program takes while something happens."""
        try:
            with happens():
                threading.Event().wait(SETTLE)
                began = clock.now()
                before = {program.name: self._try(program.read, program.name) for program in running}
                threading.Event().wait(self._found.seconds)
                after = {program.name: self._try(program.read, program.name) for program in running}
                took = clock.now() - began
        except Unmeasured as error:
            self._found.fail(error, condition)
            return
        for program in running:
            first, last = before[program.name], after[program.name]
            if first and last:
                of_it = functools.partial(program.cost, first, last, took)
                self._found.costs[program.name][condition] = self._try(of_it, program.name)

    def _try(self, measure: Callable[[], _T], name: str) -> _T | None:
        try:
            return measure()
        except Unmeasured as error:
            self._found.fail(error, name)
            return None

    def _latencies(self) -> list[float]:
        """Return how long keys take to arrive; nothing where that cannot be measured."""
        if self._window is None:
            return []
        try:
            return self._window.latencies(KEYS)
        except Unmeasured as error:
            self._found.fail(error, "keys")
            return []

    def _compare(self, without: list[float], during: list[float]) -> None:
        one, other = spread(without), spread(during)
        if one and other:
            self._found.keys = Keys(one, other, Spread(other.p50 - one.p50, other.p99 - one.p99))
        else:
            self._found.fail(Unmeasured("the engine did not run"), "keys")
