"""Offers the programs that run now, and tests an address: what stands beside some fields of the settings."""

import os
import re
from collections import Counter
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.fitting import open_at
from app.task import Task
from engine import processes
from engine.config.settings import Settings
from engine.errors import ZatError
from engine.orchestration.finder import Program, names_of, normalised

# Shells, compositors, desktops, sound and session: nobody wants these stopped.
_NEVER = re.compile(
    r"(ba|da|z|k|fi|c|tc|pow?er)?sh|pwsh|cmd|conhost|explorer|dwm|csrss|winlogon|svchost|services|lsass|init|systemd.*|"
    r"dbus.*|login|agetty|su|sudo|sshd.*|cron|tmux.*|screen|xorg|xwayland|xvfb.*|xfwm4|xfce4.*|openbox|i3.*|sway.*|"
    r"weston|hyprland|kwin.*|plasma.*|kded.*|mutter.*|gnome.*|gdm.*|sddm.*|lightdm.*|cinnamon.*|mate.*|budgie.*|"
    r"windowserver|dock|finder|launchd|loginwindow|pipewire.*|wireplumber|pulseaudio|xdg.*|gvfs.*|at.?spi.*|"
    r"networkmanager|polkit.*|udisksd|upowerd|rtkit.*|containerd.*|dockerd|zatscs|llamaserver"
)

_INTERPRETER = re.compile(r"(python|pypy|perl|ruby|node|nodejs)[\d.]*")  # would stand for all programs written in it


def programs() -> dict[str, int]:
    """Return the names of programs that run and could be a background job, each with how many processes it has."""
    ours, server = _ours(), Program("llama-server")
    counted: Counter[str] = Counter()
    for pid in processes.pids():
        seen = processes.look(pid)
        arguments = processes.command_line(pid)
        if seen is None or not arguments or pid in ours or seen.parent == os.getpid() or seen.state in "ZXx":
            continue
        name = _name(seen.name, arguments)
        names = names_of(seen.name, arguments)
        if name and not server.fits(names) and not any(_NEVER.fullmatch(each) for each in names.whole):
            counted[name] += 1
    return dict(sorted(counted.items(), key=lambda item: item[0].lower()))


def _ours() -> set[int]:
    """Return this process and its ancestors, which belong to the desktop."""
    chosen, pid = set[int](), os.getpid()
    while pid > 1 and pid not in chosen:
        chosen.add(pid)
        seen = processes.look(pid)
        pid = seen.parent if seen else 0
    return chosen


def _name(comm: str, arguments: tuple[str, ...]) -> str:
    """Return a name that the finder will find again: the script's that an interpreter runs, else the program's."""
    names = names_of(comm, arguments)
    words = [re.split(r"[/\\]", word)[-1] for word in arguments if not word.startswith("-")]
    scripts = [word for word in words[1:] if word.endswith((".py", ".pl", ".rb", ".js"))]
    fitting = [word for word in (*scripts[:1], *words[:1], comm) if Program(word).fits(names)]
    return next((word for word in fitting if not _INTERPRETER.fullmatch(normalised(word))), "")


class ProcessPicker(QDialog):
    """Lets one of the running programs be chosen; `chosen` carries its name."""

    chosen = Signal(str)

    def __init__(self, offered: dict[str, int], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(self.tr("Choose the background program"))
        open_at(self, 420, 460)
        self._list = QListWidget()
        self._list.setAccessibleName(self.tr("Running programs"))
        for name, count in offered.items():
            many = self.tr("{name}   ({count})").format(name=name, count=count)
            item = QListWidgetItem(many if count > 1 else name)
            item.setData(Qt.ItemDataRole.UserRole, name)
            self._list.addItem(item)
        self._list.itemActivated.connect(self.accept)
        self._list.currentItemChanged.connect(self._selected)
        self._filter = QLineEdit()
        self._filter.setPlaceholderText(self.tr("Search"))
        self._filter.setAccessibleName(self.tr("Search"))
        self._filter.setClearButtonEnabled(True)
        self._filter.textChanged.connect(self._sift)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self._buttons.accepted.connect(self.accept)
        self._buttons.rejected.connect(self.reject)
        self._arrange()
        theme.follow(self)
        self._selected()

    def _arrange(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 20, 20, 20)
        column.setSpacing(12)
        text = self.tr("Programs that run now. Shells, the desktop, the server and this program are left out.")
        column.addWidget(theme.label(text, "muted"))
        column.addWidget(self._filter)
        column.addWidget(self._list, 1)
        column.addWidget(self._buttons)

    def _sift(self, text: str) -> None:
        for row in range(self._list.count()):
            item = self._list.item(row)
            item.setHidden(text.lower() not in item.text().lower())
        seen = [row for row in range(self._list.count()) if not self._list.item(row).isHidden()]
        if self._list.currentRow() not in seen:  # so that Enter takes the first that fits
            self._list.setCurrentRow(seen[0] if seen else -1)

    def _selected(self) -> None:
        self._buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(self._list.currentRow() >= 0)

    def accept(self) -> None:
        """Take the one that is selected."""
        if self._list.currentRow() >= 0:
            self.chosen.emit(self._list.currentItem().data(Qt.ItemDataRole.UserRole))
            super().accept()


class ServerTest(QPushButton):
    """Asks who answers at an address; `said` carries one sentence, and whether it is good news."""

    said = Signal(str, bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setText(self.tr("Test"))
        self.setProperty("role", "small")
        self._task = Task("server test", self)
        self._task.finished.connect(self._answered)

    def ask(self, settings: Settings) -> None:
        """Ask at the address that these settings name, on a thread."""
        self.said.emit(self.tr("Asking…"), True)
        self._task.start(partial(_identify, settings))

    def _answered(self, answer: object) -> None:
        good = not isinstance(answer, ZatError)
        self.said.emit(str(answer), good)


def _identify(settings: Settings) -> str:
    from engine.client.api import LlamaServer  # noqa: PLC0415 - brings requests, which is not needed before

    with LlamaServer(settings.server_url, settings.api_key) as server:
        return server.identify().sentence
