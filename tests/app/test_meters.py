"""The panels below the plot: what they say, and that nothing is said by colour alone."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.heading import Heading
from app.history import Counts
from app.job_panel import JobPanel
from app.meters import EvidencePanel, Meter, ServerPanel, TodayPanel
from app.steady import Figure
from engine.events import ContextState, ServerState, Snapshot, State

IDLE = Snapshot(at=0.0, state=State.COLD_IDLE, backend="process")


def says(widget: QWidget) -> str:
    """Return all texts that are to be seen."""
    words = [*widget.findChildren(QLabel), *widget.findChildren(Figure)]
    return "\n".join(word.text() for word in words if not word.isHidden())


@pytest.mark.parametrize(
    ("level", "state", "expected", "bar"),
    [
        (0.42, "on", "0.42", 42),
        (None, "on", "on", 0),
        (None, "off", "off", 0),
        (None, "unavailable: no microphone found", "unavailable\nno microphone found", 0),
    ],
)
def test_a_meter_says_level_or_reason(level: float | None, state: str, expected: str, bar: int, qtbot: QtBot) -> None:
    """A number where there is one, else why not."""
    meter = Meter("Keyboard")
    qtbot.addWidget(meter)
    meter.draw(level, state)
    assert sorted(says(meter).splitlines()) == sorted(["Keyboard", *expected.splitlines()])
    assert meter._bar.value() == bar
    assert meter._bar.accessibleName() == "Keyboard"


def test_evidence_shows_every_sensor(qtbot: QtBot) -> None:
    """A sensor that the snapshot does not name is off."""
    panel = EvidencePanel()
    qtbot.addWidget(panel)
    panel.draw(replace(IDLE, f_c=0.3, sensors={"keyboard": "on", "window": "unavailable: Wayland"}))
    said = says(panel)
    for words in ("0.30", "off", "unavailable", "Wayland"):
        assert words in said


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("The job is not held", "Can be held by process")),
        ({"background_share": 10, "background_verified": True}, ("The job is held", "✓ Held by process, verified")),
        ({"background_share": 0, "background_verified": False}, ("job is held", "✗ Held by process, but not seen")),
        ({"backend": "mps", "background_share": 10}, ("The job keeps 10 %",)),
        ({"background_share": 10}, ("nothing to verify",)),
        ({"backend": "null"}, ("Nothing to hold",)),
        ({"backend": "null", "refused": (("mps", "no server runs"),)}, ("Nothing to hold", "No way to hold it fits")),
        ({"background_share": 10, "deadline_in": 12.4}, ("Given back in 12 s",)),
        ({"background_detail": "x: stopped"}, ("x: stopped",)),
    ],
)
def test_the_job_in_words(changes: dict[str, object], expected: tuple[str, ...], qtbot: QtBot) -> None:
    """Share, method, proof and time, each in words."""
    panel = JobPanel()
    qtbot.addWidget(panel)
    panel.draw(replace(IDLE, **changes))  # type: ignore[arg-type]  # of the parameters above
    for words in expected:
        assert words in says(panel)


@pytest.mark.parametrize(
    ("backend", "held", "free"),
    [
        ("folding", "Folding@home is held", "Folding@home is not held"),
        ("boinc", "BOINC is held", "BOINC is not held"),
        ("process", "blender is held", "blender is not held"),
        ("folding+process", "Folding@home and blender are held", "Folding@home and blender are not held"),
    ],
)
def test_the_job_is_called_by_what_holds_it(backend: str, held: str, free: str, qtbot: QtBot) -> None:
    """The settings name a program; who is spoken to may be another. Only MPS leaves a true share."""
    panel = JobPanel()
    qtbot.addWidget(panel)
    panel.name = "blender"
    panel.draw(replace(IDLE, backend=backend, background_share=10))
    assert panel._share.text() == held
    panel.draw(replace(IDLE, backend=backend))
    assert panel._share.text() == free


def test_a_job_that_is_not_to_be_held_is_no_trouble(qtbot: QtBot) -> None:
    """It says that it was switched off, once and in plain words."""
    panel = JobPanel()
    qtbot.addWidget(panel)
    panel.off = True
    panel.draw(replace(IDLE, backend="null", background_detail="switched off"))
    assert says(panel).splitlines()[1:] == ["Switched off"]
    panel.draw(replace(IDLE, backend="null", background_detail="switched off", deadline_in=12.4))
    assert says(panel).splitlines()[1:] == ["Switched off"]


def test_refused_ways_unfold_by_the_keyboard(qtbot: QtBot) -> None:
    """The reasons are hidden until asked for, and stand in the tooltip."""
    panel = JobPanel()
    qtbot.addWidget(panel)
    panel.show()
    panel.draw(replace(IDLE, refused=(("boinc", "no client answers"), ("mps", "no server runs"))))
    assert panel._more.accessibleName() == "Other ways that do not fit: 2"
    assert "no client answers" not in says(panel)
    assert "no client answers" in panel._more.toolTip()
    panel._more.animateClick()
    qtbot.waitUntil(lambda: "boinc: no client answers\nmps: no server runs" in says(panel), timeout=3000)
    panel.draw(replace(IDLE, refused=()))
    assert panel._more.isHidden()


def test_the_server_in_words(qtbot: QtBot) -> None:
    """Every state of server and context has words of its own."""
    panel = ServerPanel()
    qtbot.addWidget(panel)
    states, contexts = set(), set()
    for server in ServerState:
        panel.draw(replace(IDLE, server=server))
        states.add(panel._state.text())
    for context in ContextState:
        panel.draw(replace(IDLE, context=context, context_tokens=3120))
        contexts.add(panel._context.text())
    assert (len(states), len(contexts)) == (len(ServerState), len(ContextState))
    assert all(", 3,120 tokens" in text for text in contexts)
    panel.draw(replace(IDLE, unified_memory="on", server_detail="loading", context_detail="kept"))
    assert "Unified memory: on" in says(panel)
    assert panel._detail.text() == "loading\nkept"


class Touches:
    """Notes each change of a label, a button or a bar."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: list[object] = []
        for kind, change in ((QLabel, "setText"), (QPushButton, "setText"), (QProgressBar, "setValue"),
                             (QWidget, "setVisible"), (QWidget, "setToolTip"), (Figure, "set_text")):  # fmt: skip
            monkeypatch.setattr(kind, change, self._noting(getattr(kind, change)))

    def _noting(self, change: Callable[..., None]) -> Callable[..., None]:
        def noted(widget: QWidget, value: object) -> None:
            self.values.append(value)
            change(widget, value)

        return noted


PREPARED = replace(
    IDLE,
    state=State.SPECULATIVE_PREPARED,
    background_share=10,
    background_verified=True,
    deadline_in=12.4,
    f_c=0.421,
    sensors={"keyboard": "on"},
    refused=(("boinc", "no client answers"),),
)


@pytest.mark.parametrize(
    ("panel", "changes", "expected"),
    [
        (EvidencePanel, {"f_c": 0.5}, ["0.50", 50]),
        (JobPanel, {"deadline_in": 9.0}, ["Given back in 9 s without a prompt"]),
        (ServerPanel, {"server": ServerState.BUSY}, ["At work"]),
        (Heading, {"paused": True}, ["Paused"]),
    ],
)
def test_what_stays_is_not_touched(
    panel: type[EvidencePanel | JobPanel | ServerPanel | Heading],
    changes: dict[str, object],
    expected: list[object],
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Snapshots that read the same change no widget; one that reads otherwise changes what differs."""
    made = panel()
    qtbot.addWidget(made)
    made.show()
    made.draw(PREPARED)
    touches = Touches(monkeypatch)
    for tick in range(10):
        made.draw(replace(PREPARED, at=tick / 10, probability=tick / 10, f_c=0.419, deadline_in=12.0 - tick / 30))
    assert touches.values == []
    made.draw(replace(PREPARED, **changes))  # type: ignore[arg-type]  # of the parameters above
    assert set(expected) <= set(touches.values)
    assert "✓ Held by process, verified" not in touches.values


def test_counts_are_named(qtbot: QtBot) -> None:
    """Each number has a name for those who cannot see where it stands."""
    panel = TodayPanel()
    qtbot.addWidget(panel)
    panel.draw(Counts(5, 2, 1))
    named = {label.accessibleName(): label.text() for label in panel._numbers}
    assert named == {"ready in time": "5", "false alarms": "2", "missed prompts": "1"}
