"""Opens the local channel where the engine listens, and connects to it: by what this system has for that."""

import sys
from pathlib import Path

from engine.channel import Channel, ControlError, Door, NotRunning
from engine.clock import Clock

if sys.platform == "win32":
    from engine.named_pipe import PipeDoor, connect_pipe
else:
    from engine.unix_socket import SocketDoor, connect_socket


def open_door(path: Path, clock: Clock) -> Door:
    """Listen at `path`; the caller holds the lock of the single instance. Raises ControlError."""
    try:
        if sys.platform == "win32":
            door: Door = PipeDoor(path)
        else:
            door = SocketDoor(path, clock)
    except OSError as error:
        raise ControlError(f"{path}: {error.strerror or error}") from None
    return door


def connect(path: Path, clock: Clock, timeout: float) -> Channel:
    """Connect to the engine that listens at `path`. Raises ControlError, NotRunning if there is none."""
    try:
        if sys.platform == "win32":
            channel: Channel = connect_pipe(path)
        else:
            channel = connect_socket(path, clock, timeout)
    except (FileNotFoundError, ConnectionRefusedError):
        raise NotRunning from None
    except OSError as error:
        raise ControlError(f"the engine cannot be reached: {error.strerror or error}") from None
    if not channel.is_ours():
        channel.close()
        raise ControlError("the engine that answers there belongs to another user")
    return channel
