"""The stress test's dialog: a process of its own, whose words are shown."""

import sys

import pytest
from PySide6.QtWidgets import QLabel, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.stress_dialog import StressDialog
from engine import itself


def dialog_of(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, script: str) -> StressDialog:
    """Open the dialog on a script that stands in for the program."""
    monkeypatch.setattr(itself, "told", lambda *words: [sys.executable, "-c", script, *words])
    dialog = StressDialog()
    qtbot.addWidget(dialog)
    return dialog


def state(dialog: StressDialog) -> str:
    """Return the line above the words."""
    return dialog.findChildren(QLabel)[0].text()


def words(dialog: StressDialog) -> str:
    """Return what the test said so far."""
    return dialog.findChildren(QPlainTextEdit)[0].toPlainText()


@pytest.mark.parametrize(("code", "verdict"), [(0, "Passed."), (1, "Failed, with exit code 1.")])
def test_what_it_says_and_how_it_ends_is_shown(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, code: int, verdict: str
) -> None:
    """Both streams, and the exit code in words."""
    script = f"import sys; print(sys.argv[1:]); print('oh', file=sys.stderr); sys.exit({code})"
    dialog = dialog_of(qtbot, monkeypatch, script)
    qtbot.waitUntil(lambda: state(dialog) == verdict, timeout=20_000)
    assert "['stress']" in words(dialog)
    assert "oh" in words(dialog)


def test_it_says_how_long_it_takes(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the README says."""
    dialog = dialog_of(qtbot, monkeypatch, "import time; time.sleep(60)")
    assert "a quarter of an hour" in state(dialog)
    dialog.reject()


def test_closing_it_ends_the_test(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Politely, so that it can give everything back."""
    script = "import signal, time; signal.signal(15, lambda *a: exit(print('back'))); print('go', flush=True)\n"
    dialog = dialog_of(qtbot, monkeypatch, script + "time.sleep(60)")
    qtbot.waitUntil(lambda: "go" in words(dialog), timeout=20_000)
    dialog.reject()
    assert "back" in words(dialog)


def test_a_program_that_cannot_be_started_is_said(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system's own reason."""
    monkeypatch.setattr(itself, "told", lambda *words: ["/nowhere/zat-scs", *words])
    dialog = StressDialog()
    qtbot.addWidget(dialog)
    qtbot.waitUntil(lambda: state(dialog).startswith("Ended: "), timeout=20_000)
