"""The status window's panels below the plot: evidence, server, and the day's counts."""

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QLabel,
    QProgressBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.history import Counts
from app.steady import Figure, Steady
from engine.events import ContextState, ServerState, Snapshot

_UNAVAILABLE = "unavailable: "


def show(label: QLabel | Steady, text: str) -> None:
    """Change a label only where it differs, and hide it where there is nothing to say."""
    if label.text() != text:
        label.setText(text)
    if label.isHidden() is bool(text):
        label.setVisible(bool(text))


class Remembering(QWidget):
    """Knows which facts it shows, so that those which stay cost nothing: no words, no layout, no paint."""

    _facts: tuple[object, ...] | None = None

    def is_new(self, *facts: object) -> bool:
        """Return whether these differ from the facts of the last call."""
        new = facts != self._facts
        self._facts = facts
        return new


class Panel(Remembering):
    """A heading and what stands under it, with no frame around."""

    def __init__(self, heading: str) -> None:
        super().__init__()
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        self.column = QVBoxLayout()
        self.column.setSpacing(6)
        whole.addLayout(self.column)
        whole.addStretch(1)
        self.column.addWidget(theme.label(heading, "section"))

    def line(self, role: str = "") -> QLabel:
        """Add one line of text, empty as yet."""
        made = self._text(role)
        made.hide()
        self.column.addWidget(made)
        return made

    def steady_line(self) -> Steady:
        """Add one line of text that changes each second."""
        made = Steady(self._text(""))
        made.hide()
        self.column.addWidget(made)
        return made

    def _text(self, role: str) -> QLabel:
        made = theme.label("", role)
        made.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        # The panels are equally wide, whatever stands in them: a word without a break must not widen the window.
        made.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        return made


class Meter(Remembering):
    """One sensor: its name, its evidence as a bar and a number, and why it says nothing where it does not."""

    def __init__(self, name: str, *, has_level: bool = True) -> None:
        super().__init__()
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # what lies below need not be painted with it
        self._has_level = has_level
        self._number = Figure(self.tr("unavailable"), "0.00")
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(name)
        self._bar.setVisible(has_level)
        self._reason = theme.label("", "muted")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 2)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(0, 1)
        grid.addWidget(theme.label(name), 0, 0)
        grid.addWidget(self._number, 0, 1)
        grid.addWidget(self._bar, 1, 0, 1, 2)
        grid.addWidget(self._reason, 2, 0, 1, 2)

    def draw(self, level: float | None, state: str) -> None:
        """Show evidence in [0, 1], None where there is none, and the sensor's state as in a Snapshot."""
        if not self.is_new(None if level is None else round(level, 2), state):
            return
        reason = state.removeprefix(_UNAVAILABLE) if state.startswith(_UNAVAILABLE) else ""
        if reason:
            word = self.tr("unavailable")
        elif state != "on":
            word = self.tr("off")
        else:
            word = f"{level:.2f}" if self._has_level and level is not None else self.tr("on")
        self._number.set_text(word)
        show(self._reason, reason)
        value = round(100 * (level or 0.0))
        if self._bar.value() != value:
            self._bar.setUpdatesEnabled(False)  # it would be painted at once, and the number once more after it
            self._bar.setValue(value)
            self._bar.setUpdatesEnabled(True)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the ground."""
        QPainter(self).fillRect(event.rect(), QColor(theme.of(self).window))


class EvidencePanel(Panel):
    """What is sensed."""

    def __init__(self) -> None:
        super().__init__(QCoreApplication.translate("Panels", "Evidence"))
        self._keyboard = Meter(self.tr("Keyboard"))
        self._microphone = Meter(self.tr("Microphone"))
        self._window = Meter(self.tr("Window in front"), has_level=False)
        for meter in (self._keyboard, self._microphone, self._window):
            self.column.addWidget(meter)

    def draw(self, snapshot: Snapshot) -> None:
        """Show this snapshot."""
        sensors = snapshot.sensors
        self._keyboard.draw(snapshot.f_c, sensors.get("keyboard", "off"))
        self._microphone.draw(snapshot.g_a, sensors.get("microphone", "off"))
        self._window.draw(None, sensors.get("window", "off"))


class ServerPanel(Panel):
    """The language-model server, and the conversation it should hold."""

    def __init__(self) -> None:
        super().__init__(QCoreApplication.translate("Panels", "Server"))
        self._state = self.line("headline")
        self._context = self.line()
        self._memory = self.line()
        self._detail = self.line("muted")

    def draw(self, snapshot: Snapshot) -> None:
        """Show this snapshot."""
        details = (snapshot.server_detail, snapshot.context_detail)
        if not self.is_new(
            snapshot.server, snapshot.context, snapshot.context_tokens, snapshot.unified_memory, *details
        ):
            return
        states = {
            ServerState.UNKNOWN: self.tr("Not looked at yet"),
            ServerState.UP: self.tr("Up and idle"),
            ServerState.LOADING: self.tr("Loads its model"),
            ServerState.ASLEEP: self.tr("Asleep"),
            ServerState.BUSY: self.tr("At work"),
            ServerState.DOWN: self.tr("Does not answer"),
        }
        show(self._state, states[snapshot.server])
        tokens = snapshot.context_tokens
        amount = "" if tokens is None else self.tr(", {tokens:,} tokens").format(tokens=tokens)
        show(self._context, self._context_in_words(snapshot.context) + amount)
        memory = {"on": self.tr("Unified memory: on"), "off": self.tr("Unified memory: off")}
        show(self._memory, memory.get(snapshot.unified_memory, self.tr("Unified memory: not known")))
        show(self._detail, "\n".join(detail for detail in details if detail))
        self._detail.setToolTip(self._detail.text())  # a word without a break may be cut in the panel

    def _context_in_words(self, context: ContextState) -> str:
        return {
            ContextState.NONE: self.tr("Context: none yet"),
            ContextState.SAVED: self.tr("Context: saved"),
            ContextState.RESTORING: self.tr("Context: being restored"),
            ContextState.RESTORED: self.tr("Context: restored"),
            ContextState.WARM: self.tr("Context: warm"),
            ContextState.USELESS: self.tr("Context: restoring does not help this model"),
        }[context]


class TodayPanel(Panel):
    """How today's guesses turned out."""

    def __init__(self) -> None:
        super().__init__(QCoreApplication.translate("Panels", "Today"))
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setColumnStretch(1, 1)
        words = (self.tr("ready in time"), self.tr("false alarms"), self.tr("missed prompts"))
        self._numbers = [theme.label("0", "number", wrap=False) for _ in words]
        for row, (number, text) in enumerate(zip(self._numbers, words, strict=True)):
            number.setAccessibleName(text)
            grid.addWidget(number, row, 0, Qt.AlignmentFlag.AlignRight)
            grid.addWidget(theme.label(text), row, 1)
        self.column.addLayout(grid)

    def draw(self, counts: Counts) -> None:
        """Show these counts."""
        if not self.is_new(counts):
            return
        for label, count in zip(
            self._numbers, (counts.hits, counts.false_positives, counts.false_negatives), strict=True
        ):
            show(label, str(count))
