"""What the actions do: each lands in the engine as an event, or opens what it names."""

import contextlib
import logging
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from helpers.fake_parts import FakeParts
from helpers.wait import wait_until
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QSessionManager
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QMessageBox
from pytestqt.qtbot import QtBot

from app import consent, main
from app.dialogs import key_in_words
from app.first_run import FirstRun
from app.host import Host
from app.shell import Shell
from engine import daemon
from engine.clock import SystemClock
from engine.config import store
from engine.events import (
    Event,
    ForgetRequested,
    Paused,
    PrepareRequested,
    ReleaseRequested,
    Resumed,
    SettingsChanged,
)
from engine.parts import RealParts


@dataclass
class Switch:
    """A switch for starting on login that is only a switch."""

    state: bool = False
    refreshed: int = 0
    broken: bool = False

    def is_on(self) -> bool:
        """Tell."""
        return self.state

    def on(self) -> None:
        """Switch on, unless it is broken."""
        if self.broken:
            raise OSError("the disk is full")
        self.state = True

    def off(self) -> None:
        """Switch off."""
        self.state = False

    def refresh(self) -> None:
        """Count it."""
        self.refreshed += 1


@dataclass
class Rig:
    """A shell with fakes behind its engine. `posted`: the events that reached the host."""

    qtbot: QtBot
    parts: FakeParts = field(default_factory=FakeParts)
    switch: Switch = field(default_factory=Switch)
    posted: list[Event] = field(default_factory=list)

    def start(self, *, on_login: bool = False, answered: bool = True, patience: float = 30.0, **env: str) -> Shell:
        """Start it, and wait for the first snapshot."""
        if answered:
            consent.remember()
        host = Host(parts=lambda _: self.parts)
        loaded = store.load(environ={f"ZAT_SCS_{name}": value for name, value in env.items()})
        self.shell = Shell(loaded, host, self.switch, on_login=on_login, patience=patience)
        post = host.post
        host.post = lambda event: (self.posted.append(event), post(event))  # type: ignore[method-assign]
        self.host = host
        with self.qtbot.waitSignal(host.seen, timeout=20_000):
            self.shell.start()
        return self.shell


@pytest.fixture
def rig(qtbot: QtBot) -> Iterator[Rig]:
    """Return a rig; all it opened is closed."""
    rig = Rig(qtbot)
    yield rig
    rig.shell.close()
    for window in QApplication.topLevelWidgets():
        window.close()
    QGuiApplication.setQuitOnLastWindowClosed(False)


def dialogs(kind: type[QDialog] = QDialog) -> list[QDialog]:
    """Return the dialogs that are open."""
    return [widget for widget in QApplication.topLevelWidgets() if isinstance(widget, kind) and widget.isVisible()]


def button(dialog: QDialog, text: str) -> QAbstractButton:
    """Return a button by what is written on it."""
    return next(b for b in dialog.findChildren(QAbstractButton) if b.text().replace("&", "") == text)


def test_it_rests_while_the_benchmark_measures_the_users_server(rig: Rig) -> None:
    """Its own engine would foresee and hold beside the benchmark's; afterwards it goes on."""
    shell = rig.start()
    shell._make_room(True)
    assert daemon.running(store.state_folder()) is None
    with rig.qtbot.waitSignal(rig.host.seen, timeout=20_000):
        shell._make_room(False)
    assert daemon.running(store.state_folder()) == os.getpid()


def test_actions_become_events(rig: Rig) -> None:
    """Prepare, give back, each pause, resume: the engine hears of each by an event, and of nothing else."""
    shell = rig.start()
    actions = shell.actions
    actions.prepare.trigger()
    actions.give_back.trigger()
    for pause in actions.pauses:
        pause.trigger()
    actions.resume.trigger()
    pauses = [Paused(900.0), Paused(3600.0), Paused(None)]
    assert rig.posted == [PrepareRequested(), ReleaseRequested(), *pauses, Resumed()]


def test_the_key_prepares(rig: Rig) -> None:
    """The one that works in every window does what the menu's entry does."""
    rig.start().hotkey.pressed.emit()
    assert rig.posted == [PrepareRequested()]


def test_the_state_is_shown(rig: Rig, qtbot: QtBot) -> None:
    """Snapshots reach the menu, and the window if there is one, which then shows what went before too."""
    shell = rig.start()
    qtbot.waitUntil(lambda: "job" in shell.actions.status.text(), timeout=20_000)
    shell.actions.window.trigger()
    assert shell.window is not None
    assert shell.window.isVisible()
    assert shell.window.history.last is not None


def test_the_microphone_is_switched_and_remembered(rig: Rig) -> None:
    """In the engine at once, and in the user's file."""
    shell = rig.start()
    assert shell.actions.microphone.isChecked()
    shell.actions.microphone.trigger()
    assert [event.settings.microphone for event in rig.posted if isinstance(event, SettingsChanged)] == [False]
    assert not store.load(environ={}).settings.microphone
    assert not shell.actions.microphone.isChecked()


def test_a_microphone_that_is_set_from_outside_is_locked(rig: Rig) -> None:
    """Its mark says what is so."""
    microphone = rig.start(MICROPHONE="off").actions.microphone
    assert (microphone.isChecked(), microphone.isEnabled()) == (False, False)


def test_a_file_that_cannot_be_written_changes_nothing(rig: Rig) -> None:
    """The mark goes back to what is so."""
    shell = rig.start()
    store.config_file().parent.mkdir(parents=True)
    store.config_file().write_text("no = = TOML", "utf-8")
    shell.actions.microphone.trigger()
    assert shell.actions.microphone.isChecked()
    assert rig.posted == []


def test_starting_on_login_is_switched(rig: Rig) -> None:
    """On and off; an entry that cannot be written is said, and the mark shows what is so."""
    shell = rig.start()
    assert rig.switch.refreshed == 1
    shell.actions.autostart.trigger()
    assert rig.switch.state
    shell.actions.autostart.trigger()
    assert not rig.switch.state
    rig.switch.broken = True
    shell.actions.autostart.trigger()
    assert not shell.actions.autostart.isChecked()


def test_nothing_is_sensed_before_it_is_answered(rig: Rig, qtbot: QtBot) -> None:
    """The first start asks; the answer goes into the engine, the file and the menu."""
    shell = rig.start(answered=False)
    assert rig.parts.keys.state == "off"
    assert shell.actions.setup.isVisible()
    assert shell.actions.status.text().startswith("Not set up yet. ")
    qtbot.waitUntil(lambda: len(dialogs(FirstRun)) == 1, timeout=20_000)
    dialogs(FirstRun)[0].accept()
    assert [event.settings.keyboard for event in rig.posted if isinstance(event, SettingsChanged)] == [True]
    wait_until(lambda: rig.parts.keys.state == "on", what="the keyboard to be opened")
    assert not shell.actions.setup.isVisible()
    assert not shell.actions.microphone.isChecked()


def test_the_login_asks_nothing_until_it_is_clicked(rig: Rig, qtbot: QtBot) -> None:
    """A click on the waiting icon opens the questions, and later ones the window."""
    shell = rig.start(answered=False, on_login=True)
    assert dialogs() == []
    shell.tray.opened.emit()
    qtbot.waitUntil(lambda: len(dialogs(FirstRun)) == 1, timeout=20_000)
    shell.tray.opened.emit()
    assert len(dialogs(FirstRun)) == 1
    dialogs(FirstRun)[0].accept()
    shell.tray.opened.emit()
    assert shell.window is not None


def test_new_settings_do_not_go_round_the_first_questions(rig: Rig) -> None:
    """They are kept, but what needs an answer stays off until it is given."""
    shell = rig.start(answered=False, on_login=True)
    shell.preferences.take(store.load(environ={}).settings.replace({"WEIGHT_KEY": 0.5}))
    new = next(event.settings for event in rig.posted if isinstance(event, SettingsChanged))
    assert (new.weight_key, new.keyboard, new.microphone, new.keep_context) == (0.5, False, False, False)


def test_dialogs_open_once(rig: Rig) -> None:
    """About, forget, settings, benchmark: asked for twice, it is the same one."""
    shell = rig.start()
    for action in (shell.actions.about, shell.actions.forget, shell.actions.settings, shell.actions.benchmark):
        action.trigger()
        action.trigger()
        assert len(dialogs()) == 1, action.text()
        dialogs()[0].close()
        action.trigger()
        assert len(dialogs()) == 1
        dialogs()[0].close()


def test_settings_that_are_applied_reach_the_engine(rig: Rig) -> None:
    """By the dialog's one signal."""
    shell = rig.start()
    shell.actions.settings.trigger()
    changed = store.load(environ={}).settings.replace({"WEIGHT_KEY": 0.5})
    dialogs()[0].applied.emit(changed)  # type: ignore[attr-defined]
    assert rig.posted == [SettingsChanged(changed)]


def test_forgetting_asks_first(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """Cancel changes nothing; Delete says how many there were."""
    caplog.set_level(logging.INFO)
    shell = rig.start()
    shell.actions.forget.trigger()
    button(dialogs(QMessageBox)[0], "Cancel").click()
    assert "Deleted" not in caplog.text
    shell.actions.forget.trigger()
    button(dialogs(QMessageBox)[0], "Delete").click()
    assert "Deleted: 0." in caplog.text


def test_forgetting_habits_asks_first(rig: Rig, own_folders: Path) -> None:
    """Cancel changes nothing; Forget tells the engine, and the file goes even where there is none."""
    del own_folders
    shell = rig.start()
    learned = RealParts.of_user(SystemClock()).learned
    learned.parent.mkdir(parents=True, exist_ok=True)
    learned.write_text("{}", "ascii")
    shell.actions.forget_habits.trigger()
    button(dialogs(QMessageBox)[0], "Cancel").click()
    assert (rig.posted, learned.exists()) == ([], True)
    shell.actions.forget_habits.trigger()
    button(dialogs(QMessageBox)[0], "Forget").click()
    assert (rig.posted, learned.exists()) == ([ForgetRequested()], False)


def test_the_log_folder_opens(rig: Rig, own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever the desktop shows folders by."""
    opened: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(QUrl.toLocalFile(url)))
    rig.start().actions.logs.trigger()
    assert opened == [str(own_folders / "state" / "zat-scs" / "log")]


def test_without_a_tray_the_window_stands_in(rig: Rig, qtbot: QtBot) -> None:
    """After its patience is over it opens, says why, and closing it ends the program."""
    shell = rig.start(patience=1.0)
    qtbot.waitUntil(lambda: shell.window is not None and shell.window.isVisible(), timeout=20_000)
    assert QGuiApplication.quitOnLastWindowClosed()
    shell.tray.appeared.emit()
    assert not QGuiApplication.quitOnLastWindowClosed()


def test_a_stress_test_that_is_not_there_is_not_offered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry says so."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    stress = rig.start().actions.stress
    assert not stress.isEnabled()
    assert stress.toolTip() == "The stress test is not part of this version"


def test_a_logout_gives_the_card_back(rig: Rig) -> None:
    """Before the session ends; the session is not to start us again, that is the login's business."""
    hints: list[QSessionManager.RestartHint] = []

    manager = types.SimpleNamespace(setRestartHint=hints.append)  # Qt makes none but at a logout
    rig.start().on_logout(manager)  # type: ignore[arg-type]
    assert hints == [QSessionManager.RestartHint.RestartNever]
    assert rig.posted == [ReleaseRequested()]


def test_how_to_prepare_by_a_key_is_said(rig: Rig) -> None:
    """The key where there is one, else the command to bind and why."""
    shell = rig.start()
    assert key_in_words(shell, "on") == "Ctrl+Alt+Shift+P prepares now, in every window."
    assert "“zat-scs prepare”" in key_in_words(shell, "unavailable: no X server")
    assert "(no X server)." in key_in_words(shell, "unavailable: no X server")


def test_the_menu_names_the_key_only_where_it_works_everywhere(rig: Rig) -> None:
    """Where it would be heard in our own window only, it is not promised."""
    shell = rig.start()
    for state, shown in (("on", "Ctrl+Alt+Shift+P"), ("unavailable: another program has taken this key", "")):
        shell.hotkey.state = state
        shell.hotkey.settled.emit()
        assert shell.actions.prepare.shortcut().toString() == shown


def test_the_log_lies_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it in the file; of it, on stderr, warnings of ours only: Qt's chatter would be stray output."""
    with main.logging_to(tmp_path / "log"):
        logging.getLogger("engine").info("begun")
        logging.getLogger("engine").warning("careful")
        logging.getLogger("qt").warning("a plugin does not support something")
    lines = (tmp_path / "log" / "zat-scs.log").read_text("utf-8").splitlines()
    assert [line.split(" ", 2)[2].split(None, 1)[1] for line in lines] == [
        "begun",
        "careful",
        "a plugin does not support something",
    ]
    assert capsys.readouterr().err.count("\n") == 1


def test_a_defect_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error that nobody caught, as in a slot of Qt, can be found in the log; Python's own hook comes back."""
    before = sys.excepthook
    with main.logging_to(tmp_path / "log"):
        sys.excepthook(ValueError, ValueError("odd"), None)
    assert sys.excepthook is before
    assert "ValueError: odd" in (tmp_path / "log" / "zat-scs.log").read_text("utf-8")
    assert "a defect" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is said once."""
    (tmp_path / "log").write_text("a file where the folder should be", "utf-8")
    with main.logging_to(tmp_path / "log"), contextlib.suppress(ValueError):
        logging.getLogger("engine").info("begun")
    assert "no log is written" in capsys.readouterr().err
