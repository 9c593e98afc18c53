"""The control channel's server: other commands of the same user tell a running engine what to do, or look at it.

One JSON object a line, both ways. Requests: {"command": …, "for": seconds}, with prepare, release, pause, resume,
forget, status, watch, show or quit. Answers: {"ok": true, …} or {"ok": false, "error": "a sentence"}; `watch` is
answered by a line for each new snapshot, until either side leaves.
"""

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from engine.channel import Channel, ControlError, Door, NoAnswer
from engine.clock import Clock
from engine.doors import connect, open_door
from engine.events import (
    Event,
    ForgetRequested,
    Moved,
    Paused,
    PrepareRequested,
    ReleaseRequested,
    Resumed,
    Snapshot,
)
from engine.snapshots import as_dict

log = logging.getLogger(__name__)

REQUEST_LIMIT = 4096  # bytes
LONGEST = 86400.0  # s for which one may ask
MOST_CLIENTS = 16
WATCH_EVERY = 0.1  # s between two snapshots for one watcher
_REQUEST_WITHIN = 10.0  # s
_READ_WITHIN = 5.0  # s for a client to take an answer
_SNAPSHOT_WITHIN = 2.0  # s; an engine that has just started has none yet
_CLOSE_WITHIN = 1.0  # s for watchers to be sent the last snapshot

_EVENTS: dict[str, Callable[[float | None], Event]] = {
    "prepare": PrepareRequested,
    "release": lambda _: ReleaseRequested(),
    "pause": Paused,
    "resume": lambda _: Resumed(),
    "forget": lambda _: ForgetRequested(),
}


class _Request(msgspec.Struct, frozen=True):
    command: str
    seconds: float | None = msgspec.field(name="for", default=None)


class _Left(Exception):  # noqa: N818 - a state, not a mistake
    """The client does not take its answer."""


class _Newest:
    """The newest snapshot, put by the engine's thread and awaited by those of the clients."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._number = 0
        self._snapshot: Snapshot | None = None
        self._moves: deque[tuple[int, Moved]] = deque(maxlen=32)
        self._over = False

    def put(self, snapshot: Snapshot) -> None:
        """Replace it."""
        with self._changed:
            self._number += 1
            self._snapshot = snapshot
            self._moves.extend((self._number, move) for move in snapshot.moves)
            self._changed.notify_all()

    def end(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def after(self, number: int, timeout: float) -> tuple[int, Snapshot] | None:
        """Wait for one newer than `number`; it also holds the transitions of those that were skipped since."""
        with self._changed:
            self._changed.wait_for(lambda: self._number > number or self._over, timeout)
            if self._snapshot is None or self._number <= number:
                return None
            moves = tuple(move for at, move in self._moves if at > number) if number else self._snapshot.moves
            return self._number, replace(self._snapshot, moves=moves)


class ControlServer:
    """Listens at `path` on threads of its own; nothing a client does reaches the engine's thread but an event.

    `kind`: "engine" or "tray". `post`: takes the events asked for. `show`: raises the window, None where there is none.
    `quit_`: ends the process politely. Callbacks are called on a client's thread.
    """

    def __init__(
        self,
        path: Path,
        post: Callable[[Event], None],
        clock: Clock,
        *,
        quit_: Callable[[], None],
        show: Callable[[], None] | None = None,
        kind: str = "engine",
    ) -> None:
        self._path = path
        self._post = post
        self._clock = clock
        self._quit = quit_
        self._show = show
        self._kind = kind
        self._newest = _Newest()
        self._ended = threading.Event()
        self._door: Door | None = None
        self._lock = threading.Lock()  # guards the two below
        self._clients: dict[threading.Thread, Channel] = {}
        self._watchers: set[threading.Thread] = set()
        self._porter = threading.Thread(target=self._let_in, name="control", daemon=True)

    def see(self, snapshot: Snapshot) -> None:
        """Take a snapshot of the engine; this is the listener to subscribe."""
        self._newest.put(snapshot)

    def start(self) -> None:
        """Listen. Where that cannot be done it is logged, and everything else goes on. Hold the single instance."""
        try:
            self._door = open_door(self._path, self._clock)
        except ControlError as error:
            log.warning("other commands cannot talk to this engine: %s", error)
            return
        self._porter.start()

    def close(self) -> None:
        """Send watchers the last snapshot, hang up, and take the door away."""
        if self._door is None or self._ended.is_set():
            return
        self._ended.set()
        self._newest.end()
        with contextlib.suppress(ControlError):
            connect(self._path, self._clock, _CLOSE_WITHIN).close()  # wakes the porter
        self._porter.join(_CLOSE_WITHIN)
        self._door.close()
        with self._lock:
            clients, watchers = dict(self._clients), set(self._watchers)
        deadline = self._clock.now() + _CLOSE_WITHIN
        for watcher in watchers:
            watcher.join(max(0.0, deadline - self._clock.now()))
        for channel in clients.values():
            channel.close()

    def _let_in(self) -> None:
        assert self._door is not None
        while not self._ended.is_set():
            try:
                self._admit(self._door.accept())
            except (OSError, EOFError, RuntimeError) as error:  # no descriptor or no thread left, or it was closed
                if not self._ended.wait(1.0):
                    log.warning("a client could not be let in: %s", error)

    def _admit(self, channel: Channel) -> None:
        with self._lock:
            full = len(self._clients) >= MOST_CLIENTS
        if full or self._ended.is_set():
            _refuse(channel, "the engine ends" if self._ended.is_set() else "too many others talk to the engine")
            channel.close()
            return
        client = threading.Thread(target=self._serve, args=(channel,), name="control client", daemon=True)
        with self._lock:
            self._clients[client] = channel
        try:
            client.start()
        except RuntimeError:
            self._forget(client, channel)
            raise

    def _forget(self, client: threading.Thread, channel: Channel) -> None:
        with self._lock:
            self._clients.pop(client, None)
            self._watchers.discard(client)
        channel.close()

    # ---- one client, on its own thread -------------------------------------------------------------------------------

    def _serve(self, channel: Channel) -> None:
        try:
            _check_user(channel)
            while (line := channel.receive(_REQUEST_WITHIN, REQUEST_LIMIT)) is not None:
                self._answer(channel, _parse(line))
        except _Left:
            pass  # half a line may have been sent: nothing more would be understood
        except NoAnswer:
            _refuse(channel, f"no request came within {_REQUEST_WITHIN:g} s")
        except ControlError as error:
            _refuse(channel, str(error))
        except Exception:  # a callback failed; it must not end the thread with a trace on stderr
            log.exception("a command failed")
            _refuse(channel, "the command failed; the log says why")
        finally:
            self._forget(threading.current_thread(), channel)

    def _answer(self, channel: Channel, request: _Request) -> None:
        answer: dict[str, object] = {"ok": True}
        match request.command:
            case "status":
                answer |= {"kind": self._kind, "pid": os.getpid(), "snapshot": as_dict(self._first()[1])}
            case "watch":
                self._watch(channel)
                raise ControlError("the engine has ended")
            case "show":
                if self._show is None:
                    raise ControlError("there is no window")
                self._show()
            case "quit":
                _send(channel, answer)
                self._quit()
                return
            case name if name in _EVENTS:
                self._post(_EVENTS[name](request.seconds))
            case name:
                known = ", ".join((*_EVENTS, "status", "watch", "show", "quit"))
                raise ControlError(f"there is no command {name[:40]!r}, only {known}")
        _send(channel, answer)

    def _first(self) -> tuple[int, Snapshot]:
        found = self._newest.after(0, _SNAPSHOT_WITHIN)
        if found is None:
            raise ControlError("the engine has only just started")
        return found

    def _watch(self, channel: Channel) -> None:
        """Send the newest snapshot, ten times a second at most, until the last one."""
        with self._lock:
            self._watchers.add(threading.current_thread())
        found: tuple[int, Snapshot] | None = self._first()
        number = 0
        while found is not None or not self._ended.is_set():
            if found is not None:
                number, snapshot = found
                _send(channel, as_dict(snapshot))
                if snapshot.closed:
                    return
                self._ended.wait(WATCH_EVERY)
            found = self._newest.after(number, _SNAPSHOT_WITHIN)


def _check_user(channel: Channel) -> None:
    if not channel.is_ours():
        raise ControlError("this engine belongs to another user")


def _parse(line: bytes) -> _Request:
    try:
        request = msgspec.json.decode(line, type=_Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ControlError('this is not a request: expected a line such as {"command": "status"}') from None
    if request.seconds is not None and not 0 < request.seconds <= LONGEST:
        raise ControlError(f"for: expected a number of seconds above 0 and at most {LONGEST:g}")
    return request


def _send(channel: Channel, answer: dict[str, object]) -> None:
    try:
        channel.send(msgspec.json.encode(answer), _READ_WITHIN)
    except ControlError:
        raise _Left from None


def _refuse(channel: Channel, sentence: str) -> None:
    with contextlib.suppress(ControlError):  # whoever does not listen misses it
        channel.send(msgspec.json.encode({"ok": False, "error": sentence}), timeout=0.1)
