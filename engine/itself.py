"""How this program starts parts of itself and finds its data: from source, or frozen into a bundle.

A part is a module with `main(words) -> int`. From source the interpreter runs it, in a bundle the program itself does,
which is asked by a first word that no user needs.
"""

import importlib
import io
import os
import shutil
import sys
from collections.abc import MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path

PART = "--part"  # the first word
ROOT = Path(getattr(sys, "_MEIPASS", Path(__file__).parents[1]))  # a bundle says where it keeps its files
RESOURCES = ROOT / "resources"

_OURS = ("diagnostics.", "engine.")
_LOADER_PATH = "LD_LIBRARY_PATH"


def frozen() -> bool:
    """Tell whether this is a bundle."""
    return bool(getattr(sys, "frozen", False))


def command(module: str, *words: str) -> list[str]:
    """Return what starts a part; `environment()` belongs to it."""
    if frozen():
        return [str(program()), PART, module, *words]
    return [sys.executable, "-P", "-m", module, *words]


def environment() -> dict[str, str]:
    """Return the environment that a part needs, from whatever folder it is started."""
    if frozen():
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}


def program(*, silent: bool = False) -> Path:
    """Return the program that runs us. On Windows a bundle has two; the `silent` one opens no console window."""
    here = Path(sys.executable)
    if frozen() and sys.platform == "win32":
        return here.with_name("zat-scs-tray.exe" if silent else "zat-scs.exe")
    return here


def told(*words: str, silent: bool = False) -> list[str]:
    """Return what a user would type to have us do this, with the full path. `silent` as in program()."""
    if frozen():
        return [str(program(silent=silent)), *words]
    here = Path(sys.executable)
    script, without_console = here.with_name("zat-scs"), here.with_name("pythonw.exe")
    if sys.platform != "win32" and os.access(script, os.X_OK):
        return [str(script), *words]
    return [str(without_console if silent and without_console.exists() else here), "-m", "app", *words]


def by_name(folder: Path, name: str) -> Path:
    """Let `folder` have this program by another name, so that its processes are called so; return its path.

    The program is the bare interpreter, or that of the bundle; `home()` belongs to its environment.
    """
    there = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    if there.exists():
        return there
    if sys.platform == "win32":
        _copy_whole(there)
        return there
    target = program().resolve()
    try:
        there.symlink_to(target)
    except OSError:
        shutil.copy2(target, there)
    return there


def home() -> dict[str, str]:
    """Return what lets a copied interpreter find its library; nothing where by_name() makes links."""
    return {"PYTHONHOME": sys.base_prefix} if sys.platform == "win32" and not frozen() else {}


def _copy_whole(there: Path) -> None:
    """Copy the program with all that must lie beside it: Windows names a process by the file behind a link."""
    target = program() if frozen() else Path(getattr(sys, "_base_executable", sys.executable))  # not that of a venv
    shutil.copy2(target, there)
    if frozen():
        with suppress(FileExistsError):  # beside another name already
            shutil.copytree(ROOT, there.parent / ROOT.name)
    for library in [] if frozen() else target.parent.glob("*.dll"):
        if not (there.parent / library.name).exists():
            shutil.copy2(library, there.parent)


def run(words: Sequence[str]) -> int:
    """Be the part that `words` name: its module, then its own words; return its exit code."""
    module, *rest = words
    if not module.startswith(_OURS):
        raise SystemExit(f"zat-scs: {PART} {module}: there is no such part")
    code: int = importlib.import_module(module).main(rest)
    return code


def give_streams() -> None:
    """Let nothing that is printed fail: a Windows program without a console has no streams, code pages lack signs."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as we run
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def tidy(environ: MutableMapping[str, str]) -> None:
    """Take out what the start of a bundle has put in for this process alone: children must not get it."""
    for name in [name for name in environ if name.startswith("_PYI_")]:  # else a part goes by the name of its parent
        del environ[name]
    if sys.platform == "linux":  # where to find libraries: the bundle's are not for programs of others
        environ.pop(_LOADER_PATH, None)
        before = environ.pop(f"{_LOADER_PATH}_ORIG", None)
        if before is not None:
            environ[_LOADER_PATH] = before
