"""Starting on login, as each system wants it. Pure files and values: no window is needed."""

import os
import plistlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QByteArray, QSettings

from engine import itself

_RUN = r"HKEY_CURRENT_USER\Software\Microsoft\Windows\CurrentVersion\Run"
_APPROVED = r"HKEY_CURRENT_USER\Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
_NAME = "ZAT-SCS"
_LABEL = "zat-scs"


class Autostart(Protocol):
    """One system's way. Its methods raise OSError."""

    def is_on(self) -> bool:
        """Tell whether this program, wherever it lies, is started on login."""

    def on(self) -> None:
        """Start on login, from where this program lies now."""

    def off(self) -> None:
        """Do not."""

    def refresh(self) -> None:
        """Put the entry right if it is on and the program has moved."""


def of_this_system() -> Autostart:
    """Return the way of the system that this runs on."""
    command = itself.told("--autostart", silent=True)
    if sys.platform == "win32":
        native = QSettings.Format.NativeFormat
        return RunKey(QSettings(_RUN, native), QSettings(_APPROVED, native), command)
    if sys.platform == "darwin":
        return LaunchAgent(Path.home() / "Library" / "LaunchAgents" / f"{_LABEL}.plist", command)
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"  # noqa: PTH117 - of a text, maybe empty
    return DesktopEntry(base / "autostart" / "zat-scs.desktop", command)


@dataclass
class DesktopEntry:
    """Linux: a file that every desktop reads."""

    path: Path
    command: Sequence[str]

    def is_on(self) -> bool:
        """Tell whether the file is there and no desktop's own switch says no."""
        keys = dict(line.partition("=")[::2] for line in self._read().splitlines())
        refused = keys.get("Hidden") == "true" or keys.get("X-GNOME-Autostart-enabled") == "false"
        return "Exec" in keys and not refused

    def on(self) -> None:
        """Write the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".new")
        temporary.write_text(self._entry(), "utf-8")
        temporary.replace(self.path)

    def off(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)

    def refresh(self) -> None:
        """Write the file anew if its command is another one."""
        if self.is_on() and f"Exec={self._exec()}\n" not in self._read():
            self.on()

    def _read(self) -> str:
        try:
            return self.path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    def _entry(self) -> str:
        return (
            "[Desktop Entry]\nType=Application\nName=ZAT-SCS\n"
            "Comment=Frees the graphics card before you press Enter\n"
            f"Exec={self._exec()}\nIcon=zat-scs\nTerminal=false\nX-GNOME-Autostart-enabled=true\n"
        )

    def _exec(self) -> str:
        return " ".join(_quoted(word) for word in self.command)


def _quoted(word: str) -> str:
    """Quote one word of Exec: first for its command line, then for the value of a key, which eats backslashes too."""
    if word.replace("-", "").isalnum():
        return word
    escaped = "".join(f"\\{letter}" if letter in '"`$\\' else letter for letter in word)
    return '"' + escaped.replace("\\", "\\\\").replace("%", "%%") + '"'


@dataclass
class RunKey:
    """Windows: a value in the registry, which the task manager can overrule in another one."""

    run: QSettings
    approved: QSettings
    command: Sequence[str]

    def is_on(self) -> bool:
        """Tell whether the value is there and the task manager's switch does not say no."""
        switch = self.approved.value(_NAME)
        overruled = isinstance(switch, QByteArray) and bool(switch.data()[:1]) and switch.data()[0] % 2 == 1
        return self.run.contains(_NAME) and not overruled

    def on(self) -> None:
        """Write the value, and take the other switch back."""
        self.approved.remove(_NAME)
        self.run.setValue(_NAME, self._line())
        self.run.sync()

    def off(self) -> None:
        """Delete the value."""
        self.run.remove(_NAME)
        self.run.sync()

    def refresh(self) -> None:
        """Write the value anew if its command is another one."""
        if self.is_on() and self.run.value(_NAME) != self._line():
            self.on()

    def _line(self) -> str:
        """Write the command; the program is quoted in any case, as the installer does."""
        return f'"{self.command[0]}" {subprocess.list2cmdline(self.command[1:])}'


@dataclass
class LaunchAgent:
    """A Mac: a property list, which takes the words as they are."""

    path: Path
    command: Sequence[str]

    def is_on(self) -> bool:
        """Tell whether the file is there."""
        return self.path.exists()

    def on(self) -> None:
        """Write the file; it counts from the next login on."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(self._entry())

    def off(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)

    def refresh(self) -> None:
        """Write the file anew if it differs."""
        if self.is_on() and self.path.read_bytes() != self._entry():
            self.on()

    def _entry(self) -> bytes:
        return plistlib.dumps(
            {
                "Label": _LABEL,
                "ProgramArguments": list(self.command),
                "RunAtLoad": True,
                "ProcessType": "Interactive",
            }
        )
