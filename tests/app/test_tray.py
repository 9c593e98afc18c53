"""The icon in the tray, on real desktops: a panel that embeds it, a service that is told of it, and none."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.desktop import act_until, display, needs, press_until
from helpers.tray_host import (
    Notifier,
    close_window,
    icon_place,
    panel,
    popup_heights,
    session_bus,
    window_manager,
    windows,
)
from helpers.tray_process import TrayProcess, tray_process
from helpers.wait import wait_until
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.actions import Actions
from app.tray import Tray
from engine.events import Snapshot, State

QUIET = {"KEYBOARD": "off", "MICROPHONE": "off", "SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
ENTRIES = [
    "Prepare now", "Show window", "Pause", "Pause for 15 minutes", "Pause for an hour", "Pause until resumed",
    "Microphone", "Run benchmark…", "Run stress test…", "Forget saved contexts…", "Forget what was learned…",
    "Settings…", "Start on login", "Open log folder", "About ZAT-SCS", "Quit",
]  # fmt: skip
# The patience of a minute's test; nobody else can set it.
IMPATIENT = "import sys, app.tray as t; t.PATIENCE = 2.0; from app.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """Run an X server with a window manager."""
    with display() as number, window_manager(number):
        yield number


@pytest.fixture(scope="module")
def bus() -> Iterator[str]:
    """Run a message bus."""
    with session_bus() as address:
        yield address


def labels(menu: QMenu) -> list[str]:
    """Return the visible entries, those of menus inside too, as they are read."""
    found = []
    for action in menu.actions():
        if action.isVisible() and action.text():
            found.append(action.text().replace("&", ""))
            if isinstance(inside := action.menu(), QMenu):
                found += labels(inside)
    return found


def place_of_icon(screen: str) -> tuple[int, int]:
    """Wait until the panel shows the icon; return its middle."""
    wait_until(lambda: icon_place(screen), what="the icon in the panel")
    place = icon_place(screen)
    assert place
    x, y, width, height = place
    assert width >= 16
    return x + width // 2, y + height // 2


def test_the_menu_has_everything(qtbot: QtBot) -> None:
    """In a fixed order, the state as a sentence above; each letter is used once."""
    actions = Actions()
    menu = QMenu()
    qtbot.addWidget(menu)
    actions.fill(menu)
    actions.render(Snapshot(at=0.0, state=State.COLD_IDLE))
    assert labels(menu) == ["Waiting for signs of a prompt; nothing is held back.", *ENTRIES]
    letters = [a.text().partition("&")[2][:1].lower() for a in menu.actions() if "&" in a.text() and a.isVisible()]
    assert len(set(letters)) == len(letters)


def test_the_menu_follows_the_state(qtbot: QtBot) -> None:
    """Paused: resume with what is left of it; prepared: give back; not set up: set up."""
    actions = Actions()
    menu = QMenu()
    qtbot.addWidget(menu)
    actions.fill(menu)
    actions.render(Snapshot(at=0.0, state=State.COLD_IDLE, paused=True, paused_for=840.0))
    assert "Resume (paused for another 14 min)" in labels(menu)
    assert "Pause" not in labels(menu)
    assert not actions.prepare.isEnabled()
    actions.render(Snapshot(at=0.0, state=State.SPECULATIVE_PREPARED, background_share=10))
    assert "Give the card back now" in labels(menu)
    assert "Set up…" not in labels(menu)
    actions.show_set_up(answered=False)
    assert "Set up…" in labels(menu)


def test_a_window_has_the_same_actions(qtbot: QtBot) -> None:
    """Whatever the tray's menu offers is reachable without a tray."""
    actions = Actions()
    menu = QMenu()
    qtbot.addWidget(menu)
    actions.fill(menu)
    offered = {a for a in menu.actions() if a.text() and not a.menu()} | set(actions.pauses)
    shown = {action for _, group in actions.menu_groups for action in group}
    assert offered - shown == {actions.status, actions.window}


@pytest.mark.usefixtures("qtbot")
def test_patience_without_a_tray_ends_once() -> None:
    """Thirty looks, one a second; then it goes on looking, and says no more."""
    tray = Tray(Actions())
    missed: list[bool] = []
    tray.missing.connect(lambda: missed.append(True))
    for _ in range(29):
        tray.look()
    assert missed == []
    for _ in range(60):
        tray.look()
    assert missed == [True]
    assert not tray.there
    assert not tray.tell("title", "text")


@pytest.mark.real
@needs("Xvfb", "openbox", "tint2", "xdotool")
def test_icon_and_menu_in_a_panel(tmp_path: Path, screen: str) -> None:
    """It is there, a right click opens the menu, an entry does what it says, and a left click opens the window."""
    with panel(screen, tmp_path), tray_process(tmp_path, screen, QUIET) as tray:
        x, y = place_of_icon(screen)
        tray.wait_snapshot("the engine", paused=False)
        there = ("mousemove", str(x), str(y))
        act_until(screen, (*there, "click", "3"), lambda: popup_heights(screen), what="the menu")
        press_until(screen, "a", lambda: len(popup_heights(screen)) == 2, what="the menu inside")  # of "Pause"
        press_until(screen, "u", lambda: tray.snapshot().get("paused"), what="the pause")
        act_until(screen, (*there, "click", "1"), lambda: "ZAT-SCS" in windows(screen), what="the window")
        assert tray.end() == (0, "")
    assert icon_place(screen) is None


@pytest.mark.real
@needs("Xvfb", "openbox", "tint2")
def test_a_panel_that_comes_late_or_again(tmp_path: Path, screen: str) -> None:
    """At login the panel is often not there yet, and panels crash: the icon is there whenever one is."""
    with tray_process(tmp_path, screen, QUIET) as tray:
        tray.wait_snapshot("the engine", paused=False)
        for number in range(2):
            with panel(screen, tmp_path / str(number)):
                place_of_icon(screen)
            wait_until(lambda: icon_place(screen) is None, what="the icon to be gone with its panel")
        assert windows(screen) == []
        assert tray.end() == (0, "")


@pytest.mark.real
@needs("Xvfb", "openbox", "tint2")
def test_without_a_tray_a_window_opens_and_says_why(tmp_path: Path, screen: str) -> None:
    """Its end is the end of the program, unless a tray has come up meanwhile."""
    with tray_process(tmp_path, screen, QUIET, program=(sys.executable, "-c", IMPATIENT)) as tray:
        wait_until(lambda: "ZAT-SCS" in windows(screen), what="the window")
        with panel(screen, tmp_path):
            place_of_icon(screen)
            close_window(screen, "ZAT-SCS")
            tray.wait_snapshot("it goes on", paused=False)
        wait_until(lambda: "ZAT-SCS" in windows(screen), what="the window again")
        close_window(screen, "ZAT-SCS")
        assert tray.wait() == (0, "")


@pytest.mark.real
@needs("Xvfb", "openbox", "dbus-daemon")
def test_icon_and_menu_over_the_message_bus(tmp_path: Path, screen: str, bus: str) -> None:
    """Modern desktops draw icon, tooltip and menu themselves: they read and click them over D-Bus."""
    with Notifier(bus) as desktop, tray_process(tmp_path, screen, QUIET, env=on(bus)) as tray:
        wait_until(lambda: desktop.items, what="the icon")
        wait_until(lambda: "threshold 0.65" in desktop.tooltip, what="the tooltip")
        assert desktop.tooltip.splitlines()[0] in ("ZAT-SCS: Waiting", "ZAT-SCS: No server")
        assert {(w, h) for w, h, _ in desktop.value("IconPixmap")} >= {(16, 16), (22, 22), (32, 32)}
        menu = desktop.menu()
        assert [label for label in menu if label in ENTRIES] == ENTRIES
        assert menu["Microphone"][1]["toggle-state"] == 0
        wait_until(lambda: any("held back" in label for label in desktop.menu()), what="the sentence")
        desktop.click("Pause for 15 minutes")
        tray.wait_snapshot("the pause", paused=True)
        wait_until(lambda: "Resume (paused for another 15 min)" in desktop.menu(), what="what is left of it")
        wait_until(lambda: desktop.tooltip.startswith("ZAT-SCS: Paused"), what="the tooltip")
        desktop.click("Resume (paused for another 15 min)")
        tray.wait_snapshot("the end of the pause", paused=False)
        switch_autostart(desktop, tray)
        desktop.activate()
        wait_until(lambda: "ZAT-SCS" in windows(screen), what="the window")
        desktop.click("Quit")
        assert tray.wait() == (0, "")


def switch_autostart(desktop: Notifier, tray: TrayProcess) -> None:
    """Click "Start on login" on and off again."""
    entry = tray.folder / "config" / "autostart" / "zat-scs.desktop"
    for state in (1, 0):
        desktop.click("Start on login")
        wait_until(lambda state=state: entry.exists() == bool(state), what="the entry")
        wait_until(lambda state=state: desktop.menu()["Start on login"][1]["toggle-state"] == state, what="the mark")


@pytest.mark.real
@needs("Xvfb", "openbox", "dbus-daemon")
def test_a_service_that_comes_late_or_again(tmp_path: Path, screen: str, bus: str) -> None:
    """An icon made before the service would never register with it; one that has been comes back by itself."""
    with tray_process(tmp_path, screen, QUIET, env=on(bus)) as tray:
        tray.wait_snapshot("the engine", paused=False)
        for _ in range(2):
            with Notifier(bus) as desktop:
                wait_until(lambda desktop=desktop: desktop.items, what="the icon")
                wait_until(lambda desktop=desktop: "ZAT-SCS" in desktop.tooltip, what="the tooltip")
        assert tray.end() == (0, "")


def on(bus: str) -> dict[str, str]:
    """Return the variable that leads to the bus."""
    return {"DBUS_SESSION_BUS_ADDRESS": bus}
