"""Fixtures for tests of the shells: widgets are drawn offscreen, and nobody's own folders are touched."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_process import user_folders
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication


@pytest.fixture(scope="session", autouse=True)
def offscreen() -> Iterator[None]:
    """Let Qt draw into memory; programs that need a real screen are started with one of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QT_QPA_PLATFORM", "offscreen")
        yield


@pytest.fixture(scope="session", autouse=True)
def collected_between_tests_only() -> Iterator[None]:
    """Switch Python's own collecting off, as the program does: in the midst of painting it ends the process."""
    gc.collect()
    gc.freeze()  # what is there now stays, and need not be looked through after each test
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Collect what a test has left behind."""
    yield
    gc.collect()


@pytest.fixture
def large_type(qapp: QApplication) -> Iterator[None]:
    """Let the desktop have type of 20 points."""
    before = QFont(qapp.font())
    large = QFont(before)
    large.setPointSize(20)
    qapp.setFont(large)
    yield
    qapp.setFont(before)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep settings, data, state and autostart entries in a folder of the test; return it."""
    folder = tmp_path / "user"
    for variable, path in user_folders(folder).items():
        monkeypatch.setenv(variable, path)
    return folder
