"""Fixtures for tests of the shells: widgets are drawn offscreen, and nobody's own folders are touched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.engine_process import user_folders


@pytest.fixture(scope="session", autouse=True)
def offscreen() -> Iterator[None]:
    """Let Qt draw into memory; programs that need a real screen are started with one of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QT_QPA_PLATFORM", "offscreen")
        yield


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep settings, data, state and autostart entries in a folder of the test; return it."""
    folder = tmp_path / "user"
    for variable, path in user_folders(folder).items():
        monkeypatch.setenv(variable, path)
    return folder
