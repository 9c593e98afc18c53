"""A stand-in for NVIDIA's MPS daemon and its control program, which answers as the program of release 535 was seen to.

With a real card's servers and clients nobody has seen it yet: those answers follow its manual. This file is the
program, too: a copy of it goes by the program's name.
"""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest  # the program starts without it

PROGRAM = "nvidia-cuda-mps-control"


class FakeMps:
    """The daemon, as a test sees and moves it. Its state is one file in the pipe directory."""

    def __init__(self, folder: Path, monkeypatch: "pytest.MonkeyPatch") -> None:
        self.directory = folder / "pipe"
        self.directory.mkdir()
        self._state = self.directory / "state.json"
        self.program = folder / "bin" / PROGRAM
        self.program.parent.mkdir()
        self.program.write_text(f"#!{sys.executable} -SE\n{Path(__file__).read_text()}")
        self.program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{self.program.parent}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(self.directory))
        self.start()

    def start(self, default: float = 100.0) -> None:
        """Start the daemon, again if it runs: servers, clients and percentages of an earlier one are gone."""
        self.stop()
        (self.directory / "control").touch()
        self.write(default=default, servers={}, clients={}, mode="", asked=[])

    def stop(self) -> None:
        """End the daemon."""
        (self.directory / "control").unlink(missing_ok=True)

    def serve(self, server: int, *clients: int) -> None:
        """Let a server run, with the default percentage of now, and these clients."""
        state = self.state
        state["servers"].setdefault(str(server), state["default"])
        state["clients"][str(server)] = list(clients)
        self.write(**state)

    @property
    def state(self) -> dict[str, Any]:
        """Everything the daemon knows; `asked`: each command it was given; `mode`: how it misbehaves."""
        state: dict[str, Any] = json.loads(self._state.read_text())
        return state

    def write(self, **changes: Any) -> None:
        """Change what it knows, as somebody else would."""
        known = self.state if self._state.exists() else {}
        self._state.write_text(json.dumps({**known, **changes}))

    @property
    def default(self) -> float:
        """The percentage in force for later servers."""
        return float(self.state["default"])

    def percentage(self, server: int) -> float:
        """Return the percentage in force for later clients of a server."""
        return float(self.state["servers"][str(server)])


# ---- The program -----------------------------------------------------------------------------------------------------


def _taken(text: str, present: float) -> float:
    """Return what is in force after this was asked for: anything illegal leaves what was there, without a word."""
    number = re.match(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", text)  # as strtod reads it: what trails is ignored
    return float(number[0]) if number and 0 < float(number[0]) <= 100 else present


def _answer(state: dict[str, Any], line: str) -> str:
    command, *arguments = line.split() or [""]
    value = arguments[-1] if arguments else ""
    server = arguments[0] if arguments else ""
    if command == "get_server_list":
        return "\n".join(state["servers"])
    if command == "set_default_active_thread_percentage":
        state["default"] = _taken(value, state["default"])
    if command.endswith("_default_active_thread_percentage"):
        return f"{state['default']:.1f}"
    if command in ("get_client_list", "get_active_thread_percentage", "set_active_thread_percentage"):
        if server not in state["servers"]:
            return f"Server {server} not found"
        if command == "get_client_list":
            return "\n".join(map(str, state["clients"].get(server, ())))
        if command.startswith("set"):
            state["servers"][server] = _taken(value, state["servers"][server])
        return f"{state['servers'][server]:.1f}"
    return f'Unknown command "{line}"'


def main() -> int:
    """Answer the lines of standard input; errors go to standard output, too, and only a missing daemon is exit 1."""
    folder = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
    if not (folder / "control").exists():
        sys.stderr.write("Cannot find MPS control daemon process\n")
        return 1
    lines = sys.stdin.read().splitlines()
    state = json.loads((folder / "state.json").read_text())
    state["asked"] += lines
    if state["mode"] == "hang":
        time.sleep(60)
    if state["mode"] == "deaf":  # takes nothing, and says what is still in force
        lines = [re.sub(r"^set(\S+)( \d+)? \S+$", r"get\1\2", line) for line in lines]
    answers = ["what?" if state["mode"] == "babble" else _answer(state, line) for line in lines]
    (folder / "state.json").write_text(json.dumps(state))
    sys.stdout.write("".join(f"{answer}\n" for answer in answers if answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
