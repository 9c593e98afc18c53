"""Dummy background jobs for benchmarks: busy processes by a name of their own, which end with the program."""

import contextlib
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine import processes
from engine.processes import ProcessId

# Whoever is killed cannot end its children: so these look after their parent themselves.
_BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


@dataclass(frozen=True)
class Jobs:
    """The running processes, maybe none. `name`: of their program, which the engine looks for."""

    name: str
    running: tuple[ProcessId, ...]

    @property
    def held(self) -> bool:
        """Tell whether every one of them stands still."""
        return all(processes.stopped(job) for job in self.running)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Stop them for a while: the machine is free."""
        try:
            for job in self.running:
                processes.suspend(job)
            yield
        finally:
            for job in self.running:
                processes.resume(job)


@contextlib.contextmanager
def busy(folder: Path, count: int) -> Iterator[Jobs]:
    """Run so many busy processes; they are ended at the end, whatever state they are in."""
    name = f"zatbench{secrets.token_hex(3)}"  # a second benchmark must not reach the jobs of this one
    children: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            children.append(subprocess.Popen([_program(folder, name), "-S", "-E", "-c", _BUSY], stderr=_NULL))  # noqa: S603, PERF401 - our own interpreter; one that was started is ended even if the next one fails
        seen = [processes.look(child.pid) for child in children]
        yield Jobs(name, tuple(look.process for look in seen if look))
    finally:
        for child in children:
            child.kill()
            child.wait()


_NULL = subprocess.DEVNULL  # Ctrl+C reaches them too, and they have nothing to say about it


def _program(folder: Path, name: str) -> Path:
    """Return the interpreter by that name: a link, or a copy where links are not allowed."""
    program = folder / (f"{name}.exe" if sys.platform == "win32" else name)
    if not program.exists():
        interpreter = Path(sys.executable).resolve()
        try:
            program.symlink_to(interpreter)
        except OSError:
            shutil.copy2(interpreter, program)
    return program
