"""What stands in /proc, as bytes, numbers and names, for processes.py alone. What cannot be read is not there.

Only stat() tells the one from the other.
"""

import os
from collections.abc import Iterator
from contextlib import suppress


def read(path: str) -> bytes | None:
    """Return what a file says; None: not readable."""
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - takes half as long as a Path
        return file.read()
    return None


def stat(pid: int) -> bytes:
    """Return the line that sums a process or thread up, b"" if it is gone. Raises OSError where that cannot be told."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def numbers(folder: str) -> list[int]:
    """List the entries of a folder that are numbers."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [int(entry.name) for entry in entries if entry.name.isdigit()]
    return []


def open_files(pid: int) -> Iterator[str]:
    """Yield the names of what a process has open."""
    for number in numbers(f"/proc/{pid}/fd"):
        with suppress(OSError):
            yield os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115 - may be no path of the disk


def listening(table: str, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on this port. `table`: tcp or tcp6."""
    for line in (read(f"/proc/net/{table}") or b"").decode("ascii", "replace").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]
