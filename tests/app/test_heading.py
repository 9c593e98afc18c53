"""The window's heading: what it says, and that nothing jumps."""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.heading import Heading
from engine.events import Snapshot, State

IDLE = Snapshot(at=0.0, state=State.COLD_IDLE, backend="process")


def says(widget: QWidget) -> str:
    """Return all texts that are to be seen."""
    return "\n".join(word.text() for word in widget.findChildren(QLabel) if not word.isHidden())


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


def test_a_reason_that_is_too_long_ends_in_dots(qtbot: QtBot) -> None:
    """No letter is cut; all of it is in the tooltip."""
    heading = Heading()
    qtbot.addWidget(heading)
    heading.resize(400, 100)
    prepared = Snapshot(at=0.0, state=State.SPECULATIVE_PREPARED)
    heading.draw(replace(prepared, because="a window that prompts come from, 12 s after a reply, typing"))
    heading.show()
    line = heading._because
    assert "after a reply, typing" in line.toolTip()
    seen = line.grab().toImage()
    shortened = line.fontMetrics().elidedText(line.text(), Qt.TextElideMode.ElideRight, line.width())
    assert shortened.endswith("…")
    heading.draw(replace(prepared, because=shortened.removeprefix("Prepared because: ")))
    assert line.grab().toImage() == seen
