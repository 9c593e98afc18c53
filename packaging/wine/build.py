"""Builds the Windows program on Linux, under wine: dist/windows/zat-scs, for trying it and the installer, not to ship.

    python packaging/wine/build.py       (`make windows-bundle`; needs wine, mingw-w64 and Python 3.11)

No package brings python.exe, but the wheel of panda3d brings python311.dll and the modules of Windows; the rest of the
standard library is that of the Python that runs this. All wheels are taken by hash (requirements.txt beside this file).
What ships is built on Windows by the same spec, with the versions of constraints.txt.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

import bundle  # noqa: E402 - beside this folder, which is no package

WORK = ROOT / "build" / "wine"
PYTHON = WORK / "python"
PACKAGES = PYTHON / "Lib" / "site-packages"
OUT = ROOT / "dist" / "windows"
TOOLS = {
    "wine": "wine",
    "wineboot": "wine",
    "wineserver": "wine",
    "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64-win32",
}
TARGET = ("--only-binary=:all:", "--platform=win_amd64", "--python-version=3.11", "--implementation=cp", "--no-deps")
_PANDA = "panda3d"
_LEFT_OUT = ("__pycache__", "config-3*", "idlelib", "lib-dynload", "lib2to3", "site-packages", "test", "tests",
             "tkinter", "turtledemo", "_sysconfigdata*")  # fmt: skip
_FREEZE = "import sys, PyInstaller.__main__ as p; p.run(sys.argv[1:])"


def main() -> int:
    """Build it; return the exit code."""
    missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if missing:
        print(f"windows-bundle: missing here: {' '.join(missing)} (packages of Debian)", file=sys.stderr)
        return 1
    if sys.version_info[:2] != (3, 11):
        print("windows-bundle: the Windows Python is 3.11, so this has to run with 3.11, too", file=sys.stderr)
        return 1
    try:
        assemble(download())
        bundle.prepare(Path(sys.executable))
        with wine() as env:
            freeze(env)
    except subprocess.CalledProcessError as error:
        print(f"windows-bundle: failed: {' '.join(map(str, error.cmd[:4]))} …", file=sys.stderr)
        return 1
    print(f"windows-bundle: made {(OUT / 'zat-scs').relative_to(ROOT)}")
    return 0


def download() -> Path:
    """Fetch the wheels; return their folder."""
    wheels = WORK / "wheels"
    words = ("-r", HERE / "requirements.txt", "--require-hashes", "-d", wheels)
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-qq", *TARGET, *words)
    return wheels


def assemble(wheels: Path) -> None:
    """Put a Windows Python together, with all packages."""
    shutil.rmtree(PYTHON, ignore_errors=True)
    (panda,) = wheels.glob(f"{_PANDA}-*.whl")
    take_interpreter(panda)
    shutil.copytree(sysconfig.get_path("stdlib"), PYTHON / "Lib", ignore=shutil.ignore_patterns(*_LEFT_OUT))
    others = [wheel for wheel in wheels.glob("*.whl") if wheel != panda]
    words = ("--no-index", "--no-compile", "--target", PACKAGES, *others)
    run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq", *TARGET, *words)
    shutil.copy(HERE / "psutil_under_wine.py", PACKAGES)
    with (PACKAGES / "psutil" / "__init__.py").open("a", encoding="utf-8") as module:
        module.write("\nimport psutil_under_wine\n")
    compiler = "x86_64-w64-mingw32-gcc"
    run(compiler, "-O2", "-municode", "-o", PYTHON / "python.exe", HERE / "python.c")
    (WORK / "python3.def").write_text(forwarders(PYTHON / "python311.dll"), "utf-8")
    (WORK / "empty.c").write_text("int DllMain(void *a, unsigned b, void *c) { return 1; }\n", "utf-8")
    words = (WORK / "empty.c", WORK / "python3.def")
    run(compiler, "-shared", "-nostdlib", "-e", "DllMain", "-o", PYTHON / "python3.dll", *words)


def take_interpreter(panda: Path) -> None:
    """Take Python's own libraries and modules out of the wheel; those of the C runtime are wine's."""
    (PYTHON / "DLLs").mkdir(parents=True)
    with zipfile.ZipFile(panda) as wheel:
        for member in wheel.infolist():
            folder, _, name = member.filename.partition("/")
            if folder != "deploy_libs" or not name or name.startswith(("api-ms-", "_tkinter", "tcl", "tk")):
                continue
            beside = name in ("python311.dll", "VCRUNTIME140.dll")
            (PYTHON / ("" if beside else "DLLs") / name).write_bytes(wheel.read(member))


def forwarders(library: Path) -> str:
    """Return what makes a python3.dll, which modules of the stable ABI ask for: each name leads into python311.dll."""
    sys.path.insert(0, str(PACKAGES))
    import pefile  # noqa: PLC0415 - one of the wheels

    names = [symbol.name.decode() for symbol in pefile.PE(str(library)).DIRECTORY_ENTRY_EXPORT.symbols if symbol.name]
    sys.path.remove(str(PACKAGES))
    return "\n".join(["LIBRARY python3.dll", "EXPORTS", *(f"  {name} = python311.{name}" for name in names), ""])


@contextlib.contextmanager
def wine() -> Iterator[Mapping[str, str]]:
    """Set up a Windows of its own; end what still runs in it."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **{name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")},
            "WINEPREFIX": f"{folder}/prefix",
            "WINEDEBUG": "-all",
            "WINEDLLOVERRIDES": "mscoree,mshtml=;winedbg.exe,winemenubuilder.exe=d",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
        }
        run("wineboot", "-i", env=env)
        try:
            yield env
        finally:
            for word in ("-k", "-w"):
                subprocess.run(["wineserver", word], env=env, check=False)  # noqa: S603, S607 - as found above


def freeze(env: Mapping[str, str]) -> None:
    """Let the Windows PyInstaller make the folder."""
    shutil.rmtree(OUT, ignore_errors=True)
    places = ("--workpath", windows(WORK / "work"), "--distpath", windows(OUT))
    words = ("-c", _FREEZE, "--noconfirm", "--log-level=ERROR", *places, windows(ROOT / "packaging" / "zat-scs.spec"))
    run("wine", PYTHON / "python.exe", *words, env=env)


def windows(path: Path) -> str:
    """Return what wine's Windows calls this path."""
    return "Z:" + str(path).replace("/", "\\")


def run(*words: object, env: Mapping[str, str] | None = None) -> None:
    """Run a step. Its output goes through a pipe: Windows' Python does not start with a file for it."""
    done = subprocess.run(  # noqa: S603 - our own steps
        [str(word) for word in words],
        check=False,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        sys.stderr.buffer.write(done.stdout)
        done.check_returncode()


if __name__ == "__main__":
    sys.exit(main())
