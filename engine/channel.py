"""The owner-only local channel between a running engine and who talks to it, whatever it is made of; a line a message.

A Unix socket in the state folder (unix_socket.py), a named pipe on Windows (named_pipe.py); doors.py knows which.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from engine.config.store import state_folder
from engine.errors import ZatError

LINE_LIMIT = 1 << 20  # bytes of one answer; a snapshot takes about one thousand


class ControlError(ZatError):
    """The running engine could not be asked, or said no; the message is fit to be shown."""


class NotRunning(ControlError):  # noqa: N818 - a state, not a mistake
    """No engine of this user runs."""

    def __init__(self) -> None:
        super().__init__("no engine of yours is running")


class NoAnswer(ControlError):  # noqa: N818 - named after what happened
    """The other side said nothing, or did not listen, for as long as it was given."""


class Channel(Protocol):
    """One connection. `send` and `receive` raise ControlError when it broke off, NoAnswer when the time is over."""

    def send(self, line: bytes, timeout: float) -> None:
        """Send one line, given without its end."""

    def receive(self, timeout: float, limit: int = LINE_LIMIT) -> bytes | None:
        """Return one line without its end; None: the other side has left."""

    def is_ours(self) -> bool:
        """Tell whether the other side is a process of this user."""

    def close(self) -> None:
        """Hang up; whoever waits in `receive` is woken."""


class Door(Protocol):
    """Where connections come in."""

    def accept(self) -> Channel:
        """Wait for the next connection. Raises OSError."""

    def close(self) -> None:
        """Take it away; one that waits in `accept` is not woken by that."""


def control_path() -> Path:
    """Return where this user's engine can be talked to."""
    return state_folder() / "engine.sock"


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise what the system says of a connection as ControlError, or NoAnswer where the time was over."""
    try:
        yield
    except TimeoutError:
        raise NoAnswer("nothing was heard in time") from None
    except OSError as error:
        raise ControlError(f"the connection broke off: {error.strerror or error}") from None
