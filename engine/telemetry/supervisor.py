"""Keeps one sensor open on a thread of its own: opens it, watches it, opens it again after it failed.

It must never let the loop wait for a device, and never let a device that fails again and again be asked in a row.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from engine.clock import Clock
from engine.errors import SensorUnavailable

logger = logging.getLogger(__name__)

ON = "on"
OFF = "off"
STARTING = "unavailable: starting"  # for a moment after start()
CHECK_EVERY = 1.0  # s
FIRST_PAUSE = 1.0  # s, doubled after each failure
LONGEST_PAUSE = 60.0  # s; having stayed open for as long ends a row of failures
STOP_PATIENCE = 2.0  # s that stop() waits for a sensor that does not close


class SensorMissing(SensorUnavailable):
    """Nothing will change within seconds (a library is missing): worth another try only now and then."""


class OpenSensor(Protocol):
    """A sensor that is open; only the supervisor's thread calls it."""

    def check(self) -> None:
        """Raise SensorUnavailable if it does not work any more."""

    def close(self) -> None:
        """Give the device back; must not raise."""


class Supervisor:
    """Opens, watches and re-opens one sensor.

    `name` is used in logs. `opener` may block; it returns the open sensor or raises SensorUnavailable.
    start(), stop() and state belong to one thread, the loop's; start and stop may alternate and be repeated.
    """

    def __init__(self, name: str, opener: Callable[[], OpenSensor], clock: Clock) -> None:
        self._name = name
        self._opener = opener
        self._clock = clock
        self._lock = threading.Lock()  # held for assignments only
        self._state = OFF
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._logged: set[str] = set()

    @property
    def state(self) -> str:
        """Exactly "on", "off" or "unavailable: reason"."""
        return self._state

    def start(self) -> None:
        """Begin to open the sensor; returns at once."""
        if self._thread is not None:
            return
        # Each run has its own event: a thread left behind by stop() can never take itself for the new one.
        self._stopping = threading.Event()
        self._state = STARTING
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), name=f"{self._name} sensor", daemon=True
        )
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """Close the sensor; `wait` until it is closed, at most two seconds."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        with self._lock:
            self._stopping.set()
            self._state = OFF
        if wait:
            thread.join(STOP_PATIENCE)
        if wait and thread.is_alive():
            self._log_once("does not end; its thread is left behind until the system answers it")

    def _run(self, stopping: threading.Event) -> None:
        pauses = backoff()
        while not stopping.is_set():
            since = self._clock.now()
            try:
                self._live(stopping)
            except SensorUnavailable as error:
                reason, missing = str(error), isinstance(error, SensorMissing)
            except Exception as error:  # the boundary of a part: drivers raise what they like
                reason, missing = f"unexpected {type(error).__name__}", False
                logger.debug("%s sensor failed", self._name, exc_info=True)
            else:
                return
            self._report(stopping, f"unavailable: {reason}")
            self._log_once(f"unavailable: {reason}")
            if self._clock.now() - since > LONGEST_PAUSE:
                pauses = backoff()
            stopping.wait(LONGEST_PAUSE if missing else next(pauses))

    def _live(self, stopping: threading.Event) -> None:
        with contextlib.closing(self._opener()) as sensor:
            self._report(stopping, ON)
            try:
                while not stopping.wait(CHECK_EVERY):
                    sensor.check()
            except SensorUnavailable as error:
                self._report(stopping, f"unavailable: {error}")  # at once: a device that hangs may hang its close, too
                raise

    def _report(self, stopping: threading.Event, state: str) -> None:
        with self._lock:
            if not stopping.is_set():
                self._state = state

    def _log_once(self, what: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.warning("%s sensor %s", self._name, what)


def backoff() -> Iterator[float]:
    """Yield the pauses between tries in seconds: 1, 2, 4 … 60, and 60 from then on."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
