"""The benchmark dialog: it starts the real command line, shows progress and figures, and leaves nothing running."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from app import benchmark_dialog
from app.benchmark_dialog import BenchmarkDialog
from engine import daemon, itself
from engine.config.settings import Settings

FIGURES = {"server": "stand-in", "tokens": 3000, "runs": 3, "cold_ms": 1843.0, "prepared_ms": 61.2, "warm_ms": 58.9,
           "cold_over_prepared": 30.11, "prepared_over_warm": 1.039, "samples": {}}  # fmt: skip
NOTHING = {**dict.fromkeys(FIGURES), "server": "stand-in"}


@pytest.fixture
def dialog(qtbot: QtBot) -> BenchmarkDialog:
    """Return the dialog, shown."""
    made = BenchmarkDialog(Settings(server_url="http://127.0.0.1:9"))
    qtbot.addWidget(made)
    made.show()
    return made


def acting(dialog: BenchmarkDialog, script: str) -> None:
    """Let a few lines of Python play the benchmark."""
    dialog.command = (sys.executable, "-c", "import json, sys, time\n" + script)


def test_it_runs_the_benchmark_of_this_program(dialog: BenchmarkDialog) -> None:
    """As a user would, as JSON."""
    assert dialog.command == tuple(itself.told("benchmark", "--json"))


def test_progress_then_figures(dialog: BenchmarkDialog, qtbot: QtBot) -> None:
    """Steps on stderr, one object on stdout."""
    acting(
        dialog, f"print('progress 2 9', file=sys.stderr, flush=True); sys.stdin.read(1); print({json.dumps(FIGURES)!r})"
    )
    dialog._start.click()
    qtbot.waitUntil(lambda: dialog._progress.value() == 2, timeout=10000)
    assert dialog._progress.maximum() == 9
    assert not dialog._start.isEnabled()
    assert dialog._stop.isEnabled()
    dialog._process.write(b"x")
    qtbot.waitUntil(lambda: dialog._figures is not None, timeout=10000)
    assert "3000 tokens, 3 runs each" in dialog._state.text()
    assert dialog._copy.isEnabled()
    spoken = dialog._bars.accessibleName()
    for words in ("Cold: 1,843 ms", "Prepared: 61.2 ms", "30.1 times as fast as cold", "1.04 times the time of warm"):
        assert words in spoken


def answer(dialog: BenchmarkDialog, role: QMessageBox.ButtonRole) -> None:
    """Press a button of the question."""
    assert dialog._question is not None
    next(one for one in dialog._question.buttons() if dialog._question.buttonRole(one) is role).click()


def test_the_configured_server_is_measured_once_that_was_agreed_to(dialog: BenchmarkDialog, qtbot: QtBot) -> None:
    """What will happen to it is said first; it goes to the benchmark with the answer, which nobody else could give."""
    assert "http://127.0.0.1:9" in dialog._real.text()
    told: list[bool] = []
    dialog.measuring.connect(told.append)
    dialog._real.setChecked(True)
    acting(dialog, f"f = {FIGURES!r}; f['server'] = ' '.join(sys.argv[1:]); print(json.dumps(f))")
    dialog._start.click()
    assert not dialog.running
    assert dialog._question is not None
    for words in ("sends prompts of its own to slot 0", "saved before and restored after", "it is lost"):
        assert words in dialog._question.informativeText()
    answer(dialog, QMessageBox.ButtonRole.AcceptRole)
    qtbot.waitUntil(lambda: dialog._figures is not None, timeout=10000)
    assert dialog._figures is not None
    assert dialog._figures["server"] == "--server http://127.0.0.1:9 --yes"
    assert told == [True, False]  # the engine rests meanwhile


def test_who_declines_starts_nothing(dialog: BenchmarkDialog) -> None:
    """And may choose otherwise."""
    dialog._real.setChecked(True)
    acting(dialog, "print('{}')")
    dialog._start.click()
    answer(dialog, QMessageBox.ButtonRole.RejectRole)
    assert not dialog.running
    assert dialog._state.text() == ""
    assert dialog._start.isEnabled()


@pytest.mark.parametrize("ours", [True, False])
def test_only_an_engine_elsewhere_is_in_the_way(
    dialog: BenchmarkDialog, monkeypatch: pytest.MonkeyPatch, *, ours: bool
) -> None:
    """The benchmark would refuse; the tray's own engine rests meanwhile."""
    dialog._real.setChecked(True)
    monkeypatch.setattr(daemon, "running", lambda _: os.getpid() if ours else 1)
    dialog._start.click()
    assert (dialog._question is not None) is ours
    assert not dialog.running
    assert ("outside of this program would take part" in dialog._state.text()) is not ours


def test_a_benchmark_of_the_users_server_that_cannot_start_makes_room_again(
    dialog: BenchmarkDialog, qtbot: QtBot
) -> None:
    """Else no engine would run any more."""
    told: list[bool] = []
    dialog.measuring.connect(told.append)
    dialog.command = ("/no/such/program",)
    dialog._run_as_guest()
    qtbot.waitUntil(lambda: told == [True, False], timeout=10000)


def test_at_the_end_of_the_program_it_may_tidy_up(dialog: BenchmarkDialog, qtbot: QtBot, tmp_path: Path) -> None:
    """It is not killed in the midst, and no engine is begun for it any more."""
    told: list[bool] = []
    dialog.measuring.connect(told.append)
    tidied = tmp_path / "tidied"
    tidy = f"import pathlib, signal\ndef end(*_):\n    pathlib.Path({str(tidied)!r}).touch(); sys.exit()\n"
    acting(dialog, tidy + "signal.signal(15, end); print('progress 1 9', file=sys.stderr, flush=True); time.sleep(60)")
    dialog._run_as_guest()
    qtbot.waitUntil(lambda: dialog._progress.value() == 1, timeout=10000)
    dialog._leave()
    assert tidied.exists()
    assert not dialog.running
    assert told == [True]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("sys.exit('no model fits')", "ended without a result. no model fits"),
        (f"print('two prompts', file=sys.stderr); print({json.dumps(NOTHING)!r}); sys.exit(1)", "two prompts"),
    ],
)
def test_what_went_wrong_is_said(script: str, message: str, dialog: BenchmarkDialog, qtbot: QtBot) -> None:
    """In the benchmark's own last words."""
    acting(dialog, script)
    dialog._start.click()
    qtbot.waitUntil(lambda: message in dialog._state.text(), timeout=10000)
    assert dialog._start.isEnabled()


def test_a_benchmark_that_cannot_start(dialog: BenchmarkDialog, qtbot: QtBot) -> None:
    """It is said, and can be tried again."""
    dialog.command = ("/no/such/program",)
    dialog._start.click()
    qtbot.waitUntil(lambda: "cannot be started" in dialog._state.text(), timeout=10000)
    assert dialog._start.isEnabled()


@pytest.mark.parametrize("by", ["_stop", "close"])
def test_cancel_and_close_leave_nothing_running(
    by: str, dialog: BenchmarkDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the benchmark does not listen."""
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)\n"
    acting(dialog, deaf + "print('progress 1 9', file=sys.stderr, flush=True); time.sleep(60)")
    monkeypatch.setattr(benchmark_dialog, "_PATIENCE", 200)
    dialog._start.click()
    qtbot.waitUntil(lambda: dialog._progress.value() == 1, timeout=10000)
    dialog._stop.click() if by == "_stop" else dialog.close()
    qtbot.waitUntil(lambda: not dialog.running, timeout=10000)
    assert dialog._state.text() == "Cancelled."


def test_copy_and_save(dialog: BenchmarkDialog, tmp_path: Path) -> None:
    """Both hold the figures as they were measured; what cannot be written is said."""
    assert not dialog._copy.isEnabled()
    dialog.show_figures(FIGURES)
    dialog._copy.click()
    assert json.loads(QGuiApplication.clipboard().text()) == FIGURES
    dialog.save(tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text("utf-8")) == FIGURES
    dialog.save(tmp_path)
    assert "Not written" in dialog._state.text()


@pytest.mark.parametrize("figures", [None, NOTHING, FIGURES])
def test_the_bars_paint_what_there_is(figures: dict[str, Any] | None, dialog: BenchmarkDialog) -> None:
    """Three bars, or a word that says that there are none."""
    dialog._bars.draw(figures)
    assert not dialog._bars.grab().isNull()
    assert bool(dialog._bars._rows) is (figures is FIGURES)
    assert dialog._bars.accessibleName()
