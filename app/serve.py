"""Starts a llama-server with unified memory and the flags that this program needs of it; shows what it added."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.client.view import flag
from engine.config.settings import Settings
from engine.config.store import data_folder
from engine.orchestration import uvm

_WRONG_USE = 2


def serve(words: Sequence[str], settings: Settings) -> int:
    """Become the server (POSIX), or run it and return its exit code (Windows)."""
    command = list(words)[1:] if list(words[:1]) == ["--"] else list(words)
    if not command:
        return _refuse("serve: expected the server's command line, as in: zat-scs serve -- llama-server -m MODEL.gguf")
    program = shutil.which(command[0])
    if program is None:
        return _refuse(f"serve: there is no program {command[0]}")
    added = additions(command, Path(settings.slot_save_path or data_folder() / "slots"))
    folder = flag((*command, *added), "--slot-save-path")
    if folder and not Path(folder).exists():
        Path(folder).mkdir(parents=True, mode=0o700)
    full = [*command, *added]
    print(f"{uvm.VARIABLE}=1 {shlex.join(full)}", file=sys.stderr, flush=True)  # noqa: T201 - shows what was added
    variables = uvm.with_flag(os.environ)
    if sys.platform == "win32":
        return subprocess.run([program, *full[1:]], env=variables, check=False).returncode  # noqa: S603 - as asked
    return os.execve(program, full, variables)  # noqa: S606 - as asked: it takes this process's place and signals


def additions(command: Sequence[str], slots: Path) -> list[str]:
    """Return the flags that this command line lacks."""
    line, added = tuple(command), []
    if flag(line, "--slot-save-path") is None:
        added += ["--slot-save-path", f"{slots}{os.sep}"]
    if "--metrics" not in line:
        added.append("--metrics")
    return added


def _refuse(sentence: str) -> int:
    print(f"zat-scs: {sentence}", file=sys.stderr)  # noqa: T201
    return _WRONG_USE
