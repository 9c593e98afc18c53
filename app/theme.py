"""Colours and type sizes of all windows, light and dark, in one place. Text has a contrast of 4.5 or more."""

from dataclasses import asdict, dataclass

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication, QLabel, QWidget

from app.sheet import SHEET
from engine import itself
from engine.events import State

_CONTROLS = (itself.RESOURCES / "controls").as_posix()  # arrows and ticks
_PROPERTY = "zat-theme"


@dataclass(frozen=True, slots=True)
class Theme:
    """One set of colours. `accent` is the only colour without a meaning of its own; the others say something."""

    name: str
    window: str
    field: str  # where one types, and what is picked out of a list
    text: str
    muted: str
    line: str  # separators and grid: no text
    edge: str  # of what can be typed into or clicked: 3:1
    accent: str
    on_accent: str
    threshold: str
    good: str
    bad: str
    idle: str
    prepared: str
    active: str
    degraded: str

    def of_state(self, state: State) -> str:
        """Return the colour of a state."""
        return {
            State.COLD_IDLE: self.idle,
            State.SPECULATIVE_PREPARED: self.prepared,
            State.ACTIVE_INFERENCE: self.active,
            State.DEGRADED: self.degraded,
        }[state]


LIGHT = Theme(
    name="light",
    window="#ffffff",
    field="#f4f5f7",
    text="#1f2328",
    muted="#586069",
    line="#d8dce1",
    edge="#848c95",
    accent="#1967d2",
    on_accent="#ffffff",
    threshold="#c5221f",
    good="#137333",
    bad="#b3261e",
    idle="#5f6368",
    prepared="#8a5a00",
    active="#137333",
    degraded="#b3261e",
)
DARK = Theme(
    name="dark",
    window="#1e1f22",
    field="#2a2c30",
    text="#e8eaed",
    muted="#a9afb7",
    line="#3d4046",
    edge="#777e88",
    accent="#8ab4f8",
    on_accent="#0d1b33",
    threshold="#f28b82",
    good="#81c995",
    bad="#f2a19a",
    idle="#a9afb7",
    prepared="#fdd663",
    active="#81c995",
    degraded="#f28b82",
)


def wanted(scheme: Qt.ColorScheme) -> Theme:
    """Return what fits the desktop; one that does not say is judged by the colours it gave the application."""
    if scheme is Qt.ColorScheme.Unknown:
        return _by_lightness(QGuiApplication.palette())
    return DARK if scheme is Qt.ColorScheme.Dark else LIGHT


def of(widget: QWidget) -> Theme:
    """Return the theme that a widget's window wears; each change of it reaches the widget as a StyleChange."""
    worn = widget.window().property(_PROPERTY)
    return worn if isinstance(worn, Theme) else _by_lightness(widget.palette())


def _by_lightness(palette: QPalette) -> Theme:
    return DARK if palette.window().color().lightness() < 128 else LIGHT


def follow(window: QWidget) -> None:
    """Dress a window, and dress it again whenever the desktop turns light or dark."""
    _Follower(window)


class _Follower(QObject):
    """Lives as long as its window."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self.turn)
        self.turn(hints.colorScheme())

    def turn(self, scheme: Qt.ColorScheme) -> None:
        """Put on what fits."""
        theme = wanted(scheme)
        self._window.setProperty(_PROPERTY, theme)
        self._window.setStyleSheet(_sheet(theme))
        self._window.setPalette(palette(theme))  # for the window alone: a style sheet ends the way to its children


def palette(theme: Theme) -> QPalette:
    """Return the colours as the toolkit wants them."""
    role = QPalette.ColorRole
    colours = {
        role.Window: theme.window,
        role.WindowText: theme.text,
        role.Base: theme.field,
        role.AlternateBase: theme.window,
        role.Text: theme.text,
        role.PlaceholderText: theme.muted,
        role.Button: theme.field,
        role.ButtonText: theme.text,
        role.BrightText: theme.bad,
        role.Highlight: theme.accent,
        role.HighlightedText: theme.on_accent,
        role.Link: theme.accent,
        role.ToolTipBase: theme.field,
        role.ToolTipText: theme.text,
        role.Mid: theme.line,
    }
    made = QPalette(QColor(theme.field), QColor(theme.window))  # bevels are worked out from these
    for which, colour in colours.items():
        made.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, which, QColor(theme.muted))
    return made


def label(text: str = "", role: str = "", *, wrap: bool = True) -> QLabel:
    """Return a label that plays a role: title, headline, section, number, muted, good, bad, code; "" is plain text."""
    made = QLabel(text)
    made.setWordWrap(wrap)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        made.setProperty("role", role)
    return made


def play(widget: QWidget, role: str) -> None:
    """Let a label, or a button ("primary"), play another role from now on."""
    if widget.property("role") != role:
        widget.setProperty("role", role)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


def _sheet(theme: Theme) -> str:
    """Return the style sheet; sizes are multiples of the size that the user chose for the desktop."""
    base = QApplication.font().pointSizeF()
    factors = {"title_size": 1.7, "headline_size": 1.15, "number_size": 2.0}
    sizes = {name: f"{base * factor:.1f}" for name, factor in factors.items()}
    return SHEET.substitute(asdict(theme), controls=_CONTROLS, **sizes)
