"""The settings dialog: it shows exactly what is declared, refuses what is not allowed, and keeps comments."""

import inspect
import re
from pathlib import Path
from typing import Any, cast

import pytest
from PySide6.QtWidgets import QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app import editors, setting_row, settings_dialog
from app.picker import ProcessPicker
from app.settings_dialog import SettingsDialog
from diagnostics.mock_server import StandIn
from engine.config import store
from engine.config.settings import Settings, specs


def opened(qtbot: QtBot, path: Path, **more: Any) -> SettingsDialog:
    """Return a dialog on this file."""
    dialog = SettingsDialog(store.load(path, environ=more.get("environ", {}), sets=more.get("sets", ())))
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def says(widget: QWidget) -> str:
    """Return all texts that are to be seen, or would be on the page turned to."""
    return "\n".join(label.text() for label in widget.findChildren(QLabel) if not label.isHidden())


def test_it_shows_exactly_what_is_declared(qtbot: QtBot, tmp_path: Path) -> None:
    """Each setting once, in its group, with title, help and value."""
    dialog = opened(qtbot, tmp_path / "settings.toml")
    assert list(dialog._rows) == [spec.name for spec in specs()]
    groups = list(dict.fromkeys(spec.group for spec in specs()))
    assert [dialog._nav.item(row).text() for row in range(dialog._nav.count())] == groups
    for spec in specs():
        said = says(dialog._rows[spec.name])
        assert spec.title in said
        assert spec.help in said
        assert f"In settings.toml: {spec.name}." in said
        assert dialog.editor(spec.name).value() == spec.default
        assert ("reopens" in said) is not spec.live


def test_it_names_no_setting() -> None:
    """A new declaration appears by itself; nothing here has to be changed for it."""
    source = "".join(inspect.getsource(module) for module in (settings_dialog, setting_row, editors))
    assert [spec.name for spec in specs() if re.search(rf"\b{spec.name}\b", source)] == []


def test_apply_writes_keeps_comments_and_tells(qtbot: QtBot, tmp_path: Path) -> None:
    """Only what was changed; the new settings go out at once."""
    path = tmp_path / "settings.toml"
    path.write_text("# mine\nLAMBDA_DECAY = 0.2 # slow\n", "utf-8")
    dialog = opened(qtbot, path)
    assert not dialog._apply.isEnabled()
    dialog.editor("LAMBDA_DECAY").set_value(0.3)
    dialog.editor("KEYBOARD").set_value(False)
    with qtbot.waitSignal(dialog.applied) as applied:
        dialog._apply.click()
    assert applied.args == [Settings(lambda_decay=0.3, keyboard=False)]
    assert path.read_text("utf-8") == "# mine\nLAMBDA_DECAY = 0.3 # slow\nKEYBOARD = false\n"
    assert not dialog._apply.isEnabled()
    assert "✓ Applied" in says(dialog)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WEIGHT_KEY", 2.0, "expected a number from 0 to 1"),
        ("TELEMETRY_HZ", 0, "expected a whole number from 1 to 50"),
        ("SERVER_URL", "nonsense", "expected an address such as"),
        ("BACKGROUND_PROCESS_NAME", "/bin/x", "expected a program's name without a path"),
    ],
)
def test_a_bad_value_is_said_beside_its_field_and_not_written(
    name: str, value: Any, message: str, qtbot: QtBot, tmp_path: Path
) -> None:
    """Neither the button nor a call writes anything."""
    path = tmp_path / "settings.toml"
    dialog = opened(qtbot, path)
    dialog.editor("LAMBDA_DECAY").set_value(0.3)
    dialog.editor(name).set_value(value)
    row = dialog._rows[name]
    assert message in row._error.text()
    assert not row._error.isHidden()
    assert [other for other, each in dialog._rows.items() if not each._error.isHidden()] == [name]
    assert not dialog._apply.isEnabled()
    with qtbot.assertNotEmitted(dialog.applied):
        dialog.apply()
    assert not path.exists()
    assert "✗" in "".join(dialog._nav.item(index).text() for index in range(dialog._nav.count()))
    row.reset()
    assert row._error.isHidden()
    assert dialog._apply.isEnabled()


def test_a_rule_that_several_share_stands_beside_what_was_changed(qtbot: QtBot, tmp_path: Path) -> None:
    """In the words of the dialog, and gone when it is kept."""
    dialog = opened(qtbot, tmp_path / "settings.toml")
    dialog.editor("MIN_THRESHOLD").set_value(0.8)
    text = dialog._rows["MIN_THRESHOLD"]._error.text()
    assert "“Lowest threshold” ≤ “Threshold at start” ≤ “Highest threshold”" in text
    assert dialog._rows["MAX_THRESHOLD"]._error.isHidden()
    assert not dialog._apply.isEnabled()
    dialog.editor("INITIAL_THRESHOLD").set_value(0.85)
    assert dialog._rows["MIN_THRESHOLD"]._error.isHidden()
    assert dialog._apply.isEnabled()


def test_what_is_set_from_outside_is_locked_with_the_reason(qtbot: QtBot, tmp_path: Path) -> None:
    """It shows what is in force, cannot be changed or reset, and is never written."""
    path = tmp_path / "settings.toml"
    dialog = opened(qtbot, path, environ={"ZAT_SCS_WEIGHT_AUD": "0.3"}, sets=["KEYBOARD=off"])
    for name, source in (("WEIGHT_AUD", "ZAT_SCS_WEIGHT_AUD"), ("KEYBOARD", "--set KEYBOARD")):
        row = dialog._rows[name]
        assert f"Locked: set from outside by {source}" in says(row)
        assert not cast("QWidget", row.editor).isEnabled()
    dialog.reset_all()
    assert dialog.editor("WEIGHT_AUD").value() == 0.3
    dialog.editor("LAMBDA_DECAY").set_value(0.3)
    dialog.apply()
    assert path.read_text("utf-8") == "LAMBDA_DECAY = 0.3\n"


def test_reset_one_and_all(qtbot: QtBot, tmp_path: Path) -> None:
    """Back to the defaults, which are then taken out of the file."""
    path = tmp_path / "settings.toml"
    path.write_text('LAMBDA_DECAY = 0.2\nEVIDENCE = "seed"\n', "utf-8")
    dialog = opened(qtbot, path)
    dialog._rows["LAMBDA_DECAY"]._reset.click()
    assert dialog.changes() == {"LAMBDA_DECAY": 0.1}
    dialog._reset.click()
    dialog.apply()
    assert path.read_text("utf-8") == ""


def test_a_file_that_cannot_be_written_is_said(qtbot: QtBot, tmp_path: Path) -> None:
    """Nothing is applied, and the change stays in its field."""
    dialog = opened(qtbot, tmp_path)  # a folder
    dialog.editor("LAMBDA_DECAY").set_value(0.3)
    with qtbot.assertNotEmitted(dialog.applied):
        dialog.apply()
    assert "not written" in says(dialog)
    assert dialog.changes() == {"LAMBDA_DECAY": 0.3}


def test_mistakes_in_the_file_are_shown(qtbot: QtBot, tmp_path: Path) -> None:
    """Above everything, since the defaults are in force instead."""
    path = tmp_path / "settings.toml"
    path.write_text("WEIGHT_KEY = 7\n", "utf-8")
    assert "WEIGHT_KEY = 7.0 is not allowed" in says(opened(qtbot, path))


def test_closing_forgets_what_was_not_applied(qtbot: QtBot, tmp_path: Path) -> None:
    """Opened again, it shows what is in force."""
    dialog = opened(qtbot, tmp_path / "settings.toml")
    dialog.editor("LAMBDA_DECAY").set_value(0.3)
    dialog.close()
    assert dialog.editor("LAMBDA_DECAY").value() == 0.1


def test_a_program_can_be_picked_and_an_address_tested(qtbot: QtBot, tmp_path: Path) -> None:
    """Both by a button beside the field that asked for it in its declaration."""
    with StandIn() as server:
        dialog = opened(qtbot, tmp_path / "settings.toml")
        row = dialog._rows["BACKGROUND_PROCESS_NAME"]
        row.pick()
        picker = row.findChild(ProcessPicker)
        assert isinstance(picker, ProcessPicker)
        picker.chosen.emit("blender")
        picker.close()
        assert row.editor.value() == "blender"
        address = dialog._rows["SERVER_URL"]
        address.editor.set_value(server.url)
        assert address._test is not None
        address._test.click()
        qtbot.waitUntil(lambda: "This is llama-server" in address._answer.text(), timeout=10000)
        address._test._task.wait()


def test_every_field_has_a_name_for_those_who_cannot_see(qtbot: QtBot, tmp_path: Path) -> None:
    """The title, and what is wrong as long as something is."""
    dialog = opened(qtbot, tmp_path / "settings.toml")
    for spec in specs():
        field = cast("QWidget", dialog.editor(spec.name))
        assert spec.secret or field.accessibleName() == spec.title
    dialog.editor("WEIGHT_KEY").set_value(2.0)
    assert "not allowed" in cast("QWidget", dialog.editor("WEIGHT_KEY")).accessibleDescription()


def field_of(dialog: SettingsDialog, name: str) -> QWidget:
    """Return what one types into."""
    made = dialog.editor(name)
    return made._field if isinstance(made, editors.Secret) else cast("QWidget", made)


def see_all(dialog: SettingsDialog) -> None:
    """Turn to each group once, so that all of it was laid out."""
    for group in dict.fromkeys(spec.group for spec in specs()):
        dialog.turn_to(group)
        QApplication.processEvents()


def test_fields_are_easy_to_hit(qtbot: QtBot, tmp_path: Path) -> None:
    """None is lower than 30 pixels, however small the type."""
    dialog = opened(qtbot, tmp_path / "settings.toml")
    see_all(dialog)
    assert [spec.name for spec in specs() if field_of(dialog, spec.name).height() < 30] == []


def test_large_type_is_not_cut(qtbot: QtBot, tmp_path: Path, large_type: None) -> None:
    """Neither the groups nor what stands in the fields."""
    del large_type
    dialog = opened(qtbot, tmp_path / "settings.toml")
    see_all(dialog)
    assert dialog._nav.viewport().width() >= dialog._nav.sizeHintForColumn(0)
    fields = [field_of(dialog, spec.name) for spec in specs()]
    assert [field.accessibleName() for field in fields if field.height() < field.sizeHint().height()] == []
