"""Makes the installer for Windows from the folder of a Windows bundle: `make installer`. Needs makensis of Linux.

    packaging/installer.py [FOLDER]

It is signed if packaging/sign.sh finds a certificate, and has `-unsigned` in its name otherwise.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIGN = ROOT / "packaging" / "sign.sh"
CERTIFICATE = "WINDOWS_CERTIFICATE"  # the variable by which sign.sh is given one
PROGRAMS = ("zat-scs.exe", "zat-scs-tray.exe")
WORK = ROOT / "build" / "installer"


class Unusable(Exception):  # noqa: N818 - what it is
    """No installer can be made; the message says why."""


def deletions(bundle: Path) -> str:
    """Return the lines of NSIS that delete exactly what is in this folder, and its folders where they are empty."""
    entries = sorted(bundle.rglob("*"), reverse=True)  # what lies deeper comes before its folder
    names = [(entry, str(entry.relative_to(bundle)).replace("/", "\\").replace("$", "$$")) for entry in entries]
    files = [f'Delete "$INSTDIR\\{name}"' for entry, name in names if not entry.is_dir()]
    folders = [f'RMDir "$INSTDIR\\{name}"' for entry, name in names if entry.is_dir()]
    return "\n".join([*files, *folders, ""])


def build(bundle: Path, out: Path, version: str) -> Path:
    """Make the installer in `out`; return it. Raises Unusable."""
    missing = [name for name in PROGRAMS if not (bundle / name).is_file()]
    if missing:
        raise Unusable(f"{bundle} is no Windows bundle: it lacks {' and '.join(missing)}")
    makensis = shutil.which("makensis")
    if makensis is None:
        raise Unusable("makensis is not installed (the package nsis of Debian and Ubuntu)")
    signed = bool(os.environ.get(CERTIFICATE))
    out.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    target = out / f"zat-scs-setup-{version}{'' if signed else '-unsigned'}.exe"
    files = WORK / "files.nsh"
    files.write_text(deletions(bundle), "utf-8")
    size = sum(entry.stat().st_size for entry in bundle.rglob("*") if entry.is_file())
    values = {
        "VERSION": version,
        "SIZE": size // 1024,
        "BUNDLE": bundle.resolve(),
        "FILES": files.resolve(),
        "ICON": WORK / "zat-scs.ico",
        "PICTURE": WORK / "wizard.bmp",
        "OUT": target.resolve(),
        **({"SIGN": SIGN} if signed else {}),
    }
    words = [f"-D{name}={value}" for name, value in values.items()]
    command = [makensis, "-V2", "-WX", "-INPUTCHARSET", "UTF8", *words, str(ROOT / "packaging" / "zat-scs.nsi")]
    try:
        if signed:
            subprocess.run([SIGN, *(bundle / name for name in PROGRAMS)], check=True)  # noqa: S603 - our own script
        draw("windows_files.py", WORK)
        draw("wizard.py", WORK / "wizard.bmp")
        subprocess.run(command, check=True)  # noqa: S603 - what was found above
        if signed:
            subprocess.run([SIGN, target], check=True)  # noqa: S603 - our own script
    except subprocess.CalledProcessError as error:
        target.unlink(missing_ok=True)  # half an installer, or one that has the name of a signed one
        raise Unusable(f"{Path(error.cmd[0]).name} failed") from None
    return target


def draw(script: str, target: Path) -> None:
    """Let a script of this folder draw, without a screen."""
    words = [sys.executable, ROOT / "packaging" / script, target]
    subprocess.run(words, check=True, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"})  # noqa: S603 - our own script


def main(argv: Sequence[str]) -> int:
    """Make it; return the exit code."""
    parser = argparse.ArgumentParser(prog="packaging/installer.py", description="Make the installer for Windows.")
    parser.add_argument("bundle", nargs="?", type=Path, default=ROOT / "dist" / "windows" / "zat-scs")
    options = parser.parse_args(argv)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    try:
        target = build(options.bundle, ROOT / "dist", version)
    except Unusable as error:
        print(f"installer: {error}", file=sys.stderr)
        return 1
    print(f"installer: {target.relative_to(ROOT)}, {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
