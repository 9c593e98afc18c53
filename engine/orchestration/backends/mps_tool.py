"""The only door to nvidia-cuda-mps-control: single questions to NVIDIA's MPS daemon. Decides nothing.

The program answers errors on its output with exit code 0, and a percentage that it does not take with the old one, so
only a number that was read back says what is in force.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

from engine.errors import BackendUnavailable

PROGRAM = "nvidia-cuda-mps-control"
_PATIENCE = 2.0  # seconds; a call takes 10 to 50 ms
_LONGEST = 200  # characters of an unexpected answer that are shown


class DaemonGone(BackendUnavailable):
    """No MPS daemon runs, and so nothing that was set in one is in force any more."""


class ServerGone(BackendUnavailable):
    """The daemon knows of no such server any more."""


def pipe_directory() -> str:
    """Return where this user's daemon is spoken to."""
    return os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"  # noqa: S108 - NVIDIA's own default


class MpsTool:
    """Asks the daemon behind one pipe directory. Every method may raise BackendUnavailable with the reason."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def servers(self) -> tuple[int, ...]:
        """List the MPS servers; there is none until a program uses MPS."""
        return _numbers(self._ask("get_server_list"))

    def clients(self, server: int) -> frozenset[int]:
        """Return the processes that compute through this server."""
        return frozenset(_numbers(self._ask(f"get_client_list {server}")))

    def percentage(self, server: int | None = None) -> float:
        """Return the percentage that clients get which start from now on: of one server, else of later servers."""
        return _percentage(self._ask(_get(server)))

    def set_percentage(self, value: float, server: int | None = None) -> float:
        """Set it, and return what is in force then: `value` only if it was taken."""
        setting = f"set_default_active_thread_percentage {value:g}"
        if server is not None:
            setting = f"set_active_thread_percentage {server} {value:g}"
        return _percentage(self._ask(f"{setting}\n{_get(server)}"))

    def daemon(self) -> tuple[int, int] | None:
        """Return what tells this daemon from a later one: it makes its socket when it starts."""
        with suppress(OSError):
            socket = (Path(self.directory) / "control").stat()
            return socket.st_ino, socket.st_ctime_ns
        return None

    def _ask(self, commands: str) -> list[str]:
        """Return the lines of the answer."""
        program = shutil.which(PROGRAM)
        if program is None:
            raise BackendUnavailable(f"the program {PROGRAM} is not installed")
        environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": self.directory}
        try:
            answer = subprocess.run(  # noqa: S603 - NVIDIA's program by its full path, without a shell
                [str(Path(program).absolute())],
                input=commands + "\n",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_PATIENCE,
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BackendUnavailable(f"the MPS daemon did not answer within {_PATIENCE:g} s") from None
        except OSError as error:
            raise BackendUnavailable(f"{PROGRAM} cannot be run: {error.strerror}") from None
        if answer.returncode and "Cannot find MPS control daemon" in answer.stdout + answer.stderr:
            raise DaemonGone("the MPS control daemon is not running")
        if answer.returncode:
            raise BackendUnavailable(f"{PROGRAM} failed: {(answer.stderr or answer.stdout).strip()[:_LONGEST]}")
        return [line.strip() for line in answer.stdout.splitlines() if line.strip()]


def _get(server: int | None) -> str:
    return "get_default_active_thread_percentage" if server is None else f"get_active_thread_percentage {server}"


def _numbers(lines: list[str]) -> tuple[int, ...]:
    return tuple(int(line) for line in lines if line.isdecimal())


def _percentage(lines: list[str]) -> float:
    """Take the last line: the answer to the question that comes last, whatever was said before."""
    said = lines[-1] if lines else ""
    if said.startswith("Server ") and said.endswith(" not found"):
        raise ServerGone(f"MPS: {said}")
    try:
        value = float(said)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:  # also refuses "nan"
        raise BackendUnavailable(f"the MPS daemon answered {said[:_LONGEST]!r} where a percentage was expected")
    return value
