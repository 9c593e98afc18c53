"""What is handed out with a release: dist/packages, its checksums, and the release itself on GitHub.

python packaging/release.py collect | checksums | publish TAG
"""

import hashlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PACKAGES = DIST / "packages"
SUMS = "SHA256SUMS"
HANDED_OUT = ("*.deb", "*.dmg", "*.tar.xz", "zat-scs-setup-*.exe")


class Unready(Exception):  # noqa: N818 - what it is
    """This cannot be released; the message says why."""


def collect() -> None:
    """Copy what was made here into dist/packages, and beside it the list of its parts. Raises Unready."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    found = [path for pattern in HANDED_OUT for path in sorted(DIST.glob(pattern)) if version() in path.name]
    if not found and sys.platform == "darwin":  # there is no package of this system's own yet
        found = [folder_as_archive()]
    if not found:
        raise Unready(f"there is nothing of {' '.join(HANDED_OUT)} of {version()} in dist")
    for path in found:
        shutil.copy2(path, PACKAGES)
    for parts in (*DIST.glob("zat-scs.cdx.json"), *(DIST / "windows").glob("zat-scs.cdx.json")):
        name = "windows" if parts.parent != DIST else sys.platform.replace("darwin", "macos")
        shutil.copy2(parts, PACKAGES / f"zat-scs-{version()}-{name}.cdx.json")


def folder_as_archive() -> Path:
    """Pack dist/zat-scs; return the archive."""
    target = DIST / f"zat-scs-{version()}-macos-{platform.machine()}.tar.xz"
    with tarfile.open(target, "w:xz") as archive:
        archive.add(DIST / "zat-scs", f"zat-scs-{version()}")
    return target


def checksums(folder: Path) -> str:
    """Return a line for each file, as sha256sum checks them."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name != SUMS]
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def version() -> str:
    """Return the version of the program."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def notes(changes: str, of: str) -> str:
    """Return what the list of changes says of a version. Raises Unready."""
    found = re.search(rf"^## \[{re.escape(of)}\][^\n]*\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if found is None or not found[1].strip():
        raise Unready(f"CHANGELOG.md says nothing of {of}")
    return found[1].strip() + "\n"


def publish(tag: str) -> None:
    """Make the release of a tag that is there already, with all of dist/packages. Raises Unready."""
    if tag != f"v{version()}":
        raise Unready(f"the tag is {tag}, the version v{version()}")
    text = notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version())
    if not (PACKAGES / SUMS).exists():
        raise Unready("the checksums are missing: make checksums")
    gh = shutil.which("gh")
    if gh is None:
        raise Unready("gh, the command of GitHub, is not installed")
    words = ["release", "create", tag, "--verify-tag", "--title", f"ZAT-SCS {version()}", "--notes-file", "-"]
    files = [str(path) for path in sorted(PACKAGES.iterdir())]
    subprocess.run([gh, *words, *files], input=text, encoding="utf-8", check=True)  # noqa: S603 - what was found


def main(argv: Sequence[str]) -> int:
    """Do one of them; return the exit code: 0 done, 1 failed, 2 wrong use."""
    try:
        match argv:
            case ["collect"]:
                collect()
            case ["checksums"]:
                (PACKAGES / SUMS).write_text(checksums(PACKAGES), "utf-8", newline="\n")
            case ["publish", tag]:
                publish(tag)
            case _:
                print("release: expected collect, checksums or publish TAG", file=sys.stderr)
                return 2
    except (Unready, OSError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
