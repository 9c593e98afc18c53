"""A stand-in for a background job: a really busy process that goes by the name the test gives it."""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine import processes
from engine.processes import ProcessId

_BUSY = """
import os, subprocess, sys, threading
def work():
    while True:
        sum(range(1000))
for _ in range(int(sys.argv[2])):
    threading.Thread(target=work, daemon=True).start()
children = [subprocess.Popen([sys.argv[0], "-S", "-E", *sys.orig_argv[3:5], "0", "0"], stdout=subprocess.PIPE)
            for _ in range(int(sys.argv[1]))]
for child in children:
    child.stdout.readline()
print(*[child.pid for child in children], flush=True)
if children:
    for child in children:
        child.wait()
else:
    work()
"""


@dataclass
class Job:
    """The running stand-in. `children` do its work where there are any; then it only waits for them."""

    process: subprocess.Popen[bytes]
    children: tuple[int, ...]

    @property
    def pid(self) -> int:
        """Number of the process that was started."""
        return self.process.pid

    @property
    def workers(self) -> tuple[ProcessId, ...]:
        """The processes that do the work."""
        return tuple(identity(pid) for pid in self.children or (self.pid,))

    @property
    def states(self) -> str:
        """The letters of the working processes, such as "RR" or "TT"."""
        return "".join(processes.state(pid) or "-" for pid in self.children or (self.pid,))

    @property
    def running(self) -> bool:
        """Every working process may run."""
        return set(self.states) <= {"R", "S"}

    @property
    def stopped(self) -> bool:
        """Every working process stands still."""
        return set(self.states) == {"T"}

    def kill(self) -> None:
        """End it by force, children first."""
        for pid in (*self.children, self.pid):
            if self.process.poll() is None or pid != self.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.process.wait()


def unique_name() -> str:
    """Return a name that no other process has: a test never reaches a job that it did not start."""
    return f"zatjob{secrets.token_hex(4)}"


def identity(pid: int) -> ProcessId:
    """Return who has this number now."""
    seen = processes.look(pid)
    assert seen, f"process {pid} is gone"
    return seen.process


@contextmanager
def background_job(name: str, children: int = 0, threads: int = 0) -> Iterator[Job]:
    """Run a busy process whose name (at most 15 characters) is `name`; it is killed at the end."""
    assert len(name) <= 15
    folder = Path(tempfile.mkdtemp(prefix="job-"))
    folder.chmod(0o755)
    program = folder / name
    program.symlink_to(Path(sys.executable).resolve())
    script = _BUSY.replace("sys.argv[0]", repr(str(program)))
    process = subprocess.Popen(
        [program, "-S", "-E", "-c", script, str(children), str(threads)],
        stdout=subprocess.PIPE,
        start_new_session=True,  # else it is a job of the shell that the tests were started from, and not stopped
    )
    job = Job(process, ())
    try:
        assert process.stdout
        job.children = tuple(int(number) for number in process.stdout.readline().split())
        yield job
    finally:
        job.kill()
        assert process.stdout
        process.stdout.close()
        shutil.rmtree(folder)
