"""Garbage is collected on the main thread only."""

import gc
import threading
import weakref

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.collector import Collector


class Knot:
    """An object that only the collector frees; it notes on which thread that happens."""

    def __init__(self, freed_on: list[int]) -> None:
        self.itself = self
        weakref.finalize(self, lambda: freed_on.append(threading.get_ident()))


def test_cycles_made_on_another_thread_are_freed_on_this_one(qtbot: QtBot) -> None:
    """A thread that makes garbage never collects it, the timer here does."""
    gc.enable()
    owner = QObject()
    collector = Collector(owner)
    freed_on: list[int] = []
    try:
        worker = threading.Thread(target=lambda: [Knot(freed_on) for _ in range(3000)])
        worker.start()
        worker.join()
        assert freed_on == []
        qtbot.waitUntil(lambda: len(freed_on) == 3000, timeout=20_000)
        assert set(freed_on) == {threading.get_ident()}
    finally:
        collector.close()
        given_back = gc.isenabled()
        gc.disable()  # as it is for all tests here
    assert given_back
