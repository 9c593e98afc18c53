"""The status window's panel of the background job, which is called by what holds it."""

from typing import Final

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy

from app import texts, theme
from app.meters import Panel, show
from engine.events import Snapshot

_OWN_NAMES: Final = {
    "folding": "Folding@home",
    "boinc": "BOINC",
}  # of jobs that are spoken to; else the settings name it


class _Unfold(QPushButton):
    """Shows or hides what stands below it; words that do not fit are shortened, never the window widened for them."""

    def __init__(self) -> None:
        super().__init__()
        self._words = ""
        self.setProperty("role", "link")
        self.setCheckable(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

    def say(self, words: str) -> None:
        """Show these words, as far as there is room."""
        self._words = words
        self._fit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many words as there is room for now."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        room = self.width() - 2  # the edge, seen when it has the focus
        text = self.fontMetrics().elidedText(self._words, Qt.TextElideMode.ElideRight, room)
        if text != self.text():
            self.setText(text)


class JobPanel(Panel):
    """The background job: its share, how it is held, whether that is seen to be so, and what else was tried.

    `name`: the program that the settings name; `off`: the settings say that nothing is to be held.
    """

    def __init__(self) -> None:
        super().__init__(QCoreApplication.translate("Panels", "Background job"))
        self.name = ""
        self.off = False
        self._share = self.line("headline")
        self._verified = self.line()
        self._back = self.steady_line()
        self._detail = self.line("muted")
        self._more = _Unfold()
        self._more.toggled.connect(self._expand)
        self._refused = theme.label("", "muted")
        self._count = 0
        self.column.addWidget(self._more)
        self.column.addWidget(self._refused)
        self._expand(unfolded=False)

    def draw(self, snapshot: Snapshot) -> None:
        """Show this snapshot."""
        waits = snapshot.deadline_in is not None and snapshot.background_share < 100
        left = round(snapshot.deadline_in or 0.0) if waits else None
        way = (snapshot.backend, snapshot.background_verified, snapshot.background_detail, snapshot.refused)
        if not self.is_new(self.name, self.off, snapshot.background_share, left, *way):
            return
        show(self._share, self._in_words(snapshot))
        self._show_proof(snapshot)
        back = "" if left is None else self.tr("Given back in {seconds} s without a prompt").format(seconds=left)
        show(self._back, back)
        show(self._detail, "" if self.off and snapshot.backend == "null" else snapshot.background_detail)
        reasons = "\n".join(f"{way}: {reason}" for way, reason in snapshot.refused)
        if self._refused.text() != reasons:
            self._refused.setText(reasons)
            self._more.setToolTip(reasons)
            self._count = len(snapshot.refused)
            self._expand(unfolded=self._more.isChecked())

    def _in_words(self, snapshot: Snapshot) -> str:
        """Say who is held: of a job that is only looked for it is not known whether it runs, let alone has the card."""
        if snapshot.backend == "null":
            return self.tr("Switched off") if self.off else self.tr("Nothing to hold")
        named = self.name or self.tr("The job")
        first, *others = (_OWN_NAMES.get(way, named) for way in snapshot.backend.split("+"))
        name = self.tr("{one} and {others}").format(one=first, others=", ".join(others)) if others else first
        if snapshot.background_share == 100:
            text = self.tr("{name} are not held") if others else self.tr("{name} is not held")
        elif texts.shares(snapshot):
            text = self.tr("{name} keeps {share} %")
        else:
            text = self.tr("{name} are held") if others else self.tr("{name} is held")
        return text.format(name=name, share=snapshot.background_share)

    def _show_proof(self, snapshot: Snapshot) -> None:
        if snapshot.backend == "null":
            show(self._verified, "" if self.off or not snapshot.refused else self.tr("No way to hold it fits"))
            theme.play(self._verified, "bad")
            return
        way = self.tr("by {way}").format(way=snapshot.backend)
        if snapshot.background_share == 100:
            show(self._verified, self.tr("Can be held {way}").format(way=way))
            theme.play(self._verified, "")
            return
        proof = {
            True: self.tr("✓ Held {way}, verified"),
            False: self.tr("✗ Held {way}, but not seen to yield"),
            None: self.tr("Held {way}, nothing to verify"),
        }[snapshot.background_verified]
        show(self._verified, proof.format(way=way))
        theme.play(self._verified, {True: "good", False: "bad", None: ""}[snapshot.background_verified])

    def _expand(self, unfolded: bool) -> None:
        text = self.tr("Other ways that do not fit: {count}").format(count=self._count)
        arrow = "▾" if unfolded else "▸"
        self._more.setVisible(self._count > 0)
        self._more.say(f"{arrow} {text}")
        self._more.setAccessibleName(text)
        self._refused.setVisible(unfolded and self._count > 0)
