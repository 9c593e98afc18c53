"""A give-back at the next login, for what outlives a restart of the machine: registered once, taken back when done.

Linux desktops start what lies in `autostart`, Windows what RunOnce names; macOS and plain consoles have nothing alike
here, and there the next start of the engine gives back. Windows is untested.
"""

import logging
import sys
from pathlib import Path

import platformdirs

from engine import itself

_log = logging.getLogger(__name__)

_APP = "zat-scs"
_NAME = "zat-scs-release"
_RUN_ONCE = r"Software\Microsoft\Windows\CurrentVersion\RunOnce"


def see_to(ledger: Path, needed: bool) -> None:
    """Register `zat-scs release` for the next login, or take that back. A ledger that it would not read is left out."""
    if ledger.absolute() != Path(platformdirs.user_state_dir(_APP, appauthor=False)) / "ledger.json":
        return
    try:
        if needed:
            _register()
        else:
            _take_back()
    except OSError as error:
        _log.warning("A give-back at the next login cannot be %s: %s", "set" if needed else "taken back", error)


def command() -> list[str]:
    """Return what gives back by hand."""
    return itself.told("release", silent=True)


if sys.platform == "win32":
    import subprocess
    import winreg

    def _register() -> None:
        with winreg.CreateKey(winreg.HKEY_CURRENT_USER, _RUN_ONCE) as key:
            winreg.SetValueEx(key, _NAME, 0, winreg.REG_SZ, subprocess.list2cmdline(command()))

    def _take_back() -> None:
        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _RUN_ONCE, 0, winreg.KEY_SET_VALUE) as key:
                winreg.DeleteValue(key, _NAME)
        except FileNotFoundError:
            pass

elif sys.platform == "darwin":

    def _register() -> None:
        _log.warning("On macOS nothing gives back at the next login: the next start of the engine does")

    def _take_back() -> None:
        pass

else:

    def desktop_file() -> Path:
        """Return what a desktop starts at the next login."""
        return Path(platformdirs.user_config_dir()) / "autostart" / f"{_NAME}.desktop"

    def _register() -> None:
        path = desktop_file()
        line = " ".join(_quoted(word) for word in command())
        content = (
            "[Desktop Entry]\nType=Application\nName=ZAT-SCS: give the background job back\n"
            "Comment=Folding@home was paused when this machine went down. This removes itself once it folds again.\n"
            f"Exec={line}\nTerminal=false\nNoDisplay=true\nX-GNOME-Autostart-Delay=10\n"
        )
        if not path.exists() or path.read_text("utf-8") != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")

    def _take_back() -> None:
        desktop_file().unlink(missing_ok=True)

    def _quoted(word: str) -> str:
        """Quote as the Desktop Entry Specification wants it: first for Exec, then for a string of the file."""
        for special in '\\"`$':
            word = word.replace(special, f"\\{special}")
        return '"' + word.replace("\\", "\\\\").replace("%", "%%") + '"'
