"""The dialog of the first start: what is sensed, what never is, and what the user wants of it."""

from typing import Final

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from app import consent, icons, theme
from engine.config import store
from engine.config.settings import spec
from engine.config.spec import Value
from engine.config.store import Loaded
from engine.errors import SettingsError

# The microphone is never preselected: an open one is shown by every desktop and disturbs many a headset.
PRESELECTED: Final = {"KEYBOARD": True, "MICROPHONE": False, "KEEP_CONTEXT": True}
_WIDTH = 520  # pixels; a comfortable line


class FirstRun(QDialog):
    """Asks once. `answered` carries what was chosen, by the settings' names, after it was written down."""

    answered = Signal(object)

    def __init__(self, loaded: Loaded, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._path = loaded.path
        self.setWindowTitle(self.tr("ZAT-SCS: before it starts"))
        self.setWindowIcon(icons.icon(icons.APP))
        theme.follow(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(10)
        self._add_text(layout, self._about(loaded.settings.context_hours))
        questions = {
            "KEYBOARD": self.tr("Sense the &keyboard: the times of key presses"),
            "MICROPHONE": self.tr("Sense the &microphone: how loud it is"),
            "KEEP_CONTEXT": self.tr("&Save the conversation's context, so that it outlives a restart of the server"),
        }
        self.choices = {name: self._choice(layout, loaded, name, text) for name, text in questions.items()}
        self._add_text(layout, self.tr("All of this can be changed in the settings at any time."))
        self._problem = self._add_text(layout, "")
        self._problem.hide()
        buttons = QDialogButtonBox()
        self.start = buttons.addButton(self.tr("S&tart"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.later = buttons.addButton(self.tr("&Not now"), QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout.addWidget(buttons)
        self.start.setDefault(True)
        theme.play(self.start, "primary")
        self.setMinimumWidth(_WIDTH)

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
                self.tr("<b>Sensed:</b> when keys are pressed, and how loud it is."),
                self.tr("<b>Never sensed:</b> which keys they are, and what is said."),
                self.tr(
                    "<b>Saved contexts hold what your conversations hold.</b> They lie in your server's folder; "
                    "they are deleted after {hours:g} hours, and at once by “Forget saved contexts”."
                ).format(hours=hours),
                self.tr("Nothing leaves this machine."),
            )
        )

    def _add_text(self, layout: QVBoxLayout, text: str) -> QLabel:
        label = QLabel(text)
        label.setWordWrap(True)
        label.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        layout.addWidget(label)
        return label

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
