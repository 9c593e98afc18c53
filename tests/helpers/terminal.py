"""A real shell at a real terminal, which looks after its jobs as that of a user does."""

import os
import pty
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from helpers.wait import wait_until


@dataclass
class Terminal:
    """`shell` sits at it; what is typed goes in by `master`."""

    shell: subprocess.Popen[bytes]
    master: int

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self.master, text.encode())

    @property
    def front(self) -> int:
        """The group of processes that the terminal listens to."""
        return os.tcgetpgrp(self.master)

    def wait_for_shell(self) -> None:
        """Return once the shell has the terminal for itself."""
        wait_until(lambda: self.front == self.shell.pid, what="the shell to have its terminal")


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    """Run an interactive bash, or this command, as the first at a terminal of its own."""
    env, setsid, bash = shutil.which("env"), shutil.which("setsid"), shutil.which("bash")
    if not env or not setsid or not bash:
        pytest.skip("env, setsid or bash is not installed")
    master, slave = pty.openpty()
    # Tests that run in the background of a script ignore Ctrl+C, and so would all that they start.
    words = [env, "--default-signal", setsid, "--ctty", *(command or (bash, "--norc", "--noprofile", "-i"))]
    environment = {**os.environ, "HISTFILE": "/dev/null"}
    with subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment) as shell:
        os.close(slave)
        try:
            yield Terminal(shell, master)
        finally:
            shell.kill()
            os.close(master)
