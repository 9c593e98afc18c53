"""The supervisor: opens a sensor off the loop's thread, watches it, opens it again; its state says what is true."""

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from helpers.clock import STEP
from helpers.wait import wait_until

from engine.clock import Clock, SystemClock
from engine.errors import SensorUnavailable
from engine.telemetry import supervisor as module
from engine.telemetry.supervisor import SensorMissing, Supervisor, backoff

Supervise = Callable[..., Supervisor]


class Device:
    """Opens as its script says: an exception is raised, None works. Keeps what was done to it."""

    def __init__(self, *script: Exception | None) -> None:
        self.script = list(script)
        self.done: list[str] = []
        self.broken: Exception | None = None
        self.threads: set[str] = set()

    def open(self) -> "Device":
        """Take the next line of the script; the last one stays."""
        self.done.append("open")
        self.threads.add(threading.current_thread().name)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if step is not None:
            raise step
        return self

    def check(self) -> None:
        """Fail if it was broken."""
        if self.broken is not None:
            error, self.broken = self.broken, None
            raise error

    def close(self) -> None:
        """Take note."""
        self.done.append("close")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_EVERY", 0.01)
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)


@pytest.fixture
def supervise() -> Iterator[Supervise]:
    """Make supervisors that are stopped at the end."""
    made = []

    def make(opener: Callable[[], object], clock: Clock | None = None) -> Supervisor:
        made.append(Supervisor("test", opener, clock or SystemClock()))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.stop()


def test_the_pauses_double_up_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """1, 2, 4, 8, 16, 32, 60, 60 …: a device that is gone costs nothing."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 1.0)
    assert list(itertools.islice(backoff(), 8)) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_opens_on_its_own_thread_and_closes_on_stop(supervise: Supervise) -> None:
    """On after start, off after stop, and the device was given back."""
    device = Device(None)
    supervisor = supervise(device.open)
    assert supervisor.state == "off"
    supervisor.start()
    wait_until(lambda: supervisor.state == "on")
    supervisor.stop()
    assert supervisor.state == "off"
    assert device.done == ["open", "close"]
    assert device.threads == {"test sensor"}
    assert not [thread for thread in threading.enumerate() if thread.name == "test sensor"]


def test_start_and_stop_may_be_repeated(supervise: Supervise) -> None:
    """A second start opens nothing twice; a second stop does nothing; a start after a stop opens again."""
    device = Device(None)
    supervisor = supervise(device.open)
    supervisor.stop()
    for _ in range(2):
        supervisor.start()
        supervisor.start()
        wait_until(lambda: supervisor.state == "on")
        supervisor.stop()
        supervisor.stop()
    assert device.done == ["open", "close"] * 2


def test_a_failed_open_is_tried_again(supervise: Supervise) -> None:
    """The reason is shown meanwhile, and it is logged once however often it comes."""
    gone = SensorUnavailable("no microphone found")
    device = Device(gone, gone, gone, None)
    supervisor = supervise(device.open)
    seen = []
    supervisor.start()
    wait_until(lambda: seen.append(supervisor.state) or supervisor.state == "on")
    assert set(seen) <= {"unavailable: starting", "unavailable: no microphone found", "on"}
    assert device.done == ["open"] * 4


def test_each_reason_is_logged_once(supervise: Supervise, caplog: pytest.LogCaptureFixture) -> None:
    """Three failures of one kind are one line."""
    gone = SensorUnavailable("no microphone found")
    supervisor = supervise(Device(gone, gone, SensorUnavailable("in use"), gone, None).open)
    with caplog.at_level(logging.WARNING):
        supervisor.start()
        wait_until(lambda: supervisor.state == "on")
    assert [record.getMessage() for record in caplog.records] == [
        "test sensor unavailable: no microphone found",
        "test sensor unavailable: in use",
    ]


def test_a_sensor_that_breaks_is_closed_and_opened_again(supervise: Supervise) -> None:
    """The failed one is given back before the next is opened."""
    device = Device(None)
    supervisor = supervise(device.open)
    supervisor.start()
    wait_until(lambda: supervisor.state == "on")
    device.broken = SensorUnavailable("went away")
    wait_until(lambda: device.done.count("open") == 2 and supervisor.state == "on")
    assert device.done == ["open", "close", "open"]


def test_what_nobody_foresaw_does_not_end_it(supervise: Supervise) -> None:
    """A driver that raises anything else is a sensor that is unavailable for now, too."""
    device = Device(None)
    supervisor = supervise(device.open)
    supervisor.start()
    wait_until(lambda: supervisor.state == "on")
    device.broken = ZeroDivisionError("inside a driver")
    wait_until(lambda: device.done == ["open", "close", "open"])
    wait_until(lambda: supervisor.state == "on")


def test_a_missing_library_is_tried_again_only_after_the_longest_pause(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the other pauses at 10 ms, the second try still comes a whole long pause after the first."""
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.5)
    times = []

    def opener() -> object:
        times.append(time.perf_counter())
        raise SensorMissing("the library is missing")

    supervisor = supervise(opener)
    supervisor.start()
    wait_until(lambda: len(times) == 2)
    assert times[1] - times[0] >= 0.5 - STEP
    assert supervisor.state == "unavailable: the library is missing"


def test_a_device_that_never_answers_holds_nobody_up(
    supervise: Supervise, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """start() and state return at once, stop() after its patience; the thread left behind closes what it gets late."""
    monkeypatch.setattr(module, "STOP_PATIENCE", 0.05)
    answer = threading.Event()
    device, other = Device(None), Device(None)
    openers = [other.open, lambda: answer.wait(20) and device.open()]

    def opener() -> object:
        return openers.pop()()

    supervisor = supervise(opener)
    supervisor.start()
    assert supervisor.state == "unavailable: starting"
    supervisor.stop()
    assert supervisor.state == "off"
    supervisor.start()
    wait_until(lambda: supervisor.state == "on")
    answer.set()
    wait_until(lambda: device.done == ["open", "close"])
    assert supervisor.state == "on"
    assert other.done == ["open"]
    assert "left behind" in caplog.text


def test_stop_does_not_wait_for_a_pause(supervise: Supervise, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopping while the next try is a minute away is prompt."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 60.0)
    supervisor = supervise(Device(SensorUnavailable("gone")).open)
    supervisor.start()
    wait_until(lambda: supervisor.state == "unavailable: gone")
    supervisor.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "test sensor"]


def test_a_long_time_open_ends_a_row_of_failures(supervise: Supervise, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it worked for longer than the longest pause, a failure is answered as quickly as the first one."""
    now = [0.0]
    clock = SystemClock()
    monkeypatch.setattr(clock, "now", lambda: now[0])
    device = Device(None)
    rows = []
    monkeypatch.setattr(module, "backoff", lambda: rows.append("new row") or itertools.repeat(0.01))
    supervisor = supervise(device.open, clock)
    supervisor.start()
    for worked, expected in ((30.0, 1), (70.0, 2)):
        wait_until(lambda: supervisor.state == "on")
        opened = device.done.count("open")
        now[0] += worked
        device.broken = SensorUnavailable("went away")
        wait_until(lambda opened=opened: device.done.count("open") > opened)
        assert len(rows) == expected
