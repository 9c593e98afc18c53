"""The page of the status window that says what helping has brought, and what it has cost the background job."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import stats, theme
from app.day_chart import DayChart
from engine.account import Day
from engine.benefit import total
from engine.clock import SystemClock
from engine.events import Snapshot

DAYS: Final = 14
_MARGIN: Final = 24
_GAP: Final = 32
_FIGURE: Final = 24  # characters that each number's words want beside each other


class BenefitPage(QScrollArea):
    """Is built when it is seen for the first time; today comes with the snapshots, earlier days from their file."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._before: Sequence[Day] = ()
        self._snapshot: Snapshot | None = None
        self._drawn = 0
        self._chart: DayChart | None = None

    def draw(self, snapshot: Snapshot) -> None:
        """Take in what the engine has booked; shown once a second where somebody sees it."""
        self._snapshot = snapshot
        if self.isVisible() and int(snapshot.at) != self._drawn:
            self._draw()

    def earlier(self) -> Sequence[Day]:
        """Return what is kept of earlier days."""
        from engine.days import load  # noqa: PLC0415 - here when the engine is
        from engine.parts import RealParts  # noqa: PLC0415

        return load(RealParts.of_user(SystemClock()).days).days

    def _build(self) -> DayChart:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(_MARGIN, 20, _MARGIN, _MARGIN)
        column.setSpacing(6)
        self._title, self._note = theme.label("", "title"), theme.label("", "muted")
        column.addWidget(self._title)
        column.addWidget(self._note)
        column.addSpacing(14)
        chart = DayChart()
        column.addWidget(chart, 1)
        self._legend = QLabel()
        self._legend.setWordWrap(True)
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        column.addWidget(self._legend)
        column.addSpacing(18)
        self._figures = _Figures()
        column.addWidget(self._figures)
        column.addStretch()  # takes the room of a chart that is hidden
        self.setWidget(page)
        self._write_legend()
        return chart

    def _draw(self) -> None:
        if self._chart is None:
            return
        from engine.days import last_days  # noqa: PLC0415 - here when the engine is

        today = self._snapshot.today if self._snapshot else None
        at = self._snapshot.at if self._snapshot else SystemClock().wall()
        self._drawn = int(at)
        days = last_days([*self._before, *([today] if today else [])], DAYS, at)
        whole = total(days)
        known = whole != Day("")
        self._title.setText(stats.headline(days) if known else self.tr("Nothing to count yet"))
        lately = self.tr("In the last {days} days.").format(days=DAYS)
        empty = self.tr(
            "Go on as usual. As soon as something was prepared, each day shows here how long you did not have to wait, "
            "and how much the background job gave up for that."
        )
        self._note.setText(f"{lately} {stats.footnote(days)}".rstrip() if known else empty)
        self._chart.show_days(days)
        for part in (self._chart, self._legend, self._figures):
            part.setVisible(known)
        self._count(whole)

    def _count(self, whole: Day) -> None:
        held = whole.held_guessing + whole.held_serving
        figures = (
            (stats.span(whole.saved) if whole.measured else "?", self.tr("not waited for")),
            (stats.span(held),
             self.tr("given up by the job, {guesses} of it for guesses").format(
                 guesses=stats.span(whole.held_guessing))),
            (self.tr("{hits:,} of {all:,}").format(hits=whole.hits, all=whole.preparations),
             self.tr("preparations were followed by a prompt")),
            (stats.span(whole.lead / whole.hits) if whole.hits else "?",
             self.tr("from a preparation to its prompt, on average")),
        )  # fmt: skip
        self._figures.show_all(figures)

    def _write_legend(self) -> None:
        colours = theme.of(self)
        parts = [
            (colours.accent, self.tr("time saved")),
            (colours.prepared, self.tr("background work given up for guesses")),
            (colours.active, self.tr("for prompts")),
        ]
        marked = [f'<span style="color:{colour}">■</span>&nbsp;{text}' for colour, text in parts]
        words = "&nbsp;&nbsp;&nbsp; ".join([*marked, self.tr("each side has a scale of its own")])
        self._legend.setText(f'<span style="color:{colours.muted}">{words}</span>')

    def showEvent(self, event: QShowEvent) -> None:
        """Look up the earlier days: an engine elsewhere may have gone on with them."""
        self._chart = self._chart or self._build()
        self._before = self.earlier()
        self._draw()
        super().showEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Turn light or dark with the window."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.StyleChange and getattr(
            self, "_chart", None
        ):  # Qt calls this from its constructor
            self._write_legend()


class _Figures(QWidget):
    """Four numbers, each above what it counts: side by side, or two by two where there is no room for that."""

    def __init__(self) -> None:
        super().__init__()
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(_GAP)
        self._grid.setVerticalSpacing(_GAP // 2)
        self._texts = [(theme.label("", "number", wrap=False), theme.label("")) for _ in range(4)]
        self._cells = [_cell(*texts) for texts in self._texts]
        self._across = 0
        self._arrange(len(self._cells))

    def show_all(self, figures: Sequence[tuple[str, str]]) -> None:
        """Show these numbers, and what they count."""
        for (number, words), (value, text) in zip(self._texts, figures, strict=True):
            number.setText(value)
            number.setAccessibleName(text)
            words.setText(text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Go by the width, and by the size of the type."""
        super().resizeEvent(event)
        wanted = len(self._cells) * (self.fontMetrics().averageCharWidth() * _FIGURE) + 3 * _GAP
        self._arrange(len(self._cells) if self.width() >= wanted else 2)

    def _arrange(self, across: int) -> None:
        if across == self._across:
            return
        self._across = across
        for place, cell in enumerate(self._cells):
            self._grid.addWidget(cell, *divmod(place, across))
            self._grid.setColumnStretch(place, int(place < across))


def _cell(*labels: QLabel) -> QWidget:
    cell = QWidget()
    column = QVBoxLayout(cell)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    for label in labels:
        column.addWidget(label)
    column.addStretch(1)
    return cell
