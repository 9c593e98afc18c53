"""A line to an X server that is known to answer: Xlib itself would wait for ever for one that hangs."""

import os
import socket
import sys
from pathlib import Path
from typing import Any

from engine.errors import SensorUnavailable
from engine.telemetry.supervisor import SensorMissing

PATIENCE = 1.5  # s for an X server to answer
_HELLO = b"l\0\x0b\0\0\0\0\0\0\0\0\0"  # X11 set-up request, little-endian, version 11, without authorisation


def connect() -> Any:
    """Return an Xlib Display at DISPLAY; raises SensorUnavailable with the reason."""
    name = os.environ.get("DISPLAY", "")
    if not name:
        raise SensorUnavailable("there is no screen here (DISPLAY is not set)")
    try:
        from Xlib import display, error  # noqa: PLC0415 - a machine without it runs on without this sensor
        from Xlib.support import connect as parts  # noqa: PLC0415 - as above
    except ImportError as missing:
        raise SensorMissing("the library python-xlib is missing") from missing
    try:
        _, _, host, number, _ = parts.get_display(name)
        _ask_server(host or "", number)
        return display.Display(name)
    except (error.ConnectionClosedError, error.DisplayError, OSError) as lost:
        raise SensorUnavailable(f"no X server answers at {name}") from lost


def _ask_server(host: str, number: int) -> None:
    """Raise OSError unless an X server answers soon."""
    if sys.platform == "win32":
        raise FileNotFoundError("Windows has no X server")
    local = host in ("", "unix")
    address = f"/tmp/.X11-unix/X{number}"  # noqa: S108 - where X servers listen
    if not Path(address).exists():
        address = f"\0{address}"  # the same in Linux's own name space
    with socket.socket(socket.AF_UNIX if local else socket.AF_INET) as line:
        line.settimeout(PATIENCE)
        line.connect(address if local else (host, 6000 + number))
        line.sendall(_HELLO)
        if not line.recv(1):
            raise ConnectionError("hung up")
