"""The status window: state, live plot, evidence, job, server and counts; pages for the benefit and for the set-up."""

from typing import TYPE_CHECKING, Final, Protocol

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QHBoxLayout,
    QLabel,
    QMainWindow,
    QPushButton,
    QScrollArea,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.benefit_page import BenefitPage
from app.fitting import open_at
from app.heading import Heading
from app.history import History
from app.job_panel import JobPanel
from app.meters import EvidencePanel, ServerPanel, TodayPanel
from app.setup_page import SetupPage
from engine.config import store
from engine.config.store import Loaded
from engine.events import Snapshot, State

if TYPE_CHECKING:
    from app.plot import Plot

SPANS: Final = (60.0, 300.0)  # s
_DRAW_EVERY: Final = 0.2  # s; nobody reads figures that change ten times a second
_MARGIN: Final = 24
_GAP: Final = 32


class HasMenus(Protocol):
    """What the window needs of the application's actions: titles of menus, each with its entries."""

    menu_groups: list[tuple[str, list[QAction]]]


class StatusWindow(QMainWindow):
    """Shows snapshots. Give it each one from the start, shown or not, so that the plot has a past when it is opened.

    `set_loaded` says which settings are in force; without it the user's own are read when the window is first shown.
    """

    def __init__(self, actions: HasMenus, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("ZAT-SCS")
        open_at(self, 980, 740)
        self.history = History(max(SPANS))
        self.plot: Plot | None = None
        self._loaded: Loaded | None = None
        self._snapshot: Snapshot | None = None
        self._drawn_at = 0.0
        self.setup: SetupPage | None = None
        self._fill_menus(actions)
        self._tabs = QTabWidget()
        self._tabs.tabBar().setDrawBase(False)
        self._tabs.setAccessibleName(self.tr("Pages"))
        self._tabs.tabBar().setAccessibleName(self.tr("Pages"))
        self._status = self._status_page()
        self._tabs.addTab(self._status, self.tr("&Status"))
        self.benefit = BenefitPage()
        self._tabs.addTab(self.benefit, self.tr("&Benefit"))
        self._banner = theme.label("", "banner")
        self._banner.hide()
        self._arrange()
        theme.follow(self)
        self._draw()
        self._tabs.currentChanged.connect(self._draw)

    def _fill_menus(self, actions: HasMenus) -> None:
        for title, entries in actions.menu_groups:
            menu = self.menuBar().addMenu(title)
            menu.addActions(entries)
            menu.setToolTipsVisible(True)
        close = QShortcut(QKeySequence(QKeySequence.StandardKey.Close), self)
        close.activated.connect(self.close)

    def _arrange(self) -> None:
        centre = QWidget()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._banner)
        column.addWidget(self._tabs)
        self.setCentralWidget(centre)

    def _status_page(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(_MARGIN, 20, _MARGIN, _MARGIN)
        column.setSpacing(14)
        self._heading = Heading()
        top = QHBoxLayout()
        top.addWidget(self._heading, 1)
        top.addLayout(self._span_switch())
        column.addLayout(top)
        self._plot_place = QVBoxLayout()
        column.addLayout(self._plot_place, 1)
        self._legend = QLabel()
        self._legend.setTextFormat(Qt.TextFormat.RichText)
        self._legend.setWordWrap(True)
        column.addWidget(self._legend)
        column.addSpacing(6)
        self._panels = self._panel_row()
        column.addWidget(self._panels)
        scroll = QScrollArea()
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        return scroll

    def _span_switch(self) -> QHBoxLayout:
        """Build the two buttons that say how far back the plot goes."""
        row = QHBoxLayout()
        row.setSpacing(6)
        self._spans = QButtonGroup(self)
        for span, text in zip(SPANS, (self.tr("&60 s"), self.tr("&5 min")), strict=True):
            button = QPushButton(text)
            button.setCheckable(True)
            button.setChecked(span == SPANS[0])
            button.setProperty("role", "small")
            button.setAccessibleName(self.tr("Show the last {span}").format(span=text.replace("&", "")))
            self._spans.addButton(button, int(span))
            row.addWidget(button, alignment=Qt.AlignmentFlag.AlignVCenter)
        self._spans.idClicked.connect(self.set_span)
        return row

    def _panel_row(self) -> QWidget:
        self._evidence, self._job, self._server, self._today = EvidencePanel(), JobPanel(), ServerPanel(), TodayPanel()
        place = QWidget()
        row = QHBoxLayout(place)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(_GAP)
        for panel in (self._evidence, self._job, self._server, self._today):
            row.addWidget(panel, 1)
        return place

    # ---- what others call --------------------------------------------------------------------------------------------

    def render(self, snapshot: Snapshot) -> None:  # type: ignore[override]  # a widget's own render paints elsewhere
        """Remember a snapshot, and show it where somebody sees it."""
        self._snapshot = snapshot
        self.history.add(snapshot)
        self.benefit.draw(snapshot)
        if self.setup:
            self.setup.draw(snapshot)
        soon = not snapshot.moves and not snapshot.closed and 0.0 <= snapshot.at - self._drawn_at < _DRAW_EVERY
        if not soon and self._status.isVisible() and not self.isMinimized():
            self._draw()

    def set_loaded(self, loaded: Loaded) -> None:
        """Show, and look for, what these settings name."""
        self._loaded = loaded
        self._job.name = loaded.settings.background_process_name
        self._job.off = loaded.settings.background_method == "off"
        if self.setup:
            self.setup.set_loaded(loaded)
        else:
            self.setup = SetupPage(loaded)
            self._tabs.addTab(self.setup, self.tr("Set-&up"))
            if self._snapshot:
                self.setup.draw(self._snapshot)

    def show_reason(self, text: str) -> None:
        """Say something above everything else, such as why there is no tray; nothing: take it away."""
        self._banner.setText(text)
        self._banner.setVisible(bool(text))

    def show_benefit(self) -> None:
        """Turn to the page that says what helping has brought."""
        self._tabs.setCurrentWidget(self.benefit)

    def show_setup(self) -> None:
        """Turn to the set-up page."""
        if self.setup:
            self._tabs.setCurrentWidget(self.setup)

    def set_span(self, seconds: int) -> None:
        """Let the plot go back so many seconds: one of SPANS."""
        self._spans.button(seconds).setChecked(True)
        if self.plot:
            self.plot.set_span(float(seconds))

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        snapshot = self._snapshot
        self._drawn_at = snapshot.at if snapshot else 0.0
        self._heading.draw(snapshot)
        self._panels.setVisible(snapshot is not None)
        if snapshot:
            self._evidence.draw(snapshot)
            self._job.draw(snapshot)
            self._server.draw(snapshot)
            self._today.draw(self.history.today)

    def _write_legend(self) -> None:
        from app.plot_picture import word  # noqa: PLC0415 - here when the plot is

        colours = theme.of(self)
        states = [("■", colours.of_state(state), word(state)) for state in State if state is not State.COLD_IDLE]
        marks = [
            ("━", colours.accent, self.tr("P, how probable a prompt is")),
            ("●", colours.accent, self.tr("prompt")),
            ("▼", colours.prepared, self.tr("false alarm")),
            ("◆", colours.bad, self.tr("missed prompt")),
        ]
        parts = [f'<span style="color:{colour}">{sign}</span>&nbsp;{text}' for sign, colour, text in marks + states]
        self._legend.setText(f'<span style="color:{colours.muted}">{"&nbsp;&nbsp;&nbsp; ".join(parts)}</span>')

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the plot, and with it pyqtgraph, when it is seen for the first time."""
        if self.plot is None:
            from app.plot import Plot  # noqa: PLC0415 - it costs 50 MB, which many never need

            self.plot = Plot(self.history)
            self.plot.set_span(float(self._spans.checkedId()))
            self._plot_place.addWidget(self.plot)
            self._write_legend()
        if self._loaded is None:
            self.set_loaded(store.load())
        self._draw()
        super().showEvent(event)

    def changeEvent(self, event: QEvent) -> None:
        """Turn light or dark; catch up when brought back."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.StyleChange and self.plot is not None:
            self._write_legend()
        elif event.type() is QEvent.Type.WindowStateChange and not self.isMinimized():
            self._draw()
