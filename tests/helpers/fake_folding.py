"""A Folding@home client 8 as it was recorded: a websocket, a state, groups and units, and its odd ways with commands.

`second` is the length of its second: a test may let its whole-second rule run faster than the real one.
"""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

PASSKEY = "passkey-that-nobody-may-log"
_CHANGES = {"pause": {"paused": True, "finish": False}, "fold": {"paused": False, "finish": False}}


def gpu_unit(number: int = 1, group: str = "", pid: int | None = 4711, **more: Any) -> dict[str, Any]:
    """Return a unit that folds on a card."""
    unit = {"number": number, "id": f"unit{number}", "state": "RUN", "group": group, "cpus": 1, "wu_progress": 0.5}
    return unit | {"gpus": ["gpu:01:00:00"]} | ({"pid": pid} if pid else {}) | more


def cpu_unit(number: int = 2, group: str = "", pid: int | None = 4712, **more: Any) -> dict[str, Any]:
    """Return a unit that folds on the processor."""
    return gpu_unit(number, group, pid, gpus=[], **more)


def group(*, paused: bool = False, finish: bool = False, gpu: bool = True, failed: str = "") -> dict[str, Any]:
    """Return one resource group."""
    gpus = {"gpu:01:00:00": {"enabled": gpu}}
    return {"config": {"on_idle": False, "paused": paused, "finish": finish, "gpus": gpus}, "failed": failed}


class FakeFolding:
    """The client. `log`: each command that came in, with "dropped" after those that it took no notice of."""

    def __init__(self, groups: dict[str, dict[str, Any]], units: list[dict[str, Any]], second: float) -> None:
        self.url = ""
        self.second = second
        self.delay = 0.3 * second  # from a command to its update
        self.leaving = 0.0  # seconds from a pause to the end of the core
        self.deaf = False  # takes no notice of any command
        self.mute = False  # obeys and does not say so
        self.on_leave: Callable[[], object] = lambda: None  # ends the core's process, where there is one
        self.checkpoint: float | None = None  # progress from which a unit goes on
        self.log: list[str] = []
        self.at: list[float] = []  # when each command came
        self.raw: list[dict[str, Any]] = []
        self.first: str | None = None  # what is sent instead of the state
        self.origins = ("http://127.0.0.1:7396",)
        self.state: dict[str, Any] = {
            "info": {"version": "8.5.7", "pid": 1, "gpus": {"gpu:01:00:00": {"supported": True}}},
            "config": {"user": "somebody", "team": 1, "passkey": PASSKEY},
            "groups": groups,
            "units": units,
        }
        self._lock = threading.RLock()
        self._changed: dict[str, int] = {}
        self._sockets: set[ServerConnection] = set()
        self._pids = itertools.count(5000)
        self._over = threading.Event()

    # ---- What a test does --------------------------------------------------------------------------------------------

    def config(self, name: str = "") -> dict[str, Any]:
        """Return a group's configuration."""
        config: dict[str, Any] = self.state["groups"][name]["config"]
        return config

    @property
    def obeyed(self) -> list[str]:
        """The commands that it took notice of."""
        return [words for words in self.log if not words.endswith("dropped")]

    @property
    def asked(self) -> list[str]:
        """The same without repeats in a row: where a confirmation comes late, on a slow machine, it is asked again."""
        return [words for words, _ in itertools.groupby(self.obeyed)]

    def paused(self, name: str = "") -> bool:
        """Tell whether a group is paused."""
        return bool(self.config(name)["paused"])

    def say(self, *update: Any) -> None:
        """Change the state and tell everybody: a path, then the value (None deletes, -1 appends)."""
        with self._lock:
            at: Any = self.state
            for key in update[:-2]:
                at = at[key]
            if update[-2] == -1:
                at.append(update[-1])
            elif update[-1] is None:
                del at[update[-2]]
            else:
                at[update[-2]] = update[-1]
            self.send(json.dumps(update))

    def send(self, text: str) -> None:
        """Send a frame to everybody."""
        for one in tuple(self._sockets):
            with suppress(ConnectionClosed):
                one.send(text)

    def hang_up(self) -> None:
        """Break all connections off."""
        for one in tuple(self._sockets):
            one.close()

    # ---- What the client does ----------------------------------------------------------------------------------------

    def let_in(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse a foreign page."""
        origin = request.headers.get("Origin")
        if origin and origin not in self.origins:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        return None

    def handle(self, connection: ServerConnection) -> None:
        """Show the state, then obey."""
        with self._lock:
            connection.send(json.dumps(self.state) if self.first is None else self.first)
            self._sockets.add(connection)
        try:
            for text in connection:
                self._obey(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            self._sockets.discard(connection)

    def _obey(self, command: dict[str, Any]) -> None:
        with self._lock:
            name = command.get("cmd", "")
            word = command.get("state") or ("config" if name == "config" else name)
            words = f"{word} {command['group']!r}" if "group" in command else word
            self.raw.append(command)
            self.at.append(time.monotonic())
            old = {"pause": "pause", "unpause": "fold", "finish": "finish"}.get(name)
            word = old or word
            kind = "state" if old else name
            now = int(time.time() / self.second)
            if self.deaf or now <= self._changed.get(kind, 0):
                self.log.append(f"{words} dropped")
                return
            self.log.append(words)
            self._changed[kind] = now
            if name == "config":
                self._configure(command["config"]["groups"])
            else:
                self._set(command.get("group"), word)

    def _configure(self, groups: dict[str, dict[str, Any]]) -> None:
        for name in [name for name in self.state["groups"] if name and name not in groups]:
            self._later(["groups", name, None])
            del self.state["groups"][name]
        for name, changes in groups.items():
            self._change(name, changes)

    def _set(self, name: str | None, word: str) -> None:
        if "groups" not in self.state:
            self._change(None, _CHANGES.get(word, {"finish": True}))
            return
        if name is not None and name not in self.state["groups"]:
            self.state["groups"][name] = group(paused=True)  # as it was seen
            self._later(["groups", name, self.state["groups"][name]])
        for one in [name] if name is not None else list(self.state["groups"]):
            if word == "fold":
                self.state["groups"][one]["failed"] = ""
            self._change(one, _CHANGES.get(word, {"finish": True}))

    def _change(self, name: str | None, changes: dict[str, Any]) -> None:
        path = ["config"] if name is None else ["groups", name, "config"]
        at: Any = self.state
        for key in path:
            at = at[key]
        for key, value in changes.items():
            if at.get(key) != value:
                at[key] = value
                self._later([*path, key, value])
        for index, unit in enumerate(self.state["units"]):
            if (name is None or unit["group"] == name) and "paused" in changes:
                self._turn(index, unit, changes["paused"])

    def _turn(self, index: int, unit: dict[str, Any], paused: bool) -> None:
        """Let a core end some time after a pause, or start a new one from the last checkpoint."""
        unit["pause_reason"] = "Paused" if paused else ""
        self._later(["units", index, "pause_reason", unit["pause_reason"]])
        if paused and "pid" in unit:
            threading.Thread(target=self._leave, args=(index, unit), daemon=True).start()
        elif not paused and "pid" not in unit:
            unit["pid"] = next(self._pids)
            unit["wu_progress"] = unit["wu_progress"] if self.checkpoint is None else self.checkpoint
            self._later(["units", index, "pid", unit["pid"]])
            self._later(["units", index, "wu_progress", unit["wu_progress"]])

    def _leave(self, index: int, unit: dict[str, Any]) -> None:
        self._over.wait(self.leaving)
        with self._lock:
            if unit.get("pause_reason") and not self._over.is_set():
                self.on_leave()
                unit.pop("pid", None)
                self._later(["units", index, "pid", None])

    def _later(self, update: list[Any]) -> None:
        if not self.mute:
            timer = threading.Timer(self.delay, self.send, [json.dumps(update)])
            timer.daemon = True
            timer.start()

    def end(self) -> None:
        """Let nothing happen any more."""
        self._over.set()
        self.hang_up()


@contextmanager
def folding(
    groups: dict[str, dict[str, Any]] | None = None,
    units: list[dict[str, Any]] | None = None,
    *,
    second: float = 0.1,
    port: int = 0,
) -> Iterator[FakeFolding]:
    """Run the client on loopback; by default one group that folds one unit on a card."""
    client = FakeFolding({"": group()} if groups is None else groups, [gpu_unit()] if units is None else units, second)
    with serve(client.handle, "127.0.0.1", port, process_request=client.let_in, compression=None) as server:
        client.url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}/api/websocket"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield client
        finally:
            client.end()
            server.shutdown()
            thread.join()
