"""The set-up page: what it finds, what it advises, and that it looks again while it is seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.setup_page import SetupPage
from app.steps import Snippet
from diagnostics import doctor
from diagnostics.advice import advise, shown, start_lines
from diagnostics.mock_server import StandIn
from engine.config.settings import Settings, spec
from engine.config.store import Loaded
from engine.events import Snapshot, State

RUNNING = Snapshot(at=0.0, state=State.COLD_IDLE, backend="process", sensors={"keyboard": "on", "microphone": "off"})
LINE = ("llama-server", "-m", "my model.gguf", "--api-key", "hunter2", "--hf-token=abc")


def says(widget: QWidget) -> str:
    """Return all texts on a page."""
    return "\n".join(label.text() for label in widget.findChildren(QLabel))


def page_for(qtbot: QtBot, tmp_path: Path, **settings: Any) -> SetupPage:
    """Return a page for these settings, of a job that does not run."""
    chosen = Settings(background_process_name="no-such-job", **settings)
    page = SetupPage(Loaded(chosen, {}, (), tmp_path / "settings.toml"))
    qtbot.addWidget(page, before_close_func=lambda made: made._task.wait())
    return page


def test_it_shows_what_doctor_finds(qtbot: QtBot, tmp_path: Path) -> None:
    """The server by its address, what it lacks, and the exact flag to copy."""
    with StandIn() as server:
        page = page_for(qtbot, tmp_path, server_url=server.url)
        page.draw(RUNNING)
        page.show()
        qtbot.waitUntil(lambda: "of 4 steps done" in says(page), timeout=10000)
        page.hide()
        page._task.wait()
    said = says(page)
    for words in (server.url, "The server cannot save contexts", "No no-such-job is running", "keyboard: on"):
        assert words in said
    fixes = [snippet._text for snippet in page.findChildren(Snippet)]
    assert "--slot-save-path FOLDER" in fixes


def test_it_looks_again_and_sees_a_server_come(qtbot: QtBot, tmp_path: Path) -> None:
    """Nobody has to press anything; the button only makes it quicker."""
    with StandIn() as server:
        url = server.url
    page = page_for(qtbot, tmp_path, server_url=url)
    page._timer.setInterval(100)
    page.draw(RUNNING)
    page.show()
    qtbot.waitUntil(lambda: "No server answers" in says(page), timeout=10000)
    with StandIn(port=int(url.rpartition(":")[2])):
        qtbot.waitUntil(lambda: "No server answers" not in says(page), timeout=10000)
        page.hide()
        page._task.wait()


def test_it_asks_nobody_while_it_is_hidden(qtbot: QtBot, tmp_path: Path) -> None:
    """The timer stops with the page."""
    page = page_for(qtbot, tmp_path, server_url="http://127.0.0.1:9")
    page.show()
    assert page._timer.isActive()
    page.hide()
    assert not page._timer.isActive()


def test_no_sensor_is_opened_by_looking(qtbot: QtBot, tmp_path: Path, monkeypatch: Any) -> None:
    """Before the engine runs, and before anybody consented, sensors are not known."""

    def forbidden(*_: object) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr(doctor, "_sensor", forbidden)
    monkeypatch.setattr(doctor, "_background", forbidden)
    page = page_for(qtbot, tmp_path, server_url="http://127.0.0.1:9")
    page.show()
    qtbot.waitUntil(lambda: "Not known before the engine runs." in says(page), timeout=10000)
    page.hide()
    page._task.wait()


def findings(**server: Any) -> dict[str, Any]:
    """Return findings in which all is well, but for what is given of the server."""
    well = {"url": "u", "state": "up", "kind": "llama_server", "about": "", "needs_key": False, "metrics": True,
            "slots_shown": True, "slot_save_path": "/slots", "unified_memory": "on", **server}  # fmt: skip
    background = {"chosen": "process", "refused": {}, "detail": "", "name": "job", "processes": 1}
    found: dict[str, Any] = {"server": well, "background": background, "sensors": {"keyboard": "on"}, "problems": []}
    return {**found, "advice": advise(found, Settings())}


def test_the_first_verified_hand_over_ends_the_set_up(qtbot: QtBot, tmp_path: Path) -> None:
    """It is seen by itself, and all steps are done."""
    page = page_for(qtbot, tmp_path)
    page.show_findings(findings())
    assert "3 of 4 steps done" in says(page)
    page.draw(Snapshot(at=0.0, state=State.SPECULATIVE_PREPARED, background_share=10, background_verified=True))
    assert "All set" in says(page)


def test_all_that_is_missing_is_offered_at_once(qtbot: QtBot, tmp_path: Path) -> None:
    """As a command and as a drop-in for systemd."""
    command, drop_in = start_lines(LINE, Settings())
    page = page_for(qtbot, tmp_path)
    page.show_findings(findings(metrics=False, start=command, drop_in=drop_in))
    fixes = [snippet._text for snippet in page.findChildren(Snippet)]
    assert fixes == ["--metrics", command, drop_in]


def test_copying_a_line(qtbot: QtBot) -> None:
    """By its button, which says so."""
    snippet = Snippet("--metrics", "The server does not count its prompts")
    qtbot.addWidget(snippet)
    button = snippet.findChild(QPushButton)
    assert isinstance(button, QPushButton)
    assert button.accessibleName() == "Copy: The server does not count its prompts"
    button.click()
    assert QGuiApplication.clipboard().text() == "--metrics"
    assert button.text() == "✓ Copied"


def test_start_lines_add_what_lacks_and_hide_keys() -> None:
    """Spaces are quoted, keys are not shown, percent signs are doubled for systemd."""
    command, drop_in = start_lines((*LINE, "--alias", "50%"), Settings(slot_save_path="/slots/"))
    assert command == (
        "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1 llama-server -m 'my model.gguf' --api-key KEY --hf-token=KEY "
        "--alias 50% --slot-save-path /slots/ --metrics"
    )
    assert "--alias 50%% " in drop_in
    assert "[Service]\nEnvironment=GGML_CUDA_ENABLE_UNIFIED_MEMORY=1\nExecStart=\nExecStart=llama-server" in drop_in
    assert "hunter2" not in (shown(LINE) or "")
    assert start_lines(None, Settings()) == ("", "")


def test_advice_names_what_it_costs_and_the_fix() -> None:
    """For each thing missing: one entry, with the exact line."""
    cases: list[tuple[Any, str]] = [
        (lambda found: found["server"].update(state="down"), "zat-scs serve -- llama-server -m MODEL.gguf"),
        (lambda found: found["server"].update(needs_key=True), 'API_KEY = "…"'),
        (lambda found: found["server"].update(metrics=False), "--metrics"),
        (lambda found: found["server"].update(slot_save_path=None), "--slot-save-path FOLDER"),
        (lambda found: found["server"].update(unified_memory="off"), "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1"),
        (lambda found: found["background"].update(processes=0), ""),
        (
            lambda found: found["background"].update(chosen="null", refused={"process": "set FALLBACK_TO_SUSPEND"}),
            "FALLBACK_TO_SUSPEND = true",
        ),
        (
            lambda found: found["sensors"].update(microphone="unavailable: the library PortAudio is missing"),
            "sudo apt install libportaudio2",
        ),
    ]
    for spoil, fix in cases:
        found = findings()
        assert found["advice"] == []
        spoil(found)
        (entry,) = advise(found, Settings())
        assert entry["fix"] == fix
        assert entry["what"]
        assert entry["cost"]


@pytest.mark.parametrize("way", ["boinc", "folding", "boinc+folding"])
def test_a_job_that_is_spoken_to_needs_no_name(qtbot: QtBot, tmp_path: Path, way: str) -> None:
    """That no program of the default name runs is no step left to do: all is set once the job was handed over."""
    found = findings()
    found["background"].update(chosen=way, processes=0)
    page = page_for(qtbot, tmp_path)
    page.draw(replace(RUNNING, background_share=10, background_verified=True))
    page.show_findings({**found, "advice": advise(found, Settings())})
    assert "All set" in says(page)
    assert "is running" not in says(page)


def test_a_method_that_is_named_needs_no_other_job() -> None:
    """BOINC that does not answer is what is missing, not fahclient."""
    found = findings()
    found["background"].update(chosen="null", processes=0, refused={"boinc": "no BOINC client answers"})
    (entry,) = advise(found, Settings(background_method="boinc"))
    assert entry["what"] == "No way to hold the job fits"


def test_a_job_that_is_to_be_left_alone_is_no_step_left_to_do(qtbot: QtBot, tmp_path: Path) -> None:
    """Nor is a hand-over that cannot come."""
    found = findings()
    found["background"].update(chosen="null", detail="switched off", processes=0)
    page = page_for(qtbot, tmp_path, background_method="off")
    page.show_findings({**found, "advice": advise(found, Settings(background_method="off"))})
    assert "All set: the job is left alone, as you chose" in says(page)
    assert "hand-over" not in says(page)


def test_a_line_to_copy_says_where_it_goes(qtbot: QtBot, tmp_path: Path) -> None:
    """A setting by its group and title in the dialog, as they are declared; a flag of the server goes elsewhere."""
    found = findings(metrics=False)
    found["background"].update(chosen="null", refused={"process": "set FALLBACK_TO_SUSPEND"})
    advice = advise(found, Settings())
    suspend = spec("FALLBACK_TO_SUSPEND")
    place = f"Settings › {suspend.group} › {suspend.title}"  # noqa: RUF001 - as it is shown
    assert [entry["place"] for entry in advice] == ["", place]
    page = page_for(qtbot, tmp_path)
    page.show_findings({**found, "advice": advice})
    assert says(page).count(f"{place}, or in settings.toml") == 1
    assert says(page).count("settings.toml") == 1
