"""The packages for Linux, made of the bundle: installed, run, removed."""

import configparser
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from helpers.desktop import display, needs
from helpers.job import Job, background_job, unique_name
from helpers.tray_host import icon_place, panel, window_manager
from helpers.wait import wait_until

from app import consent
from diagnostics.mock_server import StandIn
from engine import processes

ROOT = Path(__file__).parents[2]
LINUX = ROOT / "packaging" / "linux"
SHORT = ("-Zgzip", "-z1")  # to dpkg-deb: packed badly, but soon
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="packages of Linux"),
]
with_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="dpkg wants root")


@pytest.fixture(scope="module")
def pack() -> ModuleType:
    """Return the script that makes packages."""
    spec = importlib.util.spec_from_file_location("pack_linux", ROOT / "packaging" / "pack_linux.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def package(pack: ModuleType, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the package, packed for speed."""
    file: Path = pack.make_deb(bundle, tmp_path_factory.mktemp("deb"), SHORT)
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the root folder of a system on which nothing is installed."""
    database = tmp_path / "root" / "var" / "lib" / "dpkg"
    for folder in ("info", "updates", "triggers"):
        (database / folder).mkdir(parents=True)
    (database / "status").touch()
    return tmp_path / "root"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a new user without a screen."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    return {**kept, "HOME": str(folder)}


def dpkg(root: Path, *words: str) -> None:
    """Let dpkg work in another root folder, on which only this package is installed."""
    forced = ["--force-not-root", "--force-depends", "--force-script-chrootless"]
    command = ["dpkg", f"--root={root}", f"--log={root}/var/log", *forced, *words]
    subprocess.run(command, check=True, capture_output=True, text=True)


def files_of(root: Path) -> list[str]:
    """Return what lies there beside dpkg's own."""
    return sorted(name for path in root.rglob("*") if not (name := path.relative_to(root).as_posix()).startswith("var"))


def say(program: Path, env: dict[str, str], *words: str) -> str:
    """Run a command of the installed program; return what it prints."""
    answer = subprocess.run([program, *words], env=env, check=True, capture_output=True, text=True, timeout=120)
    return answer.stdout


@contextlib.contextmanager
def holding_engine(program: Path, env: dict[str, str], job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """Run an engine that holds a job back."""
    values = {
        "BACKGROUND_PROCESS_NAME": Path(job.process.args[0]).name,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "KEYBOARD": "off",
        "MICROPHONE": "off",
    }
    with StandIn() as server:
        words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
        command = [program, "engine", "--set", f"SERVER_URL={server.url}", *words]
        with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as engine:
            try:
                wait_until(lambda: prepared(program, env), 60, "the engine to prepare")
                wait_until(lambda: job.stopped, what="the job to be held")
                yield engine
            finally:
                engine.kill()


def prepared(program: Path, env: dict[str, str]) -> bool:
    """Ask the engine to prepare; tell whether it did."""
    command = [program, "prepare", "--for", "600"]
    return subprocess.run(command, env=env, check=False, capture_output=True, timeout=60).returncode == 0


# ---- What needs no bundle --------------------------------------------------------------------------------------------


@needs("desktop-file-validate")
def test_the_desktop_entry_is_valid() -> None:
    """The tool of the standard finds nothing, and the entry goes by the name that windows give."""
    entry = LINUX / "zat-scs.desktop"
    answer = subprocess.run(["desktop-file-validate", entry], check=False, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert f'setDesktopFileName("{entry.stem}")' in (ROOT / "app" / "main.py").read_text("utf-8")


@needs("appstreamcli")
def test_the_metainfo_is_valid(pack: ModuleType, tmp_path: Path) -> None:
    """The tool of the standard finds nothing worse than a remark."""
    name = f"{pack.COMPONENT}.metainfo.xml"
    pack.put(LINUX / name, tmp_path / name, {"VERSION": VERSION, "DATE": "2026-01-31"})
    command = ["appstreamcli", "validate", "--no-net", tmp_path / name]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout
    component = ET.parse(tmp_path / name).getroot()
    assert (component.findtext("id"), component.findtext("launchable")) == (pack.COMPONENT, "zat-scs.desktop")


def test_the_unit_starts_the_installed_program(pack: ModuleType) -> None:
    """It is the one of the source, with another path; nobody has to copy it."""
    text = pack.unit()
    unit = configparser.ConfigParser(interpolation=None)
    unit.read_string(text)
    assert unit["Service"]["ExecStart"] == "/usr/bin/zat-scs engine"
    assert unit["Service"]["ExecStopPost"] == "/usr/bin/zat-scs release"
    assert "%h" not in text
    assert "copy" not in text


@needs("sh")
def test_the_script_that_ends_engines_ends_only_those_of_its_own_program(tmp_path: Path) -> None:
    """Another program, and parts of this one, get no signal; what is asked for is the shell of every system."""
    text = (LINUX / "prerm").read_text("utf-8")
    assert subprocess.run(["sh", "-n", LINUX / "prerm"], check=False).returncode == 0
    assert text.startswith("#!/bin/sh\n")
    program = tmp_path / "usr" / "lib" / "zat-scs" / "zat-scs"
    program.parent.mkdir(parents=True)
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "300"]) as engine, subprocess.Popen(["sleep", "300"]) as other:
        try:
            env = {**os.environ, "DPKG_ROOT": str(tmp_path)}
            subprocess.run(["sh", LINUX / "prerm", "remove"], env=env, check=True, timeout=60)
            with pytest.raises(OSError):  # it has waited until nobody runs this file any more
                (Path("/proc") / str(engine.pid) / "exe").readlink()
            assert engine.wait(30) == -signal.SIGTERM
            assert other.poll() is None
        finally:
            engine.kill()
            other.kill()


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    """One sentence that says how to get one."""
    command = [sys.executable, ROOT / "packaging" / "pack_linux.py", "deb", tmp_path, tmp_path]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == f"pack_linux: there is no bundle in {tmp_path}: `make bundle` makes one\n"


# ---- What needs one --------------------------------------------------------------------------------------------------


@needs("objdump", "dpkg", "ldconfig")
def test_the_package_asks_for_what_the_bundle_leaves_to_the_system(
    pack: ModuleType, bundle: Path, package: Path
) -> None:
    """Each library that it needs and does not hold is in the package that is named for it, as far as it is here."""
    needed, glibc = pack.asked_of_system(bundle)
    asked = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, capture_output=True, text=True).stdout
    packages = {pack.LIBRARIES[library] for library in needed} - {"libc6"}
    assert asked.strip() == ", ".join([f"libc6 (>= {glibc})", *sorted(packages)])
    cache = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True).stdout
    here = needed & set(re.findall(r"^\t(\S+) \(libc6,x86-64", cache, re.MULTILINE))
    command = ["dpkg", "-S", *(f"*/{library}" for library in here)]
    owners = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for library in here:
        owner = rf"^{re.escape(pack.LIBRARIES[library])}(t64)?(:amd64)?: .*/{re.escape(library)}$"
        assert re.search(owner, owners, re.MULTILINE), library


@needs("dpkg-deb", "objdump", "xz")
def test_what_is_built_is_there(pack: ModuleType, package: Path) -> None:
    """Under the name that the documents give, with all that a desktop looks for."""
    assert package.name == f"zat-scs_{VERSION}_amd64.deb"
    listing = subprocess.run(["dpkg-deb", "-c", package], check=True, capture_output=True, text=True).stdout
    owners = {line.split()[1] for line in listing.splitlines()}
    held = {line.split()[5].removeprefix("./") for line in listing.splitlines()}
    assert owners == {"root/root"}
    icons = {f"usr/share/icons/hicolor/{size}x{size}/apps/zat-scs.png" for size in pack.SIZES}
    wanted = {
        "usr/bin/zat-scs",
        "usr/lib/zat-scs/zat-scs",
        "usr/lib/systemd/user/zat-scs.service",
        "usr/share/applications/zat-scs.desktop",
        f"usr/share/metainfo/{pack.COMPONENT}.metainfo.xml",
        "usr/share/icons/hicolor/scalable/apps/zat-scs.svg",
        "usr/share/doc/zat-scs/copyright",
    }
    assert wanted | icons <= held
    assert [line for line in listing.splitlines() if re.match(r"-..x.*\.so", line)] == []


@with_root
@needs("dpkg", "objdump", "Xvfb", "openbox", "tint2")
def test_the_package_is_installed_run_and_removed(package: Path, root: Path, home: dict[str, str]) -> None:
    """Its commands answer, its icon appears, and afterwards nothing of it is left."""
    dpkg(root, "-i", str(package))
    program = root / "usr" / "bin" / "zat-scs"
    assert say(program, home, "--version") == f"zat-scs {VERSION}\n"
    assert set(json.loads(say(program, home, "doctor", "--json"))) >= {"server", "background", "sensors"}
    answered = Path(home["HOME"], ".local", "share", "zat-scs", consent._MARKER)
    answered.parent.mkdir(parents=True)
    answered.touch()
    with display() as screen, window_manager(screen), panel(screen, root.parent / "panel"):
        words = ["--autostart", "--set", "KEYBOARD=off", "--set", "MICROPHONE=off", "--set", "BACKGROUND_METHOD=off"]
        log = root.parent / "log"
        with log.open("w") as errors:
            tray = subprocess.Popen([program, *words], env={**home, "DISPLAY": screen}, stderr=errors)
        try:
            wait_until(lambda: icon_place(screen) or tray.poll() is not None, 60, "the icon")
            assert tray.poll() is None, log.read_text()
            dpkg(root, "-r", "zat-scs")  # which ends it
            assert tray.wait(30) == 0, log.read_text()
        finally:
            tray.kill()
            tray.wait()
    assert files_of(root) == []


@with_root
@needs("dpkg", "objdump")
@pytest.mark.parametrize("again", [False, True], ids=["removed", "installed anew"])
def test_a_held_job_is_given_back_before_the_files_go(
    package: Path, root: Path, home: dict[str, str], again: bool
) -> None:
    """The package ends the engine, and the engine gives back; so it is when the package is installed over itself."""
    dpkg(root, "-i", str(package))
    with background_job(unique_name()) as job, holding_engine(root / "usr/bin/zat-scs", home, job) as engine:
        dpkg(root, *(("-i", str(package)) if again else ("-r", "zat-scs")))
        assert job.running
        assert engine.wait(30) == 0
    assert (root / "usr/lib/zat-scs/zat-scs").exists() is again


@needs("tar", "xz", "objdump")
def test_the_tarball_unpacks_to_a_folder_that_runs(
    pack: ModuleType, bundle: Path, tmp_path: Path, home: dict[str, str]
) -> None:
    """The folder has the version in its name, hints inside, and answers from where it lies, by a link, too."""
    file = pack.make_tarball(bundle, tmp_path, "-0 -T0")
    assert file.name == f"zat-scs-{VERSION}-linux-x86_64.tar.xz"
    folder = tmp_path / "a place" / f"zat-scs-{VERSION}"
    folder.parent.mkdir()
    subprocess.run(["tar", "-xf", file, "-C", folder.parent], check=True)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert f"ZAT-SCS {VERSION}" in (folder / "README.txt").read_text("utf-8")
    assert "Background  held by:" in say(folder / "zat-scs", home, "doctor")
    link = tmp_path / "zat-scs"
    link.symlink_to(folder / "zat-scs")
    assert say(link, home, "--version") == f"zat-scs {VERSION}\n"


def test_a_folder_that_is_deleted_under_an_engine_leaves_no_job_held(
    bundle: Path, tmp_path: Path, home: dict[str, str]
) -> None:
    """Its guardian is in memory: even if the engine is killed then, the job goes on."""
    folder = tmp_path / "zat-scs"
    shutil.copytree(bundle, folder, symlinks=True)
    with background_job(unique_name()) as job, holding_engine(folder / "zat-scs", home, job) as engine:
        shutil.rmtree(folder)
        engine.kill()
        engine.wait(30)
        wait_until(lambda: job.running, what="the job to go on")
    assert processes.look(engine.pid) is None
