"""The installer for Windows, in a Windows of wine's: what it brings, what it takes away again, and when it refuses.

The program is a stand-in that writes down how it is called. With INSTALLER=FILE.exe that installer is tried, too, with
the real program in it: under wine, or on the Windows that the tests run on, where nothing may be installed yet.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from helpers.desktop import needs
from helpers.wait import wait_until
from helpers.windows_machine import HKCU, WindowsMachine, this_machine, wine_machine

ROOT = Path(__file__).parents[2]
UNINSTALL = rf"{HKCU}\Uninstall\ZAT-SCS"
RUN, RUN_ONCE = rf"{HKCU}\Run", rf"{HKCU}\RunOnce"
APPROVED = rf"{HKCU}\Explorer\StartupApproved\Run"
GIVEN = os.environ.get("INSTALLER", "")
needs_wine = needs("makensis", "wine", "wineboot", "wineserver")


def packaging(name: str) -> ModuleType:
    """Import a script of packaging/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


installer = packaging("installer")


def make_bundle(folder: Path, *more: str) -> Path:
    """Make the folder of a bundle out of stand-ins, with further files of these names."""
    folder.mkdir()
    first, *others = (folder / name for name in installer.PROGRAMS)
    script = Path(__file__).with_name("stand_in.nsi")
    subprocess.run(["makensis", "-V2", "-WX", f"-DOUT={first}", str(script)], check=True, capture_output=True)
    for other in others:
        shutil.copy(first, other)
    for name in more:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("data", "ascii")
    return folder


@dataclass
class Installation:
    """A machine, two installers, and what the stand-in of the program is told and tells."""

    machine: WindowsMachine
    folder: Path  # for the stand-in
    old: Path
    new: Path

    def __post_init__(self) -> None:
        self.machine.env["STAND_IN"] = self.machine.there(self.folder)
        self.place = self.machine.path("LOCALAPPDATA", "Programs", "ZAT-SCS")
        self.data = self.machine.path("LOCALAPPDATA", "zat-scs")
        self.shortcut = self.machine.path("APPDATA", "Microsoft", "Windows", "Start Menu", "Programs", "ZAT-SCS.lnk")

    @property
    def said(self) -> list[str]:
        """How the program was called, and a tray's end."""
        path = self.folder / "said"
        return path.read_text("utf-8").splitlines() if path.exists() else []

    def names(self) -> set[str]:
        """Return the files that are installed."""
        return {path.relative_to(self.place).as_posix() for path in self.place.rglob("*") if path.is_file()}

    def install(self, setup: Path, *words: str) -> int:
        """Run an installer without a window; return its exit code."""
        return self.machine.run(setup, "/S", *words)

    def uninstall(self, *words: str) -> int:
        """Run the uninstaller in its place, so that its exit code can be seen; it cannot delete itself there."""
        place = self.machine.there(self.place)
        return self.machine.run(self.place / "uninstall.exe", "/S", *words, f"_?={place}")

    def uninstall_as_windows_does(self) -> None:
        """Run what Windows would, without a window. It goes on from another folder, so its end is awaited."""
        command = self.machine.values(UNINSTALL)["QuietUninstallString"]
        assert command == f'"{self.machine.there(self.place)}\\uninstall.exe" /S'
        self.machine.run(self.place / "uninstall.exe", "/S")
        wait_until(lambda: not self.place.exists(), timeout=120, what="the uninstaller")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WindowsMachine]:
    """Set up a Windows once, which takes a while."""
    with wine_machine(tmp_path_factory.mktemp("wine") / "prefix") as machine:
        yield machine


@pytest.fixture(scope="module")
def setups(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make two versions of the installer, with different files."""
    folder = tmp_path_factory.mktemp("setups")
    old = make_bundle(folder / "old", "_internal/old.dll", "_internal/deep/er/both $.txt")
    new = make_bundle(folder / "new", "_internal/new.dll", "_internal/deep/er/both $.txt")
    return installer.build(old, folder, "0.1.0"), installer.build(new, folder, "0.2.0")


@pytest.fixture
def installation(machine: WindowsMachine, setups: tuple[Path, Path], tmp_path: Path) -> Iterator[Installation]:
    """Return a machine on which nothing is installed, and leave it so."""
    installation = Installation(machine, tmp_path, *setups)
    yield installation
    for name in ("deaf", "held", "runs"):
        (tmp_path / name).unlink(missing_ok=True)
    if installation.place.exists():
        assert installation.uninstall() == 0
        shutil.rmtree(installation.place, ignore_errors=True)
    shutil.rmtree(installation.data, ignore_errors=True)


@needs_wine
@pytest.mark.timeout(600)
def test_installed_and_removed_without_a_trace(installation: Installation, tmp_path: Path) -> None:
    """Files, start menu and registry are there, with quotes where Windows needs them; removed, all is as before.

    The entries that the program itself writes, for the login and for a give-back, go, too.
    """
    machine, place = installation.machine, installation.place
    files, registry = machine.files(), machine.registry(tmp_path)
    assert installation.install(installation.old, "/AUTOSTART=1") == 0
    there = machine.there(place)
    assert installation.names() == {
        *installer.PROGRAMS, "uninstall.exe", "_internal/old.dll", "_internal/deep/er/both $.txt",
    }  # fmt: skip
    assert machine.values(RUN)["ZAT-SCS"] == f'"{there}\\zat-scs-tray.exe" --autostart'
    values = machine.values(UNINSTALL)
    assert int(values.pop("EstimatedSize"), 16) > 50
    assert values == {
        "DisplayName": "ZAT-SCS",
        "DisplayVersion": "0.1.0",
        "Publisher": "ZAT-SCS contributors",
        "DisplayIcon": f'"{there}\\zat-scs-tray.exe"',
        "InstallLocation": there,
        "UninstallString": f'"{there}\\uninstall.exe"',
        "QuietUninstallString": f'"{there}\\uninstall.exe" /S',
        "NoModify": "0x1",
        "NoRepair": "0x1",
    }
    assert installation.shortcut.exists()
    machine.write(RUN_ONCE, "zat-scs-release", f'"{there}\\zat-scs-tray.exe" release')
    machine.write(APPROVED, "ZAT-SCS", "030000000000000000000000", "REG_BINARY")
    installation.uninstall_as_windows_does()
    assert installation.said == ["zat-scs.exe quit", "zat-scs.exe release"]
    left = machine.files() - files
    # NSIS lets a copy of the uninstaller lie for Windows to delete at its next start; Programs is Windows' own.
    assert {path for path in left if not path.is_relative_to(machine.path("TEMP"))} == {place.parent}
    left = machine.registry(tmp_path) - registry
    assert {line for line in left if "zat" in line.lower()} == set()


@needs_wine
@pytest.mark.timeout(600)
def test_nothing_starts_on_login_unless_asked(installation: Installation) -> None:
    """And an upgrade leaves that as it is, until it is told otherwise."""
    machine = installation.machine
    assert installation.install(installation.old) == 0
    assert "ZAT-SCS" not in machine.values(RUN)
    assert installation.install(installation.new) == 0
    assert "ZAT-SCS" not in machine.values(RUN)
    assert installation.install(installation.new, "/AUTOSTART=1") == 0
    assert installation.install(installation.new) == 0
    assert "ZAT-SCS" in machine.values(RUN)
    assert installation.install(installation.new, "/AUTOSTART=0") == 0
    assert "ZAT-SCS" not in machine.values(RUN)


@needs_wine
@pytest.mark.timeout(600)
def test_an_upgrade_ends_the_tray_takes_its_place_and_starts_it_again(installation: Installation) -> None:
    """Of the old version no file is left; the settings are, and the entry for the login keeps the user's own switch."""
    machine, place = installation.machine, installation.place
    assert installation.install(installation.old, "/AUTOSTART=1") == 0
    machine.write(APPROVED, "ZAT-SCS", "030000000000000000000000", "REG_BINARY")
    installation.data.mkdir()
    (installation.data / "settings.toml").touch()
    with subprocess.Popen(machine.command(place / "zat-scs-tray.exe", "--autostart"), env=machine.env) as tray:
        wait_until((installation.folder / "runs").exists, timeout=60, what="the tray")
        assert installation.install(installation.new) == 0
        assert tray.wait(60) == 0
    assert installation.names() == {
        *installer.PROGRAMS, "uninstall.exe", "_internal/new.dll", "_internal/deep/er/both $.txt",
    }  # fmt: skip
    assert (installation.data / "settings.toml").exists()
    assert machine.values(UNINSTALL)["DisplayVersion"] == "0.2.0"
    assert machine.values(APPROVED)["ZAT-SCS"].startswith("03")
    wait_until(lambda: len(installation.said) == 4, timeout=60, what="the new tray")
    first, *others, last = installation.said
    assert (first, last) == ("zat-scs-tray.exe --autostart",) * 2
    assert others == ["zat-scs.exe quit", "zat-scs-tray.exe ended"]


@needs_wine
@pytest.mark.timeout(600)
def test_a_program_that_does_not_end_is_neither_killed_nor_replaced(installation: Installation) -> None:
    """Installer and uninstaller give up with 4, and all is as it was."""
    machine, place = installation.machine, installation.place
    assert installation.install(installation.old) == 0
    before, values = installation.names(), machine.values(UNINSTALL)
    (installation.folder / "deaf").touch()
    with subprocess.Popen(machine.command(place / "zat-scs-tray.exe"), env=machine.env) as tray:
        wait_until((installation.folder / "runs").exists, timeout=60, what="the tray")
        assert installation.install(installation.new) == 4
        assert installation.uninstall("/REMOVEDATA=1") == 4
        assert (installation.names(), machine.values(UNINSTALL), tray.poll()) == (before, values, None)
        (installation.folder / "runs").unlink()
        assert tray.wait(60) == 0


@needs_wine
@pytest.mark.timeout(600)
def test_nothing_is_removed_while_a_job_is_held(installation: Installation) -> None:
    """The uninstaller gives up with 3; an upgrade goes on, since the new version will give back."""
    assert installation.install(installation.old) == 0
    (installation.folder / "held").touch()
    before = installation.names()
    assert installation.uninstall("/REMOVEDATA=1") == 3
    assert installation.names() == before
    assert installation.machine.values(UNINSTALL)["DisplayVersion"] == "0.1.0"
    assert installation.install(installation.new) == 0
    assert installation.machine.values(UNINSTALL)["DisplayVersion"] == "0.2.0"


@needs_wine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", [(), ("/REMOVEDATA=1",)])
def test_settings_are_removed_only_if_asked(installation: Installation, words: tuple[str, ...]) -> None:
    """Then saved contexts are forgotten first; whatever else somebody put beside the program stays in any case."""
    assert installation.install(installation.old) == 0
    installation.data.mkdir()
    (installation.data / "settings.toml").touch()
    (installation.place / "_internal" / "somebody's.txt").touch()
    assert installation.uninstall(*words) == 0
    assert installation.data.exists() is not bool(words)
    assert ("zat-scs.exe forget" in installation.said) is bool(words)
    assert installation.names() - {"uninstall.exe"} == {"_internal/somebody's.txt"}


@pytest.mark.skipif(not GIVEN, reason="INSTALLER names none")
@pytest.mark.timeout(900)
def test_the_given_installer_with_the_real_program(tmp_path: Path) -> None:
    """Installed without a window, the program says its version; an upgrade and the removal leave nothing behind."""

    def play(machine: WindowsMachine) -> None:
        assert not machine.values(UNINSTALL), "something is installed here already"
        installation = Installation(machine, tmp_path, Path(GIVEN), Path(GIVEN))
        assert installation.install(installation.old, "/AUTOSTART=1") == 0
        version = machine.values(UNINSTALL)["DisplayVersion"]
        assert machine.ask(installation.place / "zat-scs.exe", "--version").strip() == f"zat-scs {version}"
        assert machine.run(installation.place / "zat-scs.exe", "engine", "--for", "2") == 0
        assert installation.install(installation.new) == 0
        assert "ZAT-SCS" in machine.values(RUN)
        assert installation.uninstall("/REMOVEDATA=1") == 0
        (installation.place / "uninstall.exe").unlink()
        installation.place.rmdir()  # nothing else is in there any more
        assert not installation.data.exists()
        assert not installation.shortcut.exists()
        assert machine.values(UNINSTALL) == {}
        assert "ZAT-SCS" not in machine.values(RUN)

    if sys.platform == "win32":
        play(this_machine())
    else:
        with wine_machine(tmp_path / "prefix") as machine:
            play(machine)


def test_what_is_deleted_is_what_was_installed(tmp_path: Path) -> None:
    """Each file by its name, folders from the inside out and only if empty; a dollar sign is none of NSIS'."""
    for name in ("b/c/d.txt", "b/e $x.txt", "a.exe"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert installer.deletions(tmp_path).splitlines() == [
        r'Delete "$INSTDIR\b\e $$x.txt"',
        r'Delete "$INSTDIR\b\c\d.txt"',
        r'Delete "$INSTDIR\a.exe"',
        r'RMDir "$INSTDIR\b\c"',
        r'RMDir "$INSTDIR\b"',
    ]


def test_no_installer_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what is missing, and fails."""
    (tmp_path / "zat-scs.exe").touch()
    assert installer.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"installer: {tmp_path} is no Windows bundle: it lacks zat-scs-tray.exe\n"


@needs("makensis", "osslsigncode", "openssl")
def test_signed_where_a_certificate_is_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs, uninstaller and installer carry a signature, and the name says nothing; else it says `unsigned`."""
    bundle = make_bundle(tmp_path / "bundle")
    assert installer.build(bundle, tmp_path, "0.1.0").name == "zat-scs-setup-0.1.0-unsigned.exe"
    certificate = make_certificate(tmp_path, password="a b")
    monkeypatch.setenv("WINDOWS_CERTIFICATE", str(certificate))
    monkeypatch.setenv("WINDOWS_CERTIFICATE_PASSWORD", "a b")
    signed = installer.build(bundle, tmp_path, "0.1.0")
    assert signed.name == "zat-scs-setup-0.1.0.exe"
    for program in (signed, *(bundle / name for name in installer.PROGRAMS)):
        look = ["osslsigncode", "extract-signature", "-in", program, "-out", tmp_path / "signature"]
        assert subprocess.run(look, check=False, capture_output=True).returncode == 0, f"{program.name} is not signed"
        (tmp_path / "signature").unlink()
    monkeypatch.setenv("WINDOWS_CERTIFICATE_PASSWORD", "wrong")
    with pytest.raises(installer.Unusable, match=r"sign\.sh failed"):
        installer.build(bundle, tmp_path, "0.1.0")


def make_certificate(folder: Path, password: str) -> Path:
    """Make a certificate that nobody trusts, with its key."""
    key, certificate, both = (folder / name for name in ("key.pem", "certificate.pem", "both.pfx"))
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test", "-days", "2"]
    subprocess.run([*new, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    pack = ["openssl", "pkcs12", "-export", "-inkey", key, "-in", certificate, "-passout", f"pass:{password}"]
    subprocess.run([*pack, "-out", both], check=True, capture_output=True)
    return both
