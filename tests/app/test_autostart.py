"""Starting on login, on each system."""

import plistlib
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray, QSettings

from app import autostart
from app.autostart import Autostart, DesktopEntry, LaunchAgent, RunKey

COMMAND = ["/opt/my tools/zat-scs", "--autostart"]
MOVED = ["/srv/zat-scs", "--autostart"]


def registry(path: Path) -> QSettings:
    """Return a file that keeps values as the registry does."""
    return QSettings(str(path), QSettings.Format.IniFormat)


def ways(folder: Path, command: list[str]) -> list[Autostart]:
    """Return the ways of all systems, with their files in a folder."""
    return [
        DesktopEntry(folder / "autostart" / "zat-scs.desktop", command),
        RunKey(registry(folder / "run"), registry(folder / "approved"), command),
        LaunchAgent(folder / "LaunchAgents" / "zat-scs.plist", command),
    ]


@pytest.mark.parametrize("number", range(3), ids=["linux", "windows", "mac"])
def test_it_is_switched_on_and_off(tmp_path: Path, number: int) -> None:
    """Off at first, on, off again, and off twice is no mistake."""
    way = ways(tmp_path, COMMAND)[number]
    assert not way.is_on()
    way.on()
    assert ways(tmp_path, COMMAND)[number].is_on()
    way.off()
    way.off()
    assert not ways(tmp_path, COMMAND)[number].is_on()


@pytest.mark.parametrize("number", range(3), ids=["linux", "windows", "mac"])
def test_a_program_that_moved_is_still_started(tmp_path: Path, number: int) -> None:
    """The entry is put right at the next start, but one that is off stays off."""
    moved = ways(tmp_path, MOVED)[number]
    moved.refresh()
    assert not moved.is_on()
    ways(tmp_path, COMMAND)[number].on()
    moved.refresh()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"/srv/zat-scs" in written
    assert b"my tools" not in written


def exec_line(entry: str) -> list[str]:
    """Return the words of Exec, read as the specification says: the value's backslashes, then quotes as a shell's."""
    value = next(line for line in entry.splitlines() if line.startswith("Exec=")).removeprefix("Exec=")
    script = "printf '%s\\n' " + value.replace("\\\\", "\\")
    words = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True).stdout
    return [word.replace("%%", "%") for word in words.splitlines()]


@pytest.mark.parametrize(
    "path", ["/usr/bin/zat-scs", "/opt/my tools/zat", '/odd/"quoted" $HOME `x` 100%/zat', "/ü/zat"]
)
def test_linux_quotes_what_the_specification_says(tmp_path: Path, path: str) -> None:
    """Any path is started as it is."""
    entry = DesktopEntry(tmp_path / "zat-scs.desktop", [path, "--autostart"])
    entry.on()
    text = entry.path.read_text("utf-8")
    assert text.startswith("[Desktop Entry]\n")
    assert exec_line(text) == [path, "--autostart"]


@pytest.mark.parametrize("line", ["Hidden=true", "X-GNOME-Autostart-enabled=false"])
def test_linux_hears_the_desktops_own_switch(tmp_path: Path, line: str) -> None:
    """Somebody who switched it off in the desktop's settings meant it; switching it on here makes up for that."""
    entry = DesktopEntry(tmp_path / "zat-scs.desktop", COMMAND)
    entry.on()
    text = entry.path.read_text("utf-8").replace("X-GNOME-Autostart-enabled=true", line)
    entry.path.write_text(text, "utf-8")
    assert not entry.is_on()
    entry.on()
    assert entry.is_on()


def test_windows_writes_what_the_installer_writes(tmp_path: Path) -> None:
    """The program stands in quotes, or its arguments would be lost."""
    run = registry(tmp_path / "run")
    RunKey(run, registry(tmp_path / "approved"), [r"C:\Program Files\ZAT\zat.exe", "--autostart"]).on()
    assert run.value("ZAT-SCS") == r'"C:\Program Files\ZAT\zat.exe" --autostart'


def test_windows_hears_the_task_manager(tmp_path: Path) -> None:
    """An odd first byte means off; switching it on here takes that back."""
    approved = registry(tmp_path / "approved")
    key = RunKey(registry(tmp_path / "run"), approved, COMMAND)
    key.on()
    approved.setValue("ZAT-SCS", QByteArray(b"\x03\x00\x00\x00"))
    assert not key.is_on()
    approved.setValue("ZAT-SCS", QByteArray(b"\x02\x00\x00\x00"))
    assert key.is_on()
    approved.setValue("ZAT-SCS", QByteArray(b"\x03\x00\x00\x00"))
    key.on()
    assert key.is_on()


def test_a_mac_gets_words_and_needs_no_quotes(tmp_path: Path) -> None:
    """It is started at login, and not again when it was ended."""
    agent = LaunchAgent(tmp_path / "zat-scs.plist", COMMAND)
    agent.on()
    entry = plistlib.loads(agent.path.read_bytes())
    assert entry["ProgramArguments"] == COMMAND
    assert entry["RunAtLoad"] is True
    assert "KeepAlive" not in entry


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the folder is that of Linux")
def test_the_entry_lies_where_the_desktop_looks(monkeypatch: pytest.MonkeyPatch, own_folders: Path) -> None:
    """XDG_CONFIG_HOME counts if it is a whole path, else the folder below the user's own."""
    here = autostart.of_this_system()
    assert isinstance(here, DesktopEntry)
    assert here.path == own_folders / "config" / "autostart" / "zat-scs.desktop"
    assert here.command[-1] == "--autostart"
    assert Path(here.command[0]).exists()
    monkeypatch.setenv("XDG_CONFIG_HOME", "")
    monkeypatch.setenv("HOME", "/nowhere")
    there = autostart.of_this_system()
    assert isinstance(there, DesktopEntry)
    assert there.path == Path("/nowhere/.config/autostart/zat-scs.desktop")
