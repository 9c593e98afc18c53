"""A Windows to install on: a fresh one of wine's, thrown away afterwards, or the one that the tests run on."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PureWindowsPath

HKCU = r"HKCU\Software\Microsoft\Windows\CurrentVersion"
_QUIET = {
    "WINEDEBUG": "-all",
    # No .NET, no HTML, no debugger, and nothing into the menus of the desktop that it runs on.
    "WINEDLLOVERRIDES": "mscoree,mshtml=;winedbg.exe,winemenubuilder.exe=d",
}


class WindowsMachine:
    """Runs programs there and looks at its disk and its registry. `prefix`: wine's folder, None on a real Windows."""

    def __init__(self, prefix: Path | None) -> None:
        self._prefix = prefix
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ZAT_SCS_", "WINE"))}
        wine = {"WINEPREFIX": str(prefix), "HOME": str(prefix), **_QUIET} if prefix else {}
        for name in ("DISPLAY", "WAYLAND_DISPLAY") if prefix else ():
            clean.pop(name, None)
        self.env: dict[str, str] = {**clean, **wine}

    def command(self, program: Path | str, *words: str) -> list[str]:
        """Return what starts a Windows program from here."""
        return [*(["wine"] if self._prefix else []), str(program), *words]

    def run(self, program: Path | str, *words: str) -> int:
        """Run a program to its end, whatever it starts; return its exit code."""
        return self._run(subprocess.DEVNULL, program, *words).returncode

    def ask(self, program: Path | str, *words: str) -> str:
        """Run a program to its end and return what it, or what it starts, writes."""
        return str(self._run(subprocess.PIPE, program, *words).stdout)

    def path(self, variable: str, *parts: str) -> Path:
        """Return where something lies for the program of this test: %VARIABLE% and what follows."""
        return self.here(self._variable(variable)).joinpath(*parts)

    def here(self, path: str) -> Path:
        """Return the path that Windows knows by this name."""
        if self._prefix is None:
            return Path(path)
        windows = PureWindowsPath(path)
        return self._prefix / "dosdevices" / windows.drive.lower() / Path(*windows.parts[1:])

    def there(self, path: Path) -> str:
        """Return the name that Windows has for a path of this machine."""
        if self._prefix is None:
            return str(path)
        with contextlib.suppress(ValueError):
            return str(PureWindowsPath("C:\\", *path.relative_to(self._prefix / "dosdevices" / "c:").parts))
        return str(PureWindowsPath("Z:\\", *path.absolute().parts[1:]))

    def values(self, key: str) -> dict[str, str]:
        """Return the values of a key of the registry; empty where there is none."""
        answer = self.ask("reg", "query", key)
        found = re.findall(r"^ {4}(.+?) {4}REG_(?:SZ|DWORD|BINARY) {4}(.*?)\r?$", answer, re.MULTILINE)
        return dict(found)

    def write(self, key: str, name: str, value: str, kind: str = "REG_SZ") -> None:
        """Write a value into the registry."""
        assert self.run("reg", "add", key, "/v", name, "/t", kind, "/d", value, "/f") == 0

    def registry(self, folder: Path) -> set[str]:
        """Return all that this user's registry holds, a text for each value. `folder`: for a file in between."""
        target = folder / "registry.reg"
        assert self.run("reg", "export", "HKCU", self.there(target), "/y") == 0
        lines, key = set(), ""
        for line in target.read_text("utf-16").splitlines():
            key = line if line.startswith("[") else key
            lines.add(f"{key} {line}")
        target.unlink()
        return lines

    def files(self) -> set[Path]:
        """Return all that lies in this user's folders."""
        return set(self.path("USERPROFILE").rglob("*"))

    def _run(self, stdout: int, program: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(program, *words),
            env=self.env,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=240,
        )

    def _variable(self, name: str) -> str:
        return self.ask("cmd", "/c", f"echo %{name}%").strip()


@contextlib.contextmanager
def wine_machine(prefix: Path) -> Iterator[WindowsMachine]:
    """Set up a Windows of wine's in this folder; end what still runs in it."""
    machine = WindowsMachine(prefix)
    subprocess.run(["wineboot", "-i"], env=machine.env, check=True, capture_output=True, timeout=240)
    try:
        assert machine.run("winecfg", "-v", "win10") == 0  # an older wine says that it is Windows 7
        yield machine
    finally:
        _wineserver(machine.env, "-k")
        _wineserver(machine.env, "-w")


def this_machine() -> WindowsMachine:
    """Return the Windows that the tests run on."""
    assert sys.platform == "win32"
    return WindowsMachine(None)


def _wineserver(env: Mapping[str, str], *words: Sequence[str]) -> None:
    subprocess.run(["wineserver", *words], env=env, check=False, capture_output=True, timeout=60)
