"""One editor for each kind of setting. All share one contract: `value`, `set_value`, and a signal when it changed."""

from typing import TYPE_CHECKING, Protocol, cast

from PySide6.QtCore import QLocale, Qt, Signal, SignalInstance
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QWidget,
)

from engine.config.spec import Spec, Value

if TYPE_CHECKING:
    from collections.abc import Callable

_FAR = 2**31 - 1  # what can be typed; whether it is allowed is said beside the field
_DIGITS = 20  # after the point: no number that a setting may have is rounded
_WIDTH, _HEIGHT = 150, 30  # px


class Editor(Protocol):
    """What the dialog knows of an editor, which is also a QWidget."""

    changed: SignalInstance

    def value(self) -> Value:
        """Return what is in the field, allowed or not."""

    def set_value(self, value: Value) -> None:
        """Put a value into the field."""


class Switch(QCheckBox):
    """On or off."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.toggled.connect(self._toggled)
        self._toggled(on=False)

    def value(self) -> Value:
        """Return whether it is on."""
        return self.isChecked()

    def set_value(self, value: Value) -> None:
        """Turn it on or off."""
        self.setChecked(bool(value))

    def _toggled(self, on: bool) -> None:
        self.setText(self.tr("On") if on else self.tr("Off"))
        self.changed.emit()


class WholeNumber(QSpinBox):
    """A whole number. What is too high or too low can be typed, so that the message says what is allowed."""

    changed = Signal()

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._spec = spec
        self.setRange(-_FAR, _FAR)
        _arrange(self, spec)
        self.valueChanged.connect(self.changed)

    def value(self) -> int:
        """Return the number in the field."""
        return super().value()

    def set_value(self, value: Value) -> None:
        """Put a number into the field."""
        self.setValue(int(value))

    def stepBy(self, steps: int) -> None:
        """Step within what is allowed."""
        self.setValue(round(_within(self._spec, self.value() + steps)))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the page scroll on."""
        event.ignore()


class Number(QDoubleSpinBox):
    """A number with a fraction, shown with as many digits as it has."""

    changed = Signal()

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._spec = spec
        self.setDecimals(_DIGITS)
        self.setRange(-_FAR, _FAR)
        _arrange(self, spec)
        self._step = 0.05 if (spec.high or 0.0) <= 1.0 else 0.1 if (spec.high or 0.0) <= 10.0 else 1.0
        self.valueChanged.connect(self.changed)

    def value(self) -> float:
        """Return the number in the field."""
        return super().value()

    def set_value(self, value: Value) -> None:
        """Put a number into the field."""
        self.setValue(float(value))

    def textFromValue(self, value: float) -> str:
        """Write the shortest text that means exactly this number."""
        return self.locale().toString(value, "f", QLocale.FloatingPointPrecisionOption.FloatingPointShortest.value)

    def stepBy(self, steps: int) -> None:
        """Step within what is allowed, to a round number."""
        self.setValue(_within(self._spec, round(self.value() + steps * self._step, 10)))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the page scroll on."""
        event.ignore()


def _arrange(box: QAbstractSpinBox, spec: Spec) -> None:
    locale = box.locale()
    locale.setNumberOptions(QLocale.NumberOption.OmitGroupSeparator)
    box.setLocale(locale)
    box.setFixedWidth(_WIDTH)
    box.lineEdit().setTextMargins(6, 0, 0, 0)
    if isinstance(box, QSpinBox | QDoubleSpinBox) and spec.unit:
        box.setSuffix(f" {spec.unit}")


def _within(spec: Spec, value: float) -> float:
    low = value if spec.low is None else spec.low
    high = value if spec.high is None else spec.high
    return min(max(value, low), high)


class Text(QLineEdit):
    """A line of text."""

    changed = Signal()

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.setPlaceholderText(spec.allowed_text)
        self.setMinimumWidth(2 * _WIDTH)
        self.textChanged.connect(self.changed)

    def value(self) -> Value:
        """Return the text."""
        return self.text()

    def set_value(self, value: Value) -> None:
        """Put a text into the field."""
        self.setText(str(value))
        self.setCursorPosition(0)


class Secret(QWidget):
    """A text that stands behind dots until it is asked for."""

    changed = Signal()

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._field = QLineEdit()
        self._field.setPlaceholderText(spec.allowed_text)
        self._field.setEchoMode(QLineEdit.EchoMode.Password)
        self._field.textChanged.connect(self.changed)
        self._show = QPushButton(self.tr("Show"))
        self._show.setProperty("role", "small")
        self._show.setCheckable(True)
        self._show.toggled.connect(self._reveal)
        self._field.setMinimumWidth(2 * _WIDTH)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._field, 1)
        row.addWidget(self._show)
        self.setFocusProxy(self._field)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def value(self) -> Value:
        """Return the text."""
        return self._field.text()

    def set_value(self, value: Value) -> None:
        """Put a text into the field."""
        self._field.setText(str(value))

    def setMinimumHeight(self, height: int) -> None:
        """Let the field be so high; around it is nothing."""
        self._field.setMinimumHeight(height)

    def setAccessibleName(self, name: str) -> None:
        """Name the field and its button."""
        self._field.setAccessibleName(name)
        self._show.setAccessibleName(self.tr("Show {name}").format(name=name))

    def _reveal(self, shown: bool) -> None:
        self._field.setEchoMode(QLineEdit.EchoMode.Normal if shown else QLineEdit.EchoMode.Password)


class Choice(QComboBox):
    """One of a few words."""

    changed = Signal()

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self.addItems(spec.choices)
        self.setFixedWidth(_WIDTH)
        self.currentTextChanged.connect(self.changed)

    def value(self) -> Value:
        """Return the word."""
        return self.currentText()

    def set_value(self, value: Value) -> None:
        """Choose a word."""
        self.setCurrentText(str(value))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Let the page scroll on."""
        event.ignore()


def fit(made: Editor) -> None:
    """Let an editor be no lower than its text needs in the style that its window wears by now."""
    field = cast("QWidget", made)
    field.setMinimumHeight(max(_HEIGHT, field.sizeHint().height()))


def editor(spec: Spec) -> Editor:
    """Return the editor for this kind of setting; it is a QWidget."""
    kinds: dict[type[Value], Callable[[Spec], QWidget]] = {bool: lambda _: Switch(), int: WholeNumber, float: Number}
    if spec.kind in kinds:
        made = kinds[spec.kind](spec)
    else:
        made = Choice(spec) if spec.choices else Secret(spec) if spec.secret else Text(spec)
    made.setAccessibleName(spec.title)
    made.setAccessibleDescription(spec.help)
    return cast("Editor", made)
