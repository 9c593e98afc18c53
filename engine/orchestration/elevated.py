"""Whether this program runs with more rights than it needs: it watches keys and signals processes, so it should not."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.config.settings import Settings

_MARKS_OF_CONTAINERS = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True, slots=True)
class Finding:
    """What to say, and whether that is the end."""

    sentence: str
    refuse: bool


def examine(settings: Settings, environ: Mapping[str, str] = os.environ) -> Finding | None:
    """Look at the rights of this process; None: it has no more than an ordinary user.

    Root by sudo or pkexec would leave the user's files, and the record of what to undo, to root: refused. It is let
    in where it has a use (BACKGROUND_METHOD=process can hold another user's job), in containers and in CI, and where
    root has logged in as root and there is nobody else: then it is said.
    """
    if not _is_root():
        return None
    by_others = any(environ.get(name, "0") != "0" for name in ("SUDO_UID", "PKEXEC_UID"))
    if by_others and settings.background_method != "process" and not _contained(environ):
        sentence = (
            "started with the rights of root, which it does not need: start it as yourself "
            "(BACKGROUND_METHOD=process may use them, to hold the job of another user)"
        )
        return Finding(sentence, refuse=True)
    return Finding("runs with the rights of root, which it does not need", refuse=False)


def _is_root() -> bool:
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415 - there only

        return bool(ctypes.windll.shell32.IsUserAnAdmin())
    return os.geteuid() == 0


def _contained(environ: Mapping[str, str]) -> bool:
    return "CI" in environ or any(Path(mark).exists() for mark in _MARKS_OF_CONTAINERS)
