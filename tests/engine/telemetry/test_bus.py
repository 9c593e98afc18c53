"""Questions to a real message bus, and to what only looks like one."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.bus_service import service
from helpers.desktop import needs
from helpers.tray_host import session_bus

from engine.telemetry.bus import Bus, session_address
from engine.telemetry.idle import IdleMonitor

SAVER = ("org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver", "org.freedesktop.ScreenSaver")
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Run a message bus."""
    with session_bus() as address:
        yield address


@contextlib.contextmanager
def line(address: str) -> Iterator[Bus]:
    """Open our own line to it."""
    with contextlib.closing(Bus(address)) as bus:
        yield bus


@needs("dbus-daemon")
def test_numbers_booleans_and_variants_are_read(address: str) -> None:
    """Of every width, negative ones, and those inside a variant."""
    with service(address, "org.gnome.Mutter.IdleMonitor") as desk, line(address) as bus:
        desk.idle = 2**40
        mutter = "org.gnome.Mutter.IdleMonitor"
        assert bus.call(mutter, "/org/gnome/Mutter/IdleMonitor/Core", mutter, "GetIdletime") == 2**40
    with service(address, SAVER[0]) as desk, line(address) as bus:
        desk.idle, desk.locked = 4_000_000_000, True
        assert bus.call(*SAVER, "GetSessionIdleTime") == 4_000_000_000
        assert bus.call(*SAVER, "GetActive") == 1
        assert bus.call(*SAVER, "Echo", "abc", "dé") == -5
    with service(address, "org.freedesktop.login1") as desk, line(address) as bus:
        where = ("org.freedesktop.login1", "/org/freedesktop/login1/session/auto", "org.freedesktop.DBus.Properties")
        for desk.locked in (True, False):
            assert bus.call(*where, "Get", "org.freedesktop.login1.Session", "LockedHint") == desk.locked


@needs("dbus-daemon")
def test_what_is_no_number_or_nobody_answers_is_unknown(address: str) -> None:
    """An unknown name, an unknown method, a text: None, and the line goes on."""
    with service(address, SAVER[0]), line(address) as bus:
        assert bus.call("org.example.Nobody", "/", "org.example.Nobody", "Get") is None
        assert bus.call(*SAVER, "Missing") is None
        assert bus.call(*SAVER, "Words") is None
        assert bus.call(*SAVER, "GetActive") == 0


@pytest.mark.parametrize("address", ["", "tcp:host=127.0.0.1,port=1", "unix:path=/nowhere/bus", "disabled:"])
def test_no_bus_is_an_error_of_the_system(address: str) -> None:
    """No local socket, or nobody behind it."""
    with pytest.raises(OSError):
        Bus(address)


def test_the_address_is_that_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable goes first; without it the usual place; without that, none."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:abstract=/x%20y,guid=1")
    assert session_address() == "unix:abstract=/x%20y,guid=1"
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    assert session_address() == "unix:path=/run/user/7/bus"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert session_address() == ""


HELLO = b"OK 1\r\n" + struct.pack("<cBBBIII", b"l", 2, 1, 1, 0, 1, 0)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"REJECTED EXTERNAL\r\n",
        b"x" * 600,
        b"OK 1\r\n" + struct.pack("<cBBBIII", b"l", 2, 1, 1, 1 << 30, 1, 0),
        b"OK 1\r\n" + struct.pack("<cBBBIII", b"l", 2, 1, 1, 0, 1, 8) + b"\x08\x01g\x00\xff\xff\xff\xff",
        b"OK 1\r\n" + struct.pack("<cBBBIII", b"l", 2, 1, 1, 0, 1, 8) + b"\x01\x01",
    ],
)
def test_what_is_no_bus_is_an_error_of_the_system(tmp_path: Path, sent: bytes) -> None:
    """It hangs up, refuses, or sends nonsense: nothing else than OSError comes of it."""
    with _pretender(tmp_path / "bus", sent) as address, pytest.raises(OSError):
        Bus(address)


def test_a_bus_that_hangs_up_later_is_an_error_of_the_system(tmp_path: Path) -> None:
    """The line is of no more use then."""
    with _pretender(tmp_path / "bus", HELLO) as address, line(address) as bus, pytest.raises(OSError):
        bus.call(*SAVER, "GetActive")


@contextlib.contextmanager
def _pretender(path: Path, sent: bytes) -> Iterator[str]:
    """Let somebody listen who sends this and hangs up."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            with server.accept()[0] as client, contextlib.suppress(OSError):
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                while client.recv(1000):
                    pass

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"unix:path={path}"
        thread.join(10)


@needs("dbus-daemon")
@pytest.mark.parametrize("name", ["org.gnome.Mutter.IdleMonitor", "org.freedesktop.ScreenSaver"])
def test_idle_time_that_falls_is_somebody(address: str, name: str) -> None:
    """In whatever unit; the first answer, a rising one and an even one say nothing."""
    with service(address, name) as desk, line(address) as bus:
        monitor, seen = IdleMonitor(), []
        for desk.idle in (500, 3000, 40, 40, 2540, 2539):
            seen.append(monitor.active(bus))
        assert seen == [False, False, True, False, False, True]


@needs("dbus-daemon")
def test_no_idle_monitor_says_nothing(address: str) -> None:
    """Neither that somebody is there nor the contrary."""
    with line(address) as bus:
        monitor = IdleMonitor()
        assert [monitor.active(bus), monitor.active(bus)] == [False, False]
