"""Dummy background jobs: busy processes that go by a name of their own and end with the program that started them.

python -m diagnostics.busy is such a process.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine import itself


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """Start one by this name, which `folder` gets a program for; whoever starts it ends it."""
    program = itself.by_name(folder, name)
    words = [str(program), *itself.command("diagnostics.busy")[1:]]
    env = {**itself.environment(), **itself.home()}
    # Not a job of the shell that we were started from: that would see it stopped.
    return subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 - ourselves


@contextlib.contextmanager
def named_job(folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run one; it is ended at the end, whatever state it is in."""
    job = start(folder, name)
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def main(words: Sequence[str] = ()) -> int:
    """Be busy. Whoever is killed cannot end its children: so this one looks after its parent itself."""
    del words
    parent = os.getppid()
    while os.getppid() == parent:
        sum(range(100_000))
    return 0


if __name__ == "__main__":
    sys.exit(main())
