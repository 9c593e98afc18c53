#!/usr/bin/env python3
"""Makes the packages for Linux out of the bundle: pack_linux.py deb|tarball [BUNDLE [OUT]]. Needs dpkg-deb, tar and xz.

Twice the same bundle makes twice the same bytes: names are sorted, owners are root, times are those of the last change.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINUX = ROOT / "packaging" / "linux"
NAME = "zat-scs"
COMPONENT = "local.zat_scs.zat_scs"
SIZES = (16, 22, 24, 32, 48, 64, 128, 256)  # pixels; all that the hicolor theme has up to 256
# What the bundle leaves to the system, each library with the package that has it; a test compares.
LIBRARIES = {
    "ld-linux-x86-64.so.2": "libc6",
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libasound.so.2": "libasound2",
    "libc.so.6": "libc6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libdl.so.2": "libc6",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libm.so.6": "libc6",
    "libpthread.so.0": "libc6",
    "libresolv.so.2": "libc6",
    "librt.so.1": "libc6",
    "libutil.so.1": "libc6",
    "libwayland-client.so.0": "libwayland-client0",
    "libwayland-cursor.so.0": "libwayland-cursor0",
    "libwayland-egl.so.1": "libwayland-egl1",
    "libxcb.so.1": "libxcb1",
}
DOC = Path("usr/share/doc") / NAME


class Unusable(Exception):  # noqa: N818 - what it is
    """No package can be made; the message says why."""


def version() -> str:
    """Return the version of the program."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def epoch() -> int:
    """Return the Unix time that all files of a package bear: of the last commit, or of the list of changes."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    answer = subprocess.run(git, check=False, capture_output=True, text=True)  # noqa: S603 - fixed words
    return int(answer.stdout.strip() or (ROOT / "CHANGELOG.md").stat().st_mtime)


def elf_files(folder: Path) -> Iterator[Path]:
    """Yield all programs and libraries."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def asked_of_system(bundle: Path) -> tuple[set[str], str]:
    """Return the libraries that the bundle needs and does not hold, and the glibc that it needs at least."""
    files = list(elf_files(bundle))
    command = ["objdump", "-p", *map(str, files)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - fixed words
    needed = set(re.findall(r"^ +NEEDED +(\S+)", said, re.MULTILINE))
    glibc = max((tuple(map(int, v.split("."))) for v in re.findall(r"\bGLIBC_([\d.]+)\b", said)), default=(2, 17))
    return needed - {path.name for path in bundle.rglob("*")}, ".".join(map(str, glibc))


def depends(bundle: Path) -> str:
    """Return the packages that this bundle needs. Raises Unusable."""
    needed, glibc = asked_of_system(bundle)
    if strange := sorted(needed - LIBRARIES.keys()):
        raise Unusable(f"the bundle needs libraries that no package is named for: {', '.join(strange)}")
    packages = {LIBRARIES[library] for library in needed} - {"libc6"}
    return ", ".join([f"libc6 (>= {glibc})", *sorted(packages)])


def icons(share: Path) -> None:
    """Draw the icon in each size, and put the drawing itself beside them."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    sys.path.insert(0, str(ROOT))
    from PySide6.QtGui import QGuiApplication  # noqa: PLC0415 - a tarball needs none

    from app import icons as drawn  # noqa: PLC0415

    application = QGuiApplication.instance() or QGuiApplication([])
    for size in SIZES:
        file = share / "icons/hicolor" / f"{size}x{size}" / "apps" / f"{NAME}.png"
        file.parent.mkdir(parents=True)
        if not drawn.pixmap(drawn.APP, size).save(str(file)):
            raise Unusable(f"{file} cannot be written")
    del application
    put(ROOT / "resources/icons/zat-scs.svg", share / "icons/hicolor/scalable/apps/zat-scs.svg")


def put(source: Path, target: Path, values: Mapping[str, str] | None = None) -> None:
    """Copy a text file, with each @NAME@ replaced."""
    text = source.read_text("utf-8")
    for name, value in (values or {}).items():
        text = text.replace(f"@{name}@", value)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, "utf-8")


def written(day: int, form: str) -> str:
    """Return a time as text, in UTC and English."""
    command = ["date", "-u", "-d", f"@{day}", form]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603


def fill(root: Path, bundle: Path) -> None:
    """Lay out what the package holds."""
    day = epoch()
    shutil.copytree(bundle, root / "usr/lib" / NAME, symlinks=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin" / NAME).symlink_to(f"../lib/{NAME}/{NAME}")
    share = root / "usr/share"
    icons(share)
    put(LINUX / f"{NAME}.desktop", share / "applications" / f"{NAME}.desktop")
    metainfo = f"{COMPONENT}.metainfo.xml"
    put(LINUX / metainfo, share / "metainfo" / metainfo, {"VERSION": version(), "DATE": written(day, "+%F")})
    (root / "usr/lib/systemd/user").mkdir(parents=True)
    (root / f"usr/lib/systemd/user/{NAME}.service").write_text(unit(), "utf-8")
    put(LINUX / "lintian-overrides", share / "lintian/overrides" / NAME)
    put(LINUX / "copyright", root / DOC / "copyright", {"LICENSE": debian_text(ROOT / "LICENSE")})
    changes = f"{NAME} ({version()}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- ZAT-SCS contributors "
    changes += f"<contributors@zat-scs.invalid>  {written(day, '+%a, %d %b %Y %H:%M:%S +0000')}\n"
    for name, text in (("changelog", changes.encode()), ("CHANGELOG.md", (ROOT / "CHANGELOG.md").read_bytes())):
        (root / DOC / f"{name}.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def unit() -> str:
    """Return the service as it is once it is installed: without the hint how to copy it."""
    text = (ROOT / "packaging" / f"{NAME}.service").read_text("utf-8").replace("%h/.local/bin/", "/usr/bin/")
    return re.sub(r"\A#.*?\n(?=\[)", "", text, flags=re.DOTALL)


def debian_text(file: Path) -> str:
    """Return a text as a field of Debian's takes it: indented, with a dot for an empty line."""
    lines = file.read_text("utf-8").strip().splitlines()
    return "\n".join(f" {line.strip()}" if line.strip() else " ." for line in lines)


def set_modes(root: Path) -> None:
    """Let everybody read everything and nobody change it."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            program = path.stat().st_mode & 0o100 and ".so" not in path.name
            path.chmod(0o755 if path.is_dir() or program else 0o644)


def make_deb(bundle: Path, out: Path, packed: Sequence[str] = ("-Zxz",)) -> Path:
    """Make the package for Debian and Ubuntu in `out`; return it. `packed`: how, to dpkg-deb. Raises Unusable."""
    needed = depends(bundle)
    with tempfile.TemporaryDirectory(prefix="zat-scs-deb-") as temporary:
        root = Path(temporary) / NAME
        root.mkdir()
        fill(root, bundle)
        size = sum(path.lstat().st_size for path in root.rglob("*")) // 1024
        control = root / "DEBIAN"
        put(LINUX / "control", control / "control", {"VERSION": version(), "SIZE": str(size), "DEPENDS": needed})
        put(LINUX / "prerm", control / "prerm")
        set_modes(root)
        (control / "prerm").chmod(0o755)
        file = out / f"{NAME}_{version()}_amd64.deb"
        call = ["dpkg-deb", "--root-owner-group", *packed, "--build", str(root), str(file)]
        run(call, SOURCE_DATE_EPOCH=str(epoch()))
    return file


def make_tarball(bundle: Path, out: Path, packed: str = "-6 -T0") -> Path:
    """Make the packed folder in `out`; return it. `packed`: how, to xz. Raises Unusable."""
    top = f"{NAME}-{version()}"
    with tempfile.TemporaryDirectory(prefix="zat-scs-tar-") as temporary:
        root = Path(temporary) / top
        shutil.copytree(bundle, root, symlinks=True)
        values = {"VERSION": version(), "GLIBC": asked_of_system(bundle)[1]}
        put(LINUX / "README.txt", root / "README.txt", values)
        put(ROOT / "packaging" / f"{NAME}.service", root / f"{NAME}.service")
        put(ROOT / "LICENSE", root / "LICENSE")
        set_modes(root)
        file = out / f"{top}-linux-x86_64.tar.xz"
        order = ["--sort=name", f"--mtime=@{epoch()}", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]
        run(["tar", *order, "-C", temporary, "-cJf", str(file), top], XZ_OPT=packed)
    return file


def run(command: list[str], **variables: str) -> None:
    """Run a tool quietly. Raises Unusable with what it said."""
    environment = {**os.environ, **variables}
    answer = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    if answer.returncode:
        raise Unusable(f"{command[0]} failed: {answer.stderr.strip() or answer.stdout.strip()}")


MAKERS = {"deb": make_deb, "tarball": make_tarball}


def make(kind: str, bundle: Path, out: Path) -> Path:
    """Make one package in `out`, which is made, too; return it. Raises Unusable."""
    if not (bundle / NAME).is_file():
        raise Unusable(f"there is no bundle in {bundle}: `make bundle` makes one")
    out.mkdir(parents=True, exist_ok=True)
    return MAKERS[kind](bundle, out)


def main() -> int:
    """Make one package; 1 and a sentence where that cannot be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kind", choices=MAKERS)
    parser.add_argument("bundle", nargs="?", type=Path, default=ROOT / "dist" / NAME)
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "dist")
    options = parser.parse_args()
    try:
        file = make(options.kind, options.bundle, options.out)
    except Unusable as error:
        print(f"pack_linux: {error}", file=sys.stderr)
        return 1
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
