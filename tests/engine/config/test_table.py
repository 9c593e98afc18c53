"""The settings as people read them."""

import tomllib
from pathlib import Path

from engine.config import store, table
from engine.config.settings import Settings, specs


def test_the_table_has_every_setting_once() -> None:
    """One line each, in the order of declaration, with four cells."""
    lines = [line for line in table.markdown().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [spec.name for spec in specs()]
    assert all(line.replace(r"\|", "").count("|") == 5 for line in lines)


def test_the_table_is_grouped() -> None:
    """Each group has its name and its own head."""
    text = table.markdown()
    names = list(dict.fromkeys(spec.group for spec in specs()))
    assert [line.strip("*") for line in text.splitlines() if line.startswith("**")] == names
    assert text.count("| name | default | allowed | what it does |") == len(names)
    assert text.endswith("|\n")


def test_lines_of_the_table() -> None:
    """A number with a unit, a switch, a choice, and a default that is empty."""
    lines = table.markdown().splitlines()
    for line in (
        "| `LINGER` | `60` | a number from 0 to 3600 s | A job that loses",
        "| `KEYBOARD` | `on` | on or off | Sense the times of key presses; never which keys. |",
        "| `TIMER_FROM` | `evidence` | one of evidence, entry | evidence: from the last sign of a prompt; entry: from",
        "| `API_KEY` | (empty) | a key without spaces | Sent to the server only; never logged. |",
    ):
        assert any(whole.startswith(line) for whole in lines), line


def test_rows_name_value_and_source() -> None:
    """One row a setting, as the file would take it, and where it comes from; a key is no more than a comment."""
    settings = Settings(linger=5.5, keyboard=False, api_key="hunter2")
    sources = {"LINGER": "file", "KEYBOARD": "environment", "API_KEY": "--set"}
    rows = table.rows(store.Loaded(settings, sources, (), Path("settings.toml")))
    assert [row.removeprefix("# ").split(" = ")[0] for row in rows] == [spec.name for spec in specs()]
    for row in (
        "LINGER = 5.5  # file",
        "KEYBOARD = false  # environment",
        "# API_KEY = (set)  # --set",
        "INACTIVITY_TIMER = 15  # default",
        'SLOT_SAVE_PATH = ""  # default',
        'EVIDENCE = "adaptive"  # default',
    ):
        assert row in rows
    assert not any("hunter2" in row for row in rows)


def test_rows_can_be_put_into_the_file(tmp_path: Path) -> None:
    """They look like it, so they are it: read back, the same settings come of them."""
    settings = Settings(quiet_programs='a "quoted" \\ name', fallback_to_suspend=True, job_worth=0.125)
    rows = "\n".join(table.rows(store.Loaded(settings, {}, (), tmp_path)))
    assert set(tomllib.loads(rows)) == {spec.name for spec in specs()}
    (tmp_path / "settings.toml").write_text(rows, "utf-8")
    loaded = store.load(tmp_path / "settings.toml", {})
    assert (loaded.settings, loaded.problems) == (settings, ())
