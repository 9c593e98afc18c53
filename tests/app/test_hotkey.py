"""The key for "prepare now", on a real X server, and where there are no such keys."""

import threading
from collections.abc import Iterator

import pytest
from helpers.desktop import display, focused_window, needs, xdotool
from pytestqt.qtbot import QtBot

from app.hotkey import HotKey

KEYS = "ctrl+alt+shift+p"


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run an X server with a focused window, which is not ours."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    with display() as screen, focused_window(screen):
        monkeypatch.setenv("DISPLAY", screen)
        yield screen


def ready(qtbot: QtBot) -> HotKey:
    """Return a key that has been asked for."""
    key = HotKey()
    with qtbot.waitSignal(key.settled, timeout=20_000):
        key.start()
    return key


@pytest.mark.parametrize("locks", [(), ("Num_Lock",), ("Caps_Lock",), ("Num_Lock", "Caps_Lock")], ids="-".join)
@pytest.mark.real
@needs("Xvfb", "xdotool")
def test_it_is_heard_in_every_window(qtbot: QtBot, screen: str, locks: tuple[str, ...]) -> None:
    """Whatever the locks of the keyboard are; and stopping ends its thread at once."""
    key = ready(qtbot)
    assert key.state == "on"
    for lock in locks:
        xdotool(screen, "key", lock)
    with qtbot.waitSignal(key.pressed, timeout=20_000):
        xdotool(screen, "key", KEYS)
    key.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "hot-key"]
    with qtbot.assertNotEmitted(key.pressed, wait=200):
        xdotool(screen, "key", KEYS)


@pytest.mark.real
@needs("Xvfb", "xdotool")
def test_other_keys_are_not_its_business(qtbot: QtBot, screen: str) -> None:
    """Without all of the modifiers it is a letter like any other."""
    key = ready(qtbot)
    with qtbot.assertNotEmitted(key.pressed, wait=200):
        for other in ("p", "ctrl+p", "ctrl+alt+p", "ctrl+alt+shift+o"):
            xdotool(screen, "key", other)
    key.stop()


@pytest.mark.real
@needs("Xvfb", "xdotool")
@pytest.mark.usefixtures("screen")
def test_a_key_that_is_taken_is_said(qtbot: QtBot) -> None:
    """The second to ask does without."""
    first, second = ready(qtbot), ready(qtbot)
    assert second.state == "unavailable: another program has taken this key"
    second.stop()
    first.stop()


def test_where_there_are_no_such_keys_it_is_said(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Wayland a program cannot have one; the desktop binds a command instead."""
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    key = ready(qtbot)
    assert key.state == "unavailable: this desktop has no such keys for programs"
    key.stop()


def test_a_dead_screen_is_said(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is raised, and stopping is harmless."""
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delenv("XDG_SESSION_TYPE", raising=False)
    monkeypatch.setenv("DISPLAY", ":65123")
    key = ready(qtbot)
    assert key.state.startswith("unavailable: the screen")
    key.stop()
    key.stop()
