"""A few questions to a message bus (D-Bus), without a library: calls that take strings and answer with one number.

Source: the D-Bus specification, sections "Message Protocol", "Type System" and "Authentication Protocol".
"""

import os
import re
import socket
import struct
import sys
import time
from urllib.parse import unquote

PATIENCE = 1.0  # s for any answer
SYSTEM = "unix:path=/run/dbus/system_bus_socket"
_LARGEST = 1 << 20  # bytes of a message; what we ask for takes a hundred
_CALL, _RETURN, _ERROR = 1, 2, 3
_NO_AUTO_START = 2  # asking must not start a service
_PATH, _INTERFACE, _MEMBER, _DESTINATION, _SIGNATURE = 1, 2, 3, 6, 8
_NUMBERS = {"y": ("B", 1), "b": ("I", 4), "u": ("I", 4), "i": ("i", 4), "t": ("Q", 8), "x": ("q", 8)}
_MALFORMED = (struct.error, IndexError, UnicodeDecodeError, KeyError)


def session_address() -> str:
    """Return where this session's bus is, "" if that is unknown."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    usual = f"unix:path={runtime}/bus" if runtime else ""
    return os.environ.get("DBUS_SESSION_BUS_ADDRESS") or usual


class Bus:
    """One line to the bus at `address`. Opening and calling raise OSError when it is lost; then it is of no use."""

    def __init__(self, address: str) -> None:
        self._serial = 0
        self._line, user = _start()
        try:
            self._greet(_socket_name(address), user)
        except BaseException:
            self.close()
            raise

    def _greet(self, name: str, user: int) -> None:
        self._line.settimeout(PATIENCE)
        self._line.connect(name)
        self._line.sendall(b"\0AUTH EXTERNAL " + str(user).encode().hex().encode() + b"\r\n")
        if not self._read_line().startswith(b"OK "):
            raise ConnectionError("the bus does not let us in")
        self._line.sendall(b"BEGIN\r\n")
        self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")

    def call(self, name: str, path: str, interface: str, member: str, *texts: str) -> int | None:
        """Call a method with strings; return the number or boolean it answers, None for any other answer."""
        self._serial += 1
        self._line.sendall(_call(self._serial, (name, path, interface, member), texts))
        deadline = time.monotonic() + PATIENCE
        while True:
            kind, signature, body, order = self._read_message(deadline)
            if kind in (_RETURN, _ERROR):  # signals may come in between; there is never more than one call under way
                return _number(signature, body, order) if kind == _RETURN else None

    def close(self) -> None:
        """Hang up."""
        self._line.close()

    def _read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\r\n"):
            line += self._exactly(1, time.monotonic() + PATIENCE)
            if len(line) > 512:
                raise ConnectionError("no bus")
        return line

    def _read_message(self, deadline: float) -> tuple[int, str, bytes, str]:
        head = self._exactly(16, deadline)
        order = "<" if head[:1] == b"l" else ">"
        body_size, _, fields_size = struct.unpack(f"{order}III", head[4:])
        if max(body_size, fields_size) > _LARGEST:
            raise ConnectionError("the bus sends what is no message")
        fields = self._exactly(_aligned(fields_size, 8), deadline)[:fields_size]
        body = self._exactly(body_size, deadline)
        try:
            return head[1], _signature(fields, order), body, order
        except _MALFORMED as error:
            raise ConnectionError("the bus sends what is no message") from error

    def _exactly(self, count: int, deadline: float) -> bytes:
        data = b""
        while len(data) < count:
            self._line.settimeout(max(0.001, deadline - time.monotonic()))
            part = self._line.recv(count - len(data))
            if not part:
                raise ConnectionError("the bus hung up")
            data += part
        return data


def _start() -> tuple[socket.socket, int]:
    """Return a line that leads nowhere yet, and who we are."""
    if sys.platform == "win32":
        raise FileNotFoundError("Windows has no message bus")
    return socket.socket(socket.AF_UNIX), os.getuid()


def _socket_name(address: str) -> str:
    """Return the socket of the first address that is a local one; raises OSError if there is none."""
    found = re.search(r"(?:^|;)unix:(?:[^;]*,)?(path|abstract)=([^,;]+)", address)
    if not found:
        raise FileNotFoundError("no bus at a local socket")
    return unquote(found[2]) if found[1] == "path" else "\0" + unquote(found[2])


def _aligned(size: int, to: int) -> int:
    return -(-size // to) * to


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def _call(serial: int, address: tuple[str, str, str, str], texts: tuple[str, ...]) -> bytes:
    """Return a method call, little-endian. `address`: destination, path, interface, member."""
    name, path, interface, member = address
    fields = b""
    for code, kind, value in (
        (_PATH, b"o", path),
        (_INTERFACE, b"s", interface),
        (_MEMBER, b"s", member),
        (_DESTINATION, b"s", name),
    ):
        fields = fields.ljust(_aligned(len(fields), 8), b"\0") + bytes((code, 1)) + kind + b"\0" + _text(value)
    if texts:
        signature = b"s" * len(texts)
        fields = fields.ljust(_aligned(len(fields), 8), b"\0") + bytes((_SIGNATURE, 1)) + b"g\0"
        fields += bytes((len(signature),)) + signature + b"\0"
    body = b""
    for text in texts:
        body = body.ljust(_aligned(len(body), 4), b"\0") + _text(text)
    head = struct.pack("<cBBBIII", b"l", _CALL, _NO_AUTO_START, 1, len(body), serial, len(fields))
    return head + fields.ljust(_aligned(len(fields), 8), b"\0") + body


def _signature(fields: bytes, order: str) -> str:
    """Return the signature of a message's body, "" if it has none. `fields`: the header's array."""
    at = 0
    while at < len(fields):
        at = _aligned(at, 8)
        code, kind = fields[at], chr(fields[at + 2])
        at += 4
        if kind in ("g", "y"):
            size = fields[at] + 2 if kind == "g" else 1
            if code == _SIGNATURE:
                return fields[at + 1 : at + size - 1].decode()
        else:  # aligned by 4 here already
            size = 4 if kind == "u" else struct.unpack_from(f"{order}I", fields, at)[0] + 5
        at += size
    return ""


def _number(signature: str, body: bytes, order: str, at: int = 0) -> int | None:
    """Return the number that a body holds, also inside a variant; None if it holds something else."""
    try:
        if signature == "v":
            inner = body[at + 1 : at + 1 + body[at]].decode()
            return _number(inner, body, order, at + body[at] + 2)
        code, size = _NUMBERS[signature]
        return int(struct.unpack_from(order + code, body, _aligned(at, size))[0])
    except _MALFORMED:
        return None
