"""The control channel over real sockets: what it takes, whom it refuses, and that no client can hurt the engine."""

import contextlib
import dataclasses
import json
import logging
import shutil
import signal
import socket
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers.engine_process import EngineProcess, engine_process
from helpers.ordinary_user import run_as_ordinary_user
from helpers.wait import wait_until

from engine import control
from engine.account import Day
from engine.channel import ControlError, NotRunning
from engine.clock import SystemClock
from engine.control import MOST_CLIENTS, ControlServer
from engine.control_client import ControlClient, RemoteEngine
from engine.events import (
    Closing,
    ContextState,
    Event,
    ForgetRequested,
    Moved,
    Paused,
    PrepareRequested,
    ReleaseRequested,
    Resumed,
    ServerState,
    Snapshot,
    State,
    Why,
)
from engine.snapshots import as_dict, snapshot_from_dict

IDLE = Snapshot(at=1.0, state=State.COLD_IDLE)
FULL = Snapshot(
    at=1700000000.25, state=State.SPECULATIVE_PREPARED, paused=True, paused_for=1.5, not_guessing="on battery",
    because="typing", probability=0.75, threshold=0.7,
    f_c=0.5, g_a=0.25, background_share=10, background_verified=True, backend="process", background_detail="stopped",
    linger_in=2.5, vram="server 5000 MiB, free 900 MiB",
    refused=(("mps", "no daemon"), ("boinc", "no client")), server=ServerState.BUSY, server_detail="one prompt",
    unified_memory="on", context=ContextState.RESTORED, context_tokens=42, context_detail="from disk", hits=1,
    false_positives=2, false_negatives=3, holding=True, deadline_in=4.5, late_ticks=5, sensors={"keyboard": "on"},
    today=Day("2026-11-30", preparations=3, saved=1.5),
    moves=(Moved(State.COLD_IDLE, State.SPECULATIVE_PREPARED, Why.THRESHOLD),), closed=True,
)  # fmt: skip
MOVE = Moved(State.COLD_IDLE, State.DEGRADED, Why.SERVER_LOST)


class Rig:
    """A server whose engine is a list of what was posted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.posted: list[Event] = []
        self.called: list[str] = []
        self.server = ControlServer(
            path,
            self.posted.append,
            SystemClock(),
            quit_=lambda: self.called.append("quit"),
            show=lambda: self.called.append("show"),
            kind="tray",
        )
        self.server.see(IDLE)
        self.server.start()

    def call(self) -> socket.socket:
        """Connect without our client."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(self.path))
        return connection

    def say(self, data: bytes) -> list[dict]:
        """Send these bytes; return all that is answered until the server hangs up."""
        with self.call() as connection:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> list[dict]:
    """Return the lines that come until the other side hangs up."""
    received = b""
    with contextlib.suppress(ConnectionResetError):  # it hung up without having read all that we sent
        while chunk := connection.recv(65536):
            received += chunk
    return [json.loads(line) for line in received.splitlines()]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return a server that listens."""
    rig = Rig(tmp_path / "state" / "engine.sock")
    yield rig
    rig.server.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server wait for requests, and for readers, for a moment only."""
    monkeypatch.setattr(control, "_REQUEST_WITHIN", 0.3)
    monkeypatch.setattr(control, "_READ_WITHIN", 0.3)


@pytest.mark.parametrize(
    ("command", "seconds", "event"),
    [
        ("prepare", 30, PrepareRequested(30.0)),
        ("prepare", None, PrepareRequested()),
        ("release", None, ReleaseRequested()),
        ("pause", 86400, Paused(86400.0)),
        ("pause", None, Paused()),
        ("resume", None, Resumed()),
        ("forget", None, ForgetRequested()),
    ],
)
def test_a_command_becomes_an_event(rig: Rig, command: str, seconds: float | None, event: Event) -> None:
    """It is posted before it is answered; one connection takes many."""
    with ControlClient(rig.path) as client:
        assert client.request(command, seconds) == {"ok": True}
        assert client.request(command, seconds) == {"ok": True}
    assert rig.posted == [event, event]


def test_status_is_the_newest_snapshot(rig: Rig) -> None:
    """With the kind of process and its number."""
    rig.server.see(FULL)
    with ControlClient(rig.path) as client:
        answer = client.request("status")
    assert answer == {"ok": True, "kind": "tray", "pid": psutil.Process().pid, "snapshot": as_dict(FULL)}


def test_show_and_quit_reach_the_process(rig: Rig, tmp_path: Path) -> None:
    """A process without a window says so."""
    with ControlClient(rig.path) as client:
        client.request("show")
        client.request("quit")
    wait_until(lambda: rig.called == ["show", "quit"], what="both calls")
    bare = ControlServer(tmp_path / "bare.sock", rig.posted.append, SystemClock(), quit_=lambda: None)
    bare.start()
    with ControlClient(tmp_path / "bare.sock") as client, pytest.raises(ControlError, match="there is no window"):
        client.request("show")
    bare.close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"hello\n", "not a request"),
        (b"\n", "not a request"),
        (b"\xff\x00\n", "not a request"),
        (b"[" * 4000 + b"\n", "not a request"),
        (b'"status"\n', "not a request"),
        (b'{"command": 5}\n', "not a request"),
        (b'{"command": "pause", "for": "long"}\n', "not a request"),
        (b'{"command": "pause", "for": true}\n', "not a request"),
        (b'{"command": "pause", "for": NaN}\n', "not a request"),
        (b'{"command": "pause", "for": 0}\n', "above 0 and at most 86400"),
        (b'{"command": "pause", "for": -1}\n', "above 0 and at most 86400"),
        (b'{"command": "pause", "for": 86401}\n', "above 0 and at most 86400"),
        (b'{"command": "dance"}\n', "there is no command 'dance'"),
        (b"x" * 4097 + b"\n", "4096 bytes at most"),
        (b"x" * 1_000_000, "4096 bytes at most"),
    ],
)
def test_garbage_gets_one_sentence_and_is_hung_up_on(rig: Rig, line: bytes, words: str) -> None:
    """Nothing is posted, and the next client is served."""
    answers = rig.say(line)
    assert [answer["ok"] for answer in answers] == [False]
    assert words in answers[0]["error"]
    with ControlClient(rig.path) as client:
        assert client.request("status")["ok"]
    assert rig.posted == []


def test_an_http_request_is_no_request(rig: Rig) -> None:
    """A browser that is led here gets no further than its first line."""
    assert len(rig.say(b'POST / HTTP/1.1\r\nHost: x\r\n\r\n{"command": "release"}\n')) == 1
    assert rig.posted == []


def test_half_a_request_is_not_waited_for(rig: Rig, impatient: None) -> None:
    """Nor one that drips in, byte by byte; whoever has left already is no trouble."""
    del impatient
    assert rig.say(b'{"command"') == [{"ok": False, "error": "no request came within 0.3 s"}]
    with rig.call() as dripping:
        for _ in range(200):
            try:
                dripping.sendall(b" ")
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(0.01)  # a slow sender is what is tested
        assert len(read_all(dripping)) == 1
    for _ in range(5):
        rig.call().close()
    with ControlClient(rig.path) as client:
        assert client.request("status")["ok"]


def test_the_number_of_clients_is_bounded(rig: Rig) -> None:
    """One too many is told so; it gets in once another has left."""
    crowd = [rig.call() for _ in range(MOST_CLIENTS)]
    assert rig.say(b"") == [{"ok": False, "error": "too many others talk to the engine"}]
    crowd.pop().close()

    def served() -> bool:
        with contextlib.suppress(ControlError), ControlClient(rig.path) as client:
            return bool(client.request("status")["ok"])
        return False

    wait_until(served, what="a place")
    for one in crowd:
        one.close()


def test_a_callback_that_fails_is_logged_and_said(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """The thread does not die of it."""
    rig.server._show = lambda: 1 / 0
    with caplog.at_level(logging.CRITICAL, "engine.control"):
        assert rig.say(b'{"command": "show"}\n') == [{"ok": False, "error": "the command failed; the log says why"}]
    with ControlClient(rig.path) as client:
        assert client.request("status")["ok"]


def test_a_watcher_sees_the_newest_and_every_transition(rig: Rig) -> None:
    """Ten times a second at most; transitions of skipped snapshots come with the next; the last one is closed."""
    with ControlClient(rig.path) as client:
        lines = client.watch()
        assert next(lines) == as_dict(IDLE)
        began = time.perf_counter()
        rig.server.see(Snapshot(at=2.0, state=State.DEGRADED, moves=(MOVE,)))
        for at in range(3, 1000):
            rig.server.see(Snapshot(at=float(at), state=State.DEGRADED))
        seen = [next(lines)]
        while seen[-1]["at"] < 999:
            seen.append(next(lines))
        assert len(seen) <= 3 + 10 * (time.perf_counter() - began)
        assert [move["to"] for line in seen for move in line["moves"]] == ["DEGRADED"]
        rig.server.see(Snapshot(at=1000.0, state=State.COLD_IDLE, closed=True))
        rig.server.close()
        assert next(lines)["closed"] is True
        with pytest.raises(ControlError, match="the engine has ended"):
            next(lines)


def test_watchers_that_never_read_cost_nothing(rig: Rig) -> None:
    """The engine's thread never waits for them, memory does not grow, and they are hung up on."""
    crowd = [rig.call() for _ in range(8)]
    for one in crowd:
        one.sendall(b'{"command": "watch"}\n')
    wait_until(lambda: len(rig.server._watchers) == 8, what="the watchers")
    large = Snapshot(at=1.0, state=State.COLD_IDLE, background_detail="x" * 20_000)  # more than their sockets take
    tracemalloc.start()
    before, slowest = tracemalloc.get_traced_memory()[0], 0.0
    for _ in range(5000):
        begun = time.perf_counter()
        rig.server.see(large)
        slowest = max(slowest, time.perf_counter() - begun)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 2_000_000
    assert slowest < control._READ_WITHIN / 2  # the scheduler's doing; a send would have waited for all of it
    wait_until(lambda: rig.server._clients == {}, what="them to be hung up on")
    for one in crowd:
        one.close()


def test_only_the_owner_can_reach_it(tmp_path: Path) -> None:
    """Folder 0700, even if it was more open, socket 0600; both ends leave nothing behind."""
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    rig = Rig(folder / "engine.sock")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert rig.path.stat().st_mode & 0o777 == 0o600
    rig.server.close()
    assert list(folder.iterdir()) == []


STRANGER = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
received = b""
try:
    connection.sendall(b'{"command": "release"}\\n')
except BrokenPipeError:
    pass
try:
    while chunk := connection.recv(4096):
        received += chunk
except ConnectionResetError:
    pass
print(received.decode(), end="")
"""


def test_another_user_is_refused_even_where_the_folder_is_open() -> None:
    """The system says who is at the other end."""
    folder = Path(tempfile.mkdtemp(prefix="zat-"))
    try:
        rig = Rig(folder / "engine.sock")
        folder.chmod(0o755)
        rig.path.chmod(0o666)
        script = folder / "stranger.py"
        script.write_text(STRANGER, "utf-8")
        script.chmod(0o644)
        ended = run_as_ordinary_user(script, str(rig.path))
        assert json.loads(ended.stdout) == {"ok": False, "error": "this engine belongs to another user"}, ended.stderr
        assert rig.posted == []
        rig.server.close()
    finally:
        shutil.rmtree(folder)


def test_the_socket_of_a_killed_engine_is_replaced(tmp_path: Path) -> None:
    """A client of the dead one is told that none runs."""
    path = tmp_path / "engine.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    with pytest.raises(NotRunning, match="no engine of yours is running"):
        ControlClient(path).connect()
    rig = Rig(path)
    with ControlClient(path) as client:
        assert client.request("status")["ok"]
    rig.server.close()
    with pytest.raises(NotRunning):
        ControlClient(path).connect()


def test_what_is_no_socket_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The engine goes on without the channel, and says so."""
    path = tmp_path / "engine.sock"
    path.write_text("mine", "utf-8")
    with caplog.at_level(logging.WARNING):
        rig = Rig(path)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is not a socket and is left alone" in caplog.text
    rig.server.close()
    assert path.read_text("utf-8") == "mine"


def test_a_folder_with_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket lies in a short folder that is ours alone; a link leads there, and both go at the end."""
    runtime = Path(tempfile.mkdtemp(prefix="zat-"))
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        path = tmp_path / ("long" * 30) / "engine.sock"
        left = Rig(path)  # never closed before the second: as if it had been killed
        rig = Rig(path)
        monkeypatch.delenv("XDG_RUNTIME_DIR")  # another session of the same user need not have it
        (folder,) = runtime.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert path.readlink().stat().st_mode & 0o777 == 0o600
        with ControlClient(path) as client:
            client.request("release")
        assert (left.posted, rig.posted) == ([], [ReleaseRequested()])
        rig.server.close()
        assert list(runtime.iterdir()) == list(path.parent.iterdir()) == []
        left.server.close()
    finally:
        shutil.rmtree(runtime)


def test_a_short_folder_of_somebody_else_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name can be guessed, so it may be a trap: a link in its place is refused."""
    runtime = Path(tempfile.mkdtemp(prefix="zat-"))
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        path = tmp_path / ("long" * 30) / "engine.sock"
        first = Rig(path)
        trap = path.readlink().parent
        first.server.close()
        (runtime / "elsewhere").mkdir()
        trap.symlink_to(runtime / "elsewhere")
        rig = Rig(path)
        assert "is not a folder of this user" in caplog.text
        rig.server.close()
        assert list((runtime / "elsewhere").iterdir()) == []
    finally:
        shutil.rmtree(runtime)


def test_every_field_of_a_snapshot_is_told() -> None:
    """FULL differs from a fresh snapshot in each of them, so that the way back is shown for all."""
    names = {field.name for field in dataclasses.fields(Snapshot)}
    assert {name for name in names if getattr(FULL, name) == getattr(IDLE, name)} == set()
    assert names == set(as_dict(FULL))


def test_a_snapshot_survives_the_way_there_and_back() -> None:
    """Every field; unknown ones are ignored, missing ones get their defaults, wrong ones are said."""
    line = json.loads(json.dumps(as_dict(FULL)))
    assert snapshot_from_dict(line) == FULL
    assert snapshot_from_dict({**line, "news": 1}) == FULL
    assert snapshot_from_dict({"at": 1.0, "state": "COLD_IDLE"}) == IDLE
    for wrong in ({"state": "DANCING"}, {"refused": 1}, {"moves": [1]}, {"sensors": None}):
        with pytest.raises(ValueError, match=r"Expected|Invalid"):
            snapshot_from_dict({**line, **wrong})


class View:
    """Shows a remote engine."""

    def __init__(self, path: Path) -> None:
        self.seen: list[Snapshot] = []
        self.ends: list[str] = []
        self.engine = RemoteEngine(path, self.ends.append)
        self.engine.subscribe(self.seen.append)


@pytest.fixture
def view(rig: Rig) -> Iterator[View]:
    """Return a view of the rig's engine, which is shown already."""
    view = View(rig.path)
    view.engine.start()
    wait_until(lambda: view.seen == [IDLE], what="the first snapshot")
    yield view
    view.engine.close()


def test_a_remote_engine_has_the_face_of_one(rig: Rig, view: View) -> None:
    """What the user asks for arrives as the same events, in order; a listener can leave."""
    events = (PrepareRequested(5.0), ReleaseRequested(), Paused(60.0), Paused(), Resumed(), ForgetRequested())
    for event in events:
        view.engine.post(event)
    wait_until(lambda: len(rig.posted) == len(events), what="the events")
    assert tuple(rig.posted) == events
    with pytest.raises(ControlError, match="Closing cannot be sent to an engine in another process"):
        view.engine.post(Closing())
    others: list[Snapshot] = []
    leave = view.engine.subscribe(others.append)
    rig.server.see(FULL)
    wait_until(lambda: FULL in view.seen and FULL in others, what="the snapshot")
    leave()
    leave()


@pytest.mark.parametrize("polite", [True, False])
def test_a_remote_engine_tells_when_the_connection_ends(rig: Rig, view: View, polite: bool) -> None:
    """Once, whether it said goodbye or not; later commands go nowhere, quietly."""
    if not polite:
        for channel in list(rig.server._clients.values()):
            channel.close()
    rig.server.close()
    wait_until(lambda: view.ends, what="the end")
    assert len(view.ends) == 1
    view.engine.post(Resumed())


def test_a_view_that_leaves_is_not_told_of_an_end(rig: Rig, view: View) -> None:
    """Closing ends its threads and leaves the engine alone."""
    view.engine.close()
    view.engine.close()
    assert view.ends == []
    wait_until(lambda: [t for t in threading.enumerate() if t.name.startswith("remote")] == [], what="its threads")
    with ControlClient(rig.path) as client:
        assert client.request("status")["ok"]


def test_no_engine_to_show(tmp_path: Path) -> None:
    """Starting says so; closing what never started does nothing."""
    view = View(tmp_path / "engine.sock")
    with pytest.raises(NotRunning, match="no engine of yours is running"):
        view.engine.start()
    view.engine.close()
    assert view.ends == []


def test_a_broken_listener_is_dropped(rig: Rig, view: View, caplog: pytest.LogCaptureFixture) -> None:
    """The others go on."""
    view.engine._listeners.insert(0, lambda _: 1 / 0)
    with caplog.at_level(logging.CRITICAL, "engine.control_client"):
        rig.server.see(FULL)
        wait_until(lambda: FULL in view.seen, what="the snapshot")
    assert view.engine._listeners == [view.seen.append]


# ---- real engines ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def bare_engine(folder: Path) -> Iterator[tuple[EngineProcess, Path]]:
    """Run an engine that watches nothing and holds nothing; return it and its socket."""
    values = {"SERVER_URL": "http://127.0.0.1:9", "KEYBOARD": "off", "MICROPHONE": "off", "BACKGROUND_METHOD": "off"}
    with engine_process(folder, values) as engine:
        engine.wait_snapshot("the first snapshot", bool)
        yield engine, folder / "state" / "zat-scs" / "engine.sock"


@pytest.mark.real
def test_a_killed_engine_and_the_next_one(tmp_path: Path) -> None:
    """Views are told of the death; the next engine takes the same place."""
    with bare_engine(tmp_path) as (engine, path):
        view = View(path)
        view.engine.start()
        wait_until(lambda: view.seen, what="a snapshot")
        engine.end(signal.SIGKILL)
        wait_until(lambda: view.ends, what="the end")
        view.engine.close()
    assert path.is_socket()
    with bare_engine(tmp_path) as (engine, path):
        with ControlClient(path) as client, ControlClient(path) as second:
            assert client.request("status")["pid"] == second.request("status")["pid"] == engine.process.pid
            assert client.request("quit") == {"ok": True}
        assert engine.process.wait(30) == 0, engine.log
    assert not path.exists()


@pytest.mark.real
def test_a_real_engine_among_bad_clients(tmp_path: Path) -> None:
    """Mute watchers, garbage and half requests: it ticks on, grows by nothing, and writes no trace of a defect."""
    with bare_engine(tmp_path) as (engine, path):
        process = psutil.Process(engine.process.pid)
        with contextlib.ExitStack() as crowd:

            def call(data: bytes) -> None:
                connection = crowd.enter_context(socket.socket(socket.AF_UNIX))
                connection.connect(str(path))
                connection.sendall(data)

            grown_from = process.memory_info().rss
            for data in (*[b'{"command": "watch"}\n'] * 8, b'{"command"', b"\x00\xff\n", b"x" * 5000):
                call(data)
            count = len(engine.snapshots)
            engine.wait_snapshot("four seconds more", lambda _: len(engine.snapshots) >= count + 4)
            with ControlClient(path) as client:
                assert client.request("status")["ok"]
            assert process.memory_info().rss - grown_from < 30_000_000
        assert engine.end() == 0
    assert [line for line in engine.log if "Traceback" in line or "control" in line] == []


@pytest.mark.real
def test_a_polite_end_is_shown_to_the_last(tmp_path: Path) -> None:
    """A view's last snapshot is the one after everything was given back."""
    with bare_engine(tmp_path) as (engine, path):
        view = View(path)
        view.engine.start()
        wait_until(lambda: view.seen, what="a snapshot")
        assert engine.end() == 0
        wait_until(lambda: view.ends, what="the end")
        assert view.ends == ["the engine has ended"]
        assert view.seen[-1].closed
        view.engine.close()
