"""The page of the status window that says what helping has brought, and what it has cost the background job."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app import stats, theme
from app.day_chart import DayChart
from engine.account import Day
from engine.benefit import total
from engine.clock import SystemClock
from engine.events import Snapshot

DAYS: Final = 14
_MARGIN: Final = 24
_GAP: Final = 32


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
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        column.addWidget(self._legend)
        column.addSpacing(18)
        column.addWidget(self._figures())
        self.setWidget(page)
        self._write_legend()
        return chart

    def _figures(self) -> QWidget:
        """Build the row of numbers, each above what it counts."""
        row = QWidget()
        columns = QHBoxLayout(row)
        columns.setContentsMargins(0, 0, 0, 0)
        columns.setSpacing(_GAP)
        self._numbers = [(theme.label("", "number", wrap=False), theme.label("")) for _ in range(4)]
        for figure, words in self._numbers:
            column = QVBoxLayout()
            column.setSpacing(0)
            column.addWidget(figure)
            column.addWidget(words)
            column.addStretch(1)
            columns.addLayout(column, 1)
        self._row = row
        return row

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
            "As soon as something is prepared, each day shows here how many seconds you did not have to wait, and how "
            "many minutes the background job gave up for them."
        )
        self._note.setText(f"{lately} {stats.footnote(days)}".rstrip() if known else empty)
        self._chart.show_days(days)
        self._row.setVisible(known)
        self._count(whole)

    def _count(self, whole: Day) -> None:
        held = whole.held_guessing + whole.held_serving
        figures = (
            (self.tr("{value} s").format(value=stats.number(whole.saved)) if whole.measured else "?",
             self.tr("not waited for")),
            (self.tr("{value} min").format(value=stats.number(held / 60)),
             self.tr("given up by the job, {guesses} min of it for guesses").format(
                 guesses=stats.number(whole.held_guessing / 60))),
            (self.tr("{hits:,} of {all:,}").format(hits=whole.hits, all=whole.preparations),
             self.tr("preparations were followed by a prompt")),
            (self.tr("{value} s").format(value=stats.number(whole.lead / whole.hits)) if whole.hits else "?",
             self.tr("from a preparation to its prompt, on average")),
        )  # fmt: skip
        for (figure, words), (value, text) in zip(self._numbers, figures, strict=True):
            figure.setText(value)
            figure.setAccessibleName(text)
            words.setText(text)

    def _write_legend(self) -> None:
        colours = theme.of(self)
        parts = [
            (colours.accent, self.tr("seconds saved")),
            (colours.prepared, self.tr("minutes of background work given up for guesses")),
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
