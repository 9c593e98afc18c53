"""The settings dialog, built from the declarations alone: it names no setting."""

import re
from dataclasses import replace
from itertools import groupby

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QListWidget,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.editors import Editor, fit
from app.fitting import open_at
from app.setting_row import SettingRow
from engine.config import store
from engine.config.settings import Settings, specs
from engine.config.spec import Value
from engine.config.store import Loaded
from engine.errors import SettingsError

_OUTSIDE = ("environment", "--set")
_WRONG = "  ✗"  # behind the name of a group with a value that is not allowed


class SettingsDialog(QDialog):
    """Edits the user's file. `applied` carries the new Settings once they are written.

    `loaded`: the settings in force; what comes from outside the file is shown, and cannot be changed here.
    """

    applied = Signal(object)

    def __init__(self, loaded: Loaded, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._loaded = loaded
        self.setWindowTitle(self.tr("Settings"))
        open_at(self, 820, 640)
        self._rows = {spec.name: SettingRow(spec, self._lock_of(spec.name)) for spec in specs()}
        self._nav = QListWidget()
        self._nav.setAccessibleName(self.tr("Groups of settings"))
        self._pages = QStackedWidget()
        self._state = theme.label("", "muted")
        self._arrange()
        theme.follow(self)
        self._nav.ensurePolished()  # its lines are wider with the style's spacing
        self._nav.setFixedWidth(self._nav.sizeHintForColumn(0) + self._nav.fontMetrics().horizontalAdvance(_WRONG))
        for spec in specs():
            row = self._rows[spec.name]
            fit(row.editor)
            row.editor.set_value(getattr(loaded.settings, spec.attribute))
            row.changed.connect(self._check)
            row.test_asked.connect(self._test)
        self._check()

    def _lock_of(self, name: str) -> str:
        """Say why a setting cannot be changed here, nothing if it can."""
        source = self._loaded.sources.get(name, "")
        if source not in _OUTSIDE:
            return ""
        where = f"{store.PREFIX}{name}" if source == "environment" else f"--set {name}"
        return self.tr("Locked: set from outside by {where}").format(where=where)

    def _arrange(self) -> None:
        for group, members in groupby(specs(), key=lambda spec: spec.group):
            self._nav.addItem(group)
            self._pages.addWidget(self._page(group, [self._rows[spec.name] for spec in members]))
        self._nav.currentRowChanged.connect(self._pages.setCurrentIndex)
        self._nav.setCurrentRow(0)
        middle = QHBoxLayout()
        middle.setSpacing(20)
        middle.addWidget(self._nav)
        middle.addWidget(self._pages, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 20, 20, 20)
        column.setSpacing(14)
        for problem in self._loaded.problems:
            column.addWidget(theme.label(problem, "banner"))
        column.addLayout(middle, 1)
        column.addLayout(self._buttons())

    def _page(self, group: str, rows: list[SettingRow]) -> QScrollArea:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 12, 0)
        column.setSpacing(22)
        column.addWidget(theme.label(group, "title"))
        for row in rows:
            column.addWidget(row)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(page)
        return scroll

    def _buttons(self) -> QHBoxLayout:
        self._reset = QPushButton(self.tr("&Reset all"))
        self._reset.setToolTip(self.tr("Put the default into every field; nothing is written before Apply"))
        self._reset.clicked.connect(self.reset_all)
        self._close = QPushButton(self.tr("&Close"))
        self._close.clicked.connect(self.close)
        self._apply = QPushButton(self.tr("&Apply"))
        self._apply.setProperty("role", "primary")
        self._apply.setDefault(True)
        self._apply.clicked.connect(self.apply)
        row = QHBoxLayout()
        row.addWidget(self._reset)
        row.addWidget(self._state, 1)
        row.addWidget(self._close)
        row.addWidget(self._apply)
        return row

    # ---- what others call --------------------------------------------------------------------------------------------

    def editor(self, name: str) -> Editor:
        """Return the editor of the setting with this NAME."""
        return self._rows[name].editor

    def turn_to(self, group: str) -> None:
        """Show the settings of this group."""
        self._nav.setCurrentRow(list(dict.fromkeys(spec.group for spec in specs())).index(group))

    def changes(self) -> dict[str, Value]:
        """Return what differs from what is in force, NAME → value, allowed or not."""
        return {
            spec.name: row.editor.value()
            for spec in specs()
            for row in [self._rows[spec.name]]
            if not row.locked and row.editor.value() != getattr(self._loaded.settings, spec.attribute)
        }

    def reset_all(self) -> None:
        """Put the default into every field that is not locked."""
        for row in self._rows.values():
            row.reset()

    def apply(self) -> None:
        """Write what was changed, then say so; with a value that is not allowed nothing is written."""
        settings, changes = self._check(), self.changes()
        if settings is None or not changes:
            return
        try:
            store.save(self._loaded.path, changes)
        except SettingsError as error:
            self._say(str(error), "bad")
            return
        sources = {**self._loaded.sources, **dict.fromkeys(changes, "file")}
        self._loaded = replace(self._loaded, settings=settings, sources=sources)
        self._check()
        self._say(self.tr("✓ Applied, and written to {path}").format(path=self._loaded.path), "good")
        self.applied.emit(settings)

    # ---- checking ----------------------------------------------------------------------------------------------------

    def _check(self) -> Settings | None:
        """Show what is wrong beside the fields, and return the settings that the fields make; None: not allowed."""
        errors = {name: row.check() for name, row in self._rows.items()}
        changes, settings = self.changes(), None
        allowed = {name: value for name, value in changes.items() if not errors[name]}
        try:
            settings = self._loaded.settings.replace(allowed)
        except SettingsError as error:  # one that several fields share: it stands beside those that were changed
            for name in allowed.keys() & set(re.findall(r"[A-Z][A-Z_]+", str(error))):
                errors[name] = str(error)
        for name, message in errors.items():
            self._rows[name].show_error(message)
        wrong = sum(map(bool, errors.values()))
        if wrong:
            settings = None
        self._apply.setEnabled(bool(changes) and settings is not None)
        if wrong:
            self._say(self.tr("✗ Not allowed: {count}").format(count=wrong), "bad")
        else:
            self._say(self.tr("Changes: {count}").format(count=len(changes)) if changes else "", "muted")
        self._mark_groups([name for name, message in errors.items() if message])
        return settings

    def _mark_groups(self, wrong: list[str]) -> None:
        """Show in the list which groups hold a value that is not allowed."""
        groups = {spec.group for spec in specs() if spec.name in wrong}
        for row, group in enumerate(dict.fromkeys(spec.group for spec in specs())):
            self._nav.item(row).setText(group + _WRONG if group in groups else group)

    def _say(self, text: str, role: str) -> None:
        self._state.setText(text)
        theme.play(self._state, role)

    def _test(self, row: SettingRow) -> None:
        settings = self._check()
        if settings is not None:
            row.test(settings)

    def reject(self) -> None:
        """Close, and forget what was not applied: the fields show what is in force when it is opened again."""
        for spec in specs():
            self._rows[spec.name].editor.set_value(getattr(self._loaded.settings, spec.attribute))
        self._say("", "muted")
        super().reject()
