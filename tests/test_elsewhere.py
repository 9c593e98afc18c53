"""The list of tests that other systems cannot run names tests that there are."""

from pathlib import Path

from helpers import elsewhere


def test_all_that_is_named_is_there() -> None:
    """Each file, and in it a test or a class of tests for each beginning."""
    for name, kinds in elsewhere._NEEDED.items():
        text = (Path(__file__).parent / name).read_text("utf-8")
        for beginnings in kinds.values():
            for beginning in filter(None, beginnings):
                assert f"def {beginning}" in text or f"class {beginning}" in text, f"{name}: {beginning}"


def test_what_each_system_leaves_out() -> None:
    """Linux nothing, macOS what is Linux' own, Windows more."""
    assert elsewhere.not_for_here("linux") == []
    mac, windows = elsewhere.not_for_here("darwin"), elsewhere.not_for_here("win32")
    assert "engine/telemetry/test_bus.py" in mac
    assert "engine/test_daemon.py" not in mac
    assert set(mac) < set(windows)
