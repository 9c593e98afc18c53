"""The control channel's clients: one that asks and waits, and one that shows views an engine in another process."""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import msgspec

from engine.channel import Channel, ControlError, NoAnswer
from engine.clock import Clock, SystemClock
from engine.doors import connect
from engine.events import Event, ForgetRequested, Paused, PrepareRequested, ReleaseRequested, Resumed, Snapshot
from engine.snapshots import snapshot_from_dict

log = logging.getLogger(__name__)

WITHIN = 2.0  # s for an answer
SILENCE = 10.0  # s without a snapshot after which an engine hangs, or stands still

Listener = Callable[[Snapshot], None]
Answer = dict[str, Any]


class ControlClient:
    """Talks to the engine that listens at `path`. `connect`, `request` and `watch` raise ControlError."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or SystemClock()
        self._channel: Channel | None = None

    def connect(self, timeout: float = WITHIN) -> None:
        """Connect; NotRunning if there is no engine of this user."""
        self._channel = connect(self._path, self._clock, timeout)

    def request(self, command: str, seconds: float | None = None, *, timeout: float = WITHIN) -> Answer:
        """Return the engine's answer; ControlError with its sentence if it says no."""
        self._send(command, seconds, timeout)
        answer = self._receive(timeout)
        if answer is None:
            raise ControlError("the engine has ended")
        return answer

    def watch(self, silence: float = SILENCE) -> Iterator[Answer]:
        """Yield snapshots as they come, until `close`; ControlError when the engine ends or says nothing for so long.

        The last one of an engine that ended by itself is `closed`.
        """
        self._send("watch", None, silence)
        while (line := self._receive(silence)) is not None:
            yield line

    def close(self) -> None:
        """Hang up; a thread that waits in `watch` is woken."""
        if self._channel is not None:
            self._channel.close()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, command: str, seconds: float | None, timeout: float) -> None:
        if self._channel is None:
            raise ControlError("not connected yet")
        line = {"command": command} if seconds is None else {"command": command, "for": seconds}
        try:
            self._channel.send(msgspec.json.encode(line), timeout)
        except NoAnswer:
            raise NoAnswer(f"the engine has not listened for {timeout:g} s") from None
        except ControlError:
            pass  # it hung up already; why, stands in what it sent before

    def _receive(self, timeout: float) -> Answer | None:
        assert self._channel is not None
        try:
            line = self._channel.receive(timeout)
            answer = None if line is None else msgspec.json.decode(line, type=Answer)
        except NoAnswer:
            raise NoAnswer(f"the engine has not answered for {timeout:g} s") from None
        except (msgspec.DecodeError, RecursionError):
            raise ControlError("the engine's answer is not understood") from None
        if answer is not None and answer.get("ok") is False:
            raise ControlError(str(answer.get("error")))
        return answer


class RemoteEngine:
    """An engine in another process, with the face that views know: post, subscribe, start, close.

    `ended` is called once, on a thread of this object, with a sentence, when the engine is gone or says nothing any
    more; not after `close`. Listeners are called on that thread too.
    """

    def __init__(self, path: Path, ended: Callable[[str], None], clock: Clock | None = None) -> None:
        self._path = path
        self._ended = ended
        self._clock = clock or SystemClock()
        self._watcher = ControlClient(path, self._clock)
        self._listeners: list[Listener] = []
        self._commands: queue.SimpleQueue[tuple[str, float | None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._threads = (
            threading.Thread(target=self._watch, name="remote engine", daemon=True),
            threading.Thread(target=self._command, name="remote commands", daemon=True),
        )

    def start(self) -> None:
        """Connect and begin to watch. Raises ControlError, NotRunning if there is no engine of this user."""
        self._watcher.connect()
        for thread in self._threads:
            thread.start()

    def post(self, event: Event) -> None:
        """Send what the user asked for; returns at once. Raises ControlError for what others may not say."""
        match event:
            case PrepareRequested():
                self._commands.put(("prepare", event.seconds))
            case ReleaseRequested():
                self._commands.put(("release", None))
            case Paused():
                self._commands.put(("pause", event.seconds))
            case Resumed():
                self._commands.put(("resume", None))
            case ForgetRequested():
                self._commands.put(("forget", None))
            case _:
                raise ControlError(f"{type(event).__name__} cannot be sent to an engine in another process")

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Let `listener` see each snapshot; return how to end that."""
        self._listeners.append(listener)
        return lambda: self._unsubscribe(listener)

    def close(self) -> None:
        """Stop watching; the engine goes on."""
        self._closed.set()
        self._commands.put(None)
        self._watcher.close()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(WITHIN)

    def _unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:  # one that failed was dropped already
            self._listeners.remove(listener)

    def _watch(self) -> None:
        reason = "the engine has ended"
        try:
            for line in self._watcher.watch():
                self._publish(snapshot_from_dict(line))
        except ControlError as error:
            reason = str(error)
        except ValueError as error:
            reason = f"the engine is of another version: {error}"
        self._watcher.close()
        if not self._closed.is_set():
            self._ended(reason)

    def _publish(self, snapshot: Snapshot) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(snapshot)
            except Exception:  # a broken view must not take the others along
                log.exception("a listener failed and is dropped")
                self._unsubscribe(listener)

    def _command(self) -> None:
        while (command := self._commands.get()) is not None:
            try:
                with ControlClient(self._path, self._clock) as client:
                    client.request(*command)
            except ControlError as error:
                log.warning("%s was not taken: %s", command[0], error)
