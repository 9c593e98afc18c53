"""The dialog of the first start: what is sensed, what never is, and what the user wants of it."""

from typing import Final

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QFrame, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import consent, fitting, icons, theme
from engine.config import store
from engine.config.settings import spec
from engine.config.spec import Value
from engine.config.store import Loaded
from engine.errors import SettingsError

# The microphone is never preselected: an open one is shown by every desktop and disturbs many a headset.
PRESELECTED: Final = {"KEYBOARD": True, "MICROPHONE": False, "KEEP_CONTEXT": True}
_LINE = 86  # characters; a comfortable line
_LEAST = 5  # lines of the text to be seen where the screen is small, beside what is asked


class FirstRun(QDialog):
    """Asks once. `answered` carries what was chosen, by the settings' names, after it was written down."""

    answered = Signal(object)

    def __init__(self, loaded: Loaded, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = loaded.path
        self.setWindowTitle(self.tr("ZAT-SCS: before it starts"))
        self.setWindowIcon(icons.icon(icons.APP))
        theme.follow(self)
        self._column = layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(10)
        self._reading = _Reading(self._about(loaded.settings.context_hours))
        layout.addWidget(self._reading, 1)
        questions = {
            "KEYBOARD": self.tr("Sense the &keyboard: times and kinds of key presses"),
            "MICROPHONE": self.tr("Sense the &microphone: loudness, and whether it is a voice"),
            "KEEP_CONTEXT": self.tr("&Save conversations beyond a restart of the server"),
        }
        self.choices = {name: self._choice(layout, loaded, name, text) for name, text in questions.items()}
        layout.addWidget(_text(self.tr("All of this can be changed in the settings at any time.")))
        self._problem = _text("")
        layout.addWidget(self._problem)
        self._problem.hide()
        buttons = QDialogButtonBox()
        self.start = buttons.addButton(self.tr("S&tart"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.later = buttons.addButton(self.tr("&Not now"), QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
        self.start.setDefault(True)
        theme.play(self.start, "primary")

    def showEvent(self, event: QShowEvent) -> None:
        """Take the room that the text needs, as far as the screen has it; Qt would stop at two thirds of it."""
        if not event.spontaneous():
            self._fit(fitting.room(self))
        super().showEvent(event)

    def _fit(self, room: QSize) -> None:
        wanted = max(self._reading.fontMetrics().averageCharWidth() * _LINE, self.minimumSizeHint().width())
        self.resize(min(wanted, room.width()), room.height())
        self._column.activate()
        spare = self._reading.height() - self._reading.needs()
        self.resize(self.width(), room.height() - max(0, spare))

    def accept(self) -> None:
        """Write the answer down, then close; what cannot be written is said, and asked again."""
        chosen: dict[str, Value] = {name: box.isChecked() for name, box in self.choices.items() if box.isEnabled()}
        try:
            store.save(self._path, chosen)
            consent.remember()
        except (SettingsError, OSError) as error:
            self._problem.setText(self.tr("Your answer could not be written down: {error}").format(error=error))
            self._problem.show()
            return
        super().accept()
        self.answered.emit(chosen)

    def _about(self, hours: float) -> str:
        return "".join(
            f"<p>{paragraph}</p>"
            for paragraph in (
                self.tr(
                    "ZAT-SCS frees the graphics card and restores the conversation before you press Enter. "
                    "For that it has to notice that a prompt is coming."
                ),
                self.tr(
                    "<b>Sensed:</b> when keys are pressed and of which kind (text, Enter, paste, …), how loud it is "
                    "and whether it is a voice; along with either, which program is in front, its title as a hash."
                ),
                self.tr(
                    "<b>Never kept:</b> which keys they are, what is said, and what a title says. "
                    "Nothing leaves this machine."
                ),
                self.tr(
                    "<b>Learned:</b> from which programs and hashed titles prompts come; it is deleted by "
                    "“Forget what was learned…”."
                ),
                self.tr(
                    "<b>Saved contexts hold what your conversations hold.</b> They lie in your server's folder; "
                    "they are deleted after {hours:g} hours, and at once by “Forget saved contexts”."
                ).format(hours=hours),
            )
        )

    def _choice(self, layout: QVBoxLayout, loaded: Loaded, name: str, text: str) -> QCheckBox:
        """Add one question; where its answer comes from outside, it is shown and cannot be changed here."""
        box = QCheckBox(text)
        source = loaded.sources.get(name)
        outside = source in ("environment", "--set")
        known = source is not None  # somebody who wrote a file has thought about it
        box.setChecked(bool(getattr(loaded.settings, spec(name).attribute)) if known else PRESELECTED[name])
        box.setEnabled(not outside)
        box.setToolTip(self.tr("set from outside: {source}").format(source=source) if outside else spec(name).help)
        layout.addWidget(box)
        return box


class _Reading(QScrollArea):
    """A text that can be scrolled where the screen has no room for all of it, so that none of it is cut off."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._label = _text(text)
        self._label.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidgetResizable(True)
        self.setWidget(self._label)

    def needs(self) -> int:
        """Return the height at which nothing has to be scrolled at this width."""
        return self._label.heightForWidth(self.width())

    def minimumSizeHint(self) -> QSize:
        """Keep some lines in sight."""
        return QSize(0, self.fontMetrics().lineSpacing() * _LEAST)


def _text(text: str) -> QLabel:
    label = QLabel(text)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
