"""Dummy background jobs for benchmarks: busy processes by a name of their own, which end with the program."""

import contextlib
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics.busy import start
from engine import processes
from engine.processes import ProcessId


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
            children.append(start(folder, name))  # noqa: PERF401 - what was started is ended, even if the next one fails
        seen = [processes.look(child.pid) for child in children]
        yield Jobs(name, tuple(look.process for look in seen if look))
    finally:
        for child in children:
            child.kill()
            child.wait()
