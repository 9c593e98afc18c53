"""Editors of settings: each kind, round trips, and what is offered beside some."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app import editors, picker
from app.editors import Number, Secret, WholeNumber, editor
from app.picker import ProcessPicker, ServerTest, programs
from diagnostics.mock_server import StandIn
from engine.config.settings import Settings, spec, specs
from engine.config.spec import Spec, Value
from engine.orchestration.finder import Program, names_of


def values_of(one: Spec) -> list[Value]:
    """Return values that a setting may have: its default, its bounds, its choices, and others."""
    if one.kind is bool:
        return [True, False]
    if one.choices:
        return list(one.choices)
    if one.low is not None and one.high is not None:
        return [one.default, one.kind(one.low), one.kind(one.high)]
    return [one.default, "", "ein Text mit Ümläuten & Zeichen"]


@pytest.mark.parametrize("one", specs(), ids=lambda one: one.name)
def test_every_editor_gives_back_what_it_was_given(one: Spec, qtbot: QtBot) -> None:
    """In value and in type, for every setting there is, and it says when something changed."""
    made = editor(one)
    qtbot.addWidget(cast("QWidget", made))
    for value in values_of(one):
        made.set_value(value)
        assert (made.value(), type(made.value())) == (value, one.kind)
    first, second = values_of(one)[0], values_of(one)[1]
    made.set_value(first)
    if first != second:
        with qtbot.waitSignal(made.changed, timeout=1000):
            made.set_value(second)
    assert cast("QWidget", made).focusPolicy() & Qt.FocusPolicy.TabFocus


@given(value=st.floats(0.01, 8760.0))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_number_is_rounded(value: float, qtbot: QtBot) -> None:
    """Whatever stands in the file stands in the field, digit by digit."""
    made = Number(spec("CONTEXT_HOURS"))
    qtbot.addWidget(made)
    made.set_value(value)
    assert made.value() == value


def test_a_number_can_be_typed_beyond_its_bounds_but_not_stepped(qtbot: QtBot) -> None:
    """So that the message can say what is allowed, instead of a key that does nothing."""
    for made in (Number(spec("WEIGHT_KEY")), WholeNumber(spec("TELEMETRY_HZ"))):
        qtbot.addWidget(made)
        made.selectAll()
        qtbot.keyClicks(made, "77")
        assert made.value() == 77
        made.set_value(1)
        made.stepBy(-3)
        assert made._spec.low is not None
        assert made.value() >= made._spec.low


def test_numbers_are_shown_as_short_as_they_are(qtbot: QtBot) -> None:
    """0.05 and not twenty digits; with the unit."""
    made = Number(spec("INACTIVITY_TIMER"))
    qtbot.addWidget(made)
    made.set_value(0.05)
    assert made.text() == "0.05 s"
    made.set_value(1500.0)
    assert made.text() == "1500 s"


def test_the_wheel_scrolls_the_page_and_changes_nothing(qtbot: QtBot) -> None:
    """A number under the pointer must not change while somebody scrolls by."""
    for made in (Number(spec("WEIGHT_KEY")), WholeNumber(spec("TELEMETRY_HZ")), editors.Choice(spec("EVIDENCE"))):
        qtbot.addWidget(made)
        before = made.value()
        turn = QWheelEvent(
            QPointF(5, 5),
            QPointF(5, 5),
            QPoint(),
            QPoint(0, 120),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        made.wheelEvent(turn)
        assert not turn.isAccepted()
        assert made.value() == before


def test_a_secret_stays_behind_dots_until_asked_for(qtbot: QtBot) -> None:
    """Its button shows it and hides it again."""
    made = Secret(spec("API_KEY"))
    qtbot.addWidget(made)
    assert made._field.echoMode() is QLineEdit.EchoMode.Password
    made._show.click()
    assert made._field.echoMode() is QLineEdit.EchoMode.Normal
    made._show.click()
    assert made._field.echoMode() is QLineEdit.EchoMode.Password


def test_running_programs_are_offered_by_names_that_are_found_again(tmp_path: Path) -> None:
    """A script by its own name; no interpreter, no shell, not this process."""
    script = tmp_path / "train_it.py"
    script.write_text("print('up', flush=True); input()", "utf-8")
    command = ["sh", "-c", '"$0" "$1"; true', sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        job.stdout.readline()
        offered = programs()
        assert job.stdin is not None
        job.stdin.close()
    assert offered["train_it.py"] == 1
    assert not {"bash", "sh", "python", "pytest", "Xvfb", "llama-server"} & offered.keys()


@pytest.mark.parametrize(
    ("comm", "arguments", "name"),
    [
        ("fahclient", ("/usr/bin/fahclient", "--config", "x"), "fahclient"),
        ("python3", ("python3", "-u", "/srv/train.py", "--epochs", "3"), "train.py"),
        ("python3", ("python3", "-c", "pass"), ""),
        ("a-very-long-nam", ("/opt/a-very-long-name-of-a-program",), "a-very-long-name-of-a-program"),
    ],
)
def test_the_name_offered_is_one_that_the_finder_knows(comm: str, arguments: tuple[str, ...], name: str) -> None:
    """Whole, without a folder; nothing where the name would mean every program of a language."""
    assert picker._name(comm, arguments) == name
    assert not name or Program(name).fits(names_of(comm, arguments))


@pytest.mark.parametrize("name", ["bash", "zsh", "gnomeshell", "kwinwayland", "xorg", "systemd", "llamaserver"])
def test_shells_compositors_and_the_server_are_left_out(name: str) -> None:
    """Nobody wants them stopped."""
    assert picker._NEVER.fullmatch(name)


def test_the_picker_sifts_and_hands_over_a_name(qtbot: QtBot) -> None:
    """Type a part of it, take it by the keyboard."""
    dialog = ProcessPicker({"blender": 1, "train.py": 8})
    qtbot.addWidget(dialog)
    dialog.show()
    ok = dialog._buttons.button(dialog._buttons.StandardButton.Ok)
    assert not ok.isEnabled()
    qtbot.keyClicks(dialog._filter, "tra")
    assert [dialog._list.item(row).isHidden() for row in range(2)] == [True, False]
    assert ok.isEnabled()
    with qtbot.waitSignal(dialog.chosen, timeout=1000) as chosen:
        qtbot.keyClick(dialog._filter, Qt.Key.Key_Return)
    assert chosen.args == ["train.py"]
    assert not dialog.isVisible()


def test_a_hidden_choice_is_no_choice(qtbot: QtBot) -> None:
    """What the search hides cannot be taken."""
    dialog = ProcessPicker({"blender": 1, "train.py": 8})
    qtbot.addWidget(dialog)
    dialog._list.setCurrentRow(0)
    dialog._filter.setText("none of them")
    with qtbot.assertNotEmitted(dialog.chosen):
        dialog.accept()


def test_the_server_test_says_what_it_found(qtbot: QtBot) -> None:
    """A real answer, then a refusal."""
    button = ServerTest()
    qtbot.addWidget(button)
    said: list[tuple[str, bool]] = []
    button.said.connect(lambda text, good: said.append((text, good)))
    with StandIn() as server:
        button.ask(Settings(server_url=server.url))
        qtbot.waitUntil(lambda: len(said) == 2, timeout=10000)
    assert said[0][0] == "Asking…"
    assert said[1] == ("This is llama-server: prompts are seen, and contexts saved and restored.", True)
    button._task.wait()
    button.ask(Settings(server_url=server.url))
    qtbot.waitUntil(lambda: len(said) == 4, timeout=10000)
    assert not said[3][1]
    assert "refused" in said[3][0]
