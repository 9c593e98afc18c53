"""The panels below the plot: what they say, and that nothing is said by colour alone."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.history import Counts
from app.meters import EvidencePanel, Figure, Heading, JobPanel, Meter, ServerPanel, TodayPanel
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
        ({}, ("The job has the card", "Can be held by process")),
        ({"background_share": 10, "background_verified": True}, ("keeps 10 %", "✓ Held by process, verified")),
        ({"background_share": 0, "background_verified": False}, ("keeps 0 %", "✗ Held by process, but not seen")),
        ({"background_share": 10}, ("nothing to verify",)),
        ({"backend": "null"}, ("No way to hold it fits",)),
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


def test_counts_are_named(qtbot: QtBot) -> None:
    """Each number has a name for those who cannot see where it stands."""
    panel = TodayPanel()
    qtbot.addWidget(panel)
    panel.draw(Counts(5, 2, 1))
    named = {label.accessibleName(): label.text() for label in panel._numbers}
    assert named == {"ready in time": "5", "false alarms": "2", "missed prompts": "1"}


def test_the_heading_before_and_after_the_first_snapshot(qtbot: QtBot) -> None:
    """It says that it waits, then the state."""
    heading = Heading()
    qtbot.addWidget(heading)
    heading.draw(None)
    assert "Starting" in says(heading)
    heading.draw(IDLE)
    assert "Waiting" in says(heading)
    assert "Starting" not in says(heading)


def test_the_heading_says_why_it_is_prepared_and_nothing_jumps(qtbot: QtBot) -> None:
    """The line has its place whether there is something to say or not, and widens no window."""
    heading = Heading()
    qtbot.addWidget(heading)
    heading.resize(800, 100)
    heading.draw(IDLE)
    size = heading.sizeHint()
    because = "a voice, a window that prompts come from, 12 s after a reply, " * 20
    heading.draw(Snapshot(at=0.0, state=State.SPECULATIVE_PREPARED, because=because))
    assert f"Prepared because: {because}" in says(heading)
    assert heading.sizeHint().height() == size.height()
    heading.draw(IDLE)
    assert "because" not in says(heading)
