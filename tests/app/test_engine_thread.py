"""The engine on a thread of Qt: snapshots arrive on the main thread, and nothing is left when it stops."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from helpers.fake_parts import FakeParts
from helpers.wait import wait_until
from PySide6.QtCore import QObject, QThread
from pytestqt.qtbot import QtBot

from app.engine_thread import EngineThread
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import Paused, Snapshot
from engine.loop import Engine

SETTINGS = Settings().replace({"TELEMETRY_HZ": 50})


class View(QObject):
    """Notes what it sees, and on which thread."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Snapshot] = []
        self.threads: set[QThread] = set()
        self.reasons: list[str] = []

    def see(self, snapshot: Snapshot) -> None:
        """Take a snapshot."""
        self.seen.append(snapshot)
        self.threads.add(QThread.currentThread())

    def fail(self, reason: str) -> None:
        """Take a failure."""
        self.reasons.append(reason)


class Rig:
    """An engine on its thread, with a view."""

    def __init__(self) -> None:
        self.parts = FakeParts()
        self.engine = Engine(SETTINGS, self.parts, SystemClock())
        self.thread = EngineThread(self.engine)
        self.view = View()
        self.thread.seen.connect(self.view.see)
        self.thread.failed.connect(self.view.fail)


@pytest.fixture
def rig(qtbot: QtBot) -> Iterator[Rig]:
    """Run the engine; no thread may be left behind."""
    before = {thread for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}
    rig = Rig()
    rig.thread.start()
    qtbot.waitUntil(lambda: len(rig.view.seen) > 2, timeout=20_000)
    yield rig
    assert rig.thread.stop()
    assert rig.thread.isFinished()
    wait_until(
        lambda: {t for t in threading.enumerate() if not isinstance(t, threading._DummyThread)} <= before,
        what="all threads to end",
    )


def test_snapshots_arrive_on_the_main_thread(rig: Rig) -> None:
    """Widgets may be touched there only."""
    assert rig.view.threads == {QThread.currentThread()}
    assert all(isinstance(snapshot, Snapshot) for snapshot in rig.view.seen)


def test_events_reach_the_engine(rig: Rig, qtbot: QtBot) -> None:
    """What is posted shows in a snapshot."""
    rig.thread.post(Paused(60.0))
    qtbot.waitUntil(lambda: rig.view.seen[-1].paused, timeout=20_000)


def test_stopping_gives_the_card_back_first(rig: Rig, qtbot: QtBot) -> None:
    """Before the sensors and the server's side are closed; the last snapshot says that all is over."""
    assert rig.thread.stop()
    qtbot.waitUntil(lambda: rig.view.seen[-1].closed, timeout=20_000)
    log = rig.parts.log
    assert log.index("share close") < next(i for i, line in enumerate(log) if line.startswith("link close"))


def test_an_engine_that_breaks_is_reported(rig: Rig, qtbot: QtBot, caplog: pytest.LogCaptureFixture) -> None:
    """The program goes on and says why; the card was given back."""

    def break_down() -> None:
        raise RuntimeError("a defect")

    rig.parts.shares[0].beat = break_down
    qtbot.waitUntil(lambda: rig.view.reasons == ["a defect"], timeout=20_000)
    assert "share close" in rig.parts.log
    assert "the engine failed" in caplog.text


EMITS = """
from PySide6.QtCore import QCoreApplication, QObject, Signal
class Source(QObject):
    seen = Signal(object)
class View(QObject):
    count = 0
    def see(self, value):
        self.count += 1
application = QCoreApplication([])
source, view = Source(), View()
source.seen.connect(view.see)
for _ in range(20_000):
    source.seen.emit(True)
    source.seen.emit(None)
print(view.count)
"""


def test_emitting_does_not_wear_python_out() -> None:
    """PySide6 6.12 loses a reference to True and None with each signal on Python 3.11, and dies of it in minutes."""
    emitted = subprocess.run([sys.executable, "-c", EMITS], capture_output=True, text=True, timeout=60, check=False)
    assert (emitted.returncode, emitted.stdout.strip(), emitted.stderr) == (0, "40000", "")
