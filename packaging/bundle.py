"""Makes dist/zat-scs: the program with all it needs, its licences, and beside it the list of its parts.

    python packaging/bundle.py

What goes in comes from packaging/requirements-bundle.txt, by hash, into an environment of its own. Nothing is made anew
as long as nothing has changed.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "packaging"
LOCK = HERE / "requirements-bundle.txt"
BUILD = ROOT / "build" / "bundle"
ENVIRONMENT = ROOT / "build" / "bundle-venv"
DIST = ROOT / "dist"
SCRIPTS = ("bundle.py", "entry.py", "licences.py", "part.py", "parts.py", "sbom.py", "windows_files.py", "zat-scs.spec")
SOURCES = (
    *("LICENSE", "app", "diagnostics", "engine", "pyproject.toml", "resources/controls", "resources/icons"),
    *(f"packaging/{name}" for name in (*SCRIPTS, "licences", LOCK.name)),
)
LONG_AGO = "315532800"  # the first moment a zip file can name: no file tells when it was built
METADATA = (
    "Metadata-Version: 2.4\nName: zat-scs\nVersion: {version}\nSummary: {description}\nLicense-Expression: {license}\n"
)


def main() -> int:
    """Make it, unless it is there; return 0, or 1 with a word about why."""
    state = fingerprint(sources())
    stamp = BUILD / "stamp"
    if stamp.exists() and stamp.read_text("utf-8") == state and (DIST / "zat-scs").exists():
        print("bundle: dist/zat-scs is up to date")
        return 0
    stamp.unlink(missing_ok=True)
    try:
        python = environment()
        prepare(python)
        freeze(python)
        run(python, HERE / "licences.py", BUILD / "contents.json", DIST / "zat-scs" / "licences")
        run(python, HERE / "sbom.py", BUILD / "contents.json", DIST / "zat-scs.cdx.json")
    except subprocess.CalledProcessError as error:
        shutil.rmtree(DIST / "zat-scs", ignore_errors=True)  # half of it must not be taken for the whole
        print(f"bundle: failed: {' '.join(map(str, error.cmd[1:4]))} …", file=sys.stderr)
        return 1
    stamp.write_text(state, "utf-8")
    print(f"bundle: made {(DIST / 'zat-scs').relative_to(ROOT)}")
    return 0


def sources() -> Iterator[Path]:
    """Yield all files that the bundle depends on, in an order that is always the same."""
    for name in SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def fingerprint(paths: Iterator[Path]) -> str:
    """Return what changes with any of these files, with Python, and with the place of it all."""
    digest = hashlib.sha256(f"{sys.version} {ROOT}".encode())
    for path in paths:
        digest.update(f"{path.relative_to(ROOT)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def environment() -> Path:
    """Return the interpreter of an environment that holds what the lock says, and nothing else."""
    python = ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp, state = ENVIRONMENT / ".stamp", fingerprint(iter([LOCK]))
    if stamp.exists() and stamp.read_text("utf-8") == state:
        return python
    print("bundle: installing what the lock says")
    venv.create(ENVIRONMENT, clear=True, with_pip=True)
    # Wheels only: building one would fetch tools that no hash vouches for.
    words = ["install", "-qq", "--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", LOCK]
    words += ["--report", ENVIRONMENT / "report.json"]
    run(python, "-m", "pip", "--disable-pip-version-check", *words)
    stamp.write_text(state, "utf-8")
    return python


def prepare(python: Path) -> None:
    """Write what the spec asks for: the version as Python finds it, and icon and version as Windows does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / "METADATA").write_text(METADATA.format_map(project), "utf-8")
    run(python, HERE / "windows_files.py", BUILD)


def freeze(python: Path) -> None:
    """Let PyInstaller make the folder."""
    shutil.rmtree(DIST / "zat-scs", ignore_errors=True)
    places = ("--workpath", BUILD / "work", "--distpath", DIST)
    run(python, "-m", "PyInstaller", "--noconfirm", "--log-level=ERROR", *places, HERE / "zat-scs.spec")


def run(python: Path, *words: object) -> None:
    """Run a step. The same sources give the same bytes: nothing may depend on the time, or on a random order."""
    # pynput looks for a screen while it is looked through; the one for tests needs none.
    fixed = {
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": LONG_AGO,
        "PYNPUT_BACKEND": "dummy",
        "QT_QPA_PLATFORM": "offscreen",
    }
    subprocess.run([str(python), *map(str, words)], check=True, env={**os.environ, **fixed})  # noqa: S603 - our steps


if __name__ == "__main__":
    sys.exit(main())
