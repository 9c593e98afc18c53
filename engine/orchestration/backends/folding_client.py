"""The only door to Folding@home's websocket: what the client says of itself, and the few commands sent to it.

The client never answers a command; the only acknowledgement is that its state changes. It takes one command a second
and drops any other without a word. Its state holds the user's passkey, so nothing of it is ever logged.
"""

import encodings.idna  # noqa: F401 - a socket loads it for its first name, when the program may be gone
import json
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from engine.errors import BackendUnavailable
from engine.orchestration.backends.folding_state import MALFORMED, FoldingState, Group

SPACING = 1.5  # seconds between two commands: the client compares whole seconds
TRIES = 4  # of one command, before it is said that the client does not obey
PATIENCE = 2.0  # seconds to be let in and shown the state
_LARGEST = 16 << 20  # bytes; a burst of log lines is large
_QUEUE = 512  # messages; while held the client is listened to once a second or more often
_SILENT = logging.getLogger(f"{__name__}.wire")
_SILENT.setLevel(logging.CRITICAL)  # else, where somebody logs at DEBUG, the library writes every frame

_Answer = TypeVar("_Answer")
_last_sent: dict[str, float] = {}  # address → when this program last sent a command there


class FoldingTrouble(BackendUnavailable):
    """The client cannot be spoken to; the message is the reason, fit to be shown."""


class NobodyListens(FoldingTrouble):
    """There is no client: it is not installed, or not running."""


class FoldingClient:
    """One connection, with the client's state kept up to date. Everything may raise FoldingTrouble."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._open = ExitStack()
        self._socket = _connected(url, self._open)
        try:
            self._state = _understood(FoldingState, self._receive(PATIENCE))
        except FoldingTrouble:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._open.close()

    def pump(self, timeout: float = 0.0) -> None:
        """Take in what the client says: wait for the first message at most so long, for further ones not at all."""
        message = self._receive(timeout)
        while message is not None:
            _understood(self._state.take, message)
            message = self._receive(0.0)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Listen until the condition holds; False if it does not in time."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.pump(left)
        return True

    def groups(self) -> dict[str, Group]:
        """Return all groups by name; the default one has the name ""."""
        return _understood(self._state.groups)

    @property
    def ready_in(self) -> float:
        """Seconds until a command may be sent; 0: now."""
        return max(0.0, _last_sent.get(self._url, float("-inf")) + SPACING - time.monotonic())

    def pause(self, group: str) -> None:
        """Ask a group to leave the card."""
        self._send({"cmd": "pause"} if self._state.of_old else {"cmd": "state", "state": "pause", "group": group})

    def fold(self, group: str) -> None:
        """Ask a group to fold."""
        self._send({"cmd": "unpause"} if self._state.of_old else {"cmd": "state", "state": "fold", "group": group})

    def finish(self, group: str) -> None:
        """Ask a paused group to go on with its units and to take no further ones: `fold` would forget the latter."""
        if self._state.of_old:
            self._send({"cmd": "unpause"})
            self._send({"cmd": "finish"})
            return
        self.pump()  # a group that is not named here would be deleted
        groups: dict[str, dict[str, bool]] = {name: {} for name in self.groups()}
        self._send({"cmd": "config", "config": {"groups": {**groups, group: {"paused": False, "finish": True}}}})

    def _send(self, command: Mapping[str, Any]) -> None:
        """Send once the last command is old enough. It bears no time: one ahead of the client's would block others."""
        while (wait := self.ready_in) > 0:
            self.pump(wait)
        _last_sent[self._url] = time.monotonic()
        try:
            self._socket.send(json.dumps(command))
        except (WebSocketException, OSError):
            raise FoldingTrouble(_GONE) from None

    def _receive(self, timeout: float) -> Any:
        """Return one message, None if none came in time."""
        try:
            return json.loads(self._socket.recv(timeout, decode=True))
        except TimeoutError:
            return None
        except ConnectionClosed:
            raise FoldingTrouble(_GONE) from None
        except (WebSocketException, OSError, ValueError, RecursionError):
            raise FoldingTrouble(_MALFORMED) from None


_MALFORMED = "what Folding@home says is not understood"
_GONE = "Folding@home broke the connection off"


def _connected(url: str, stack: ExitStack) -> ClientConnection:
    parts = urlsplit(url)
    secure = parts.scheme == "wss"
    try:
        # A socket of our own: with one, the library follows neither a proxy nor a redirect.
        own = socket.create_connection((parts.hostname or "", parts.port or (443 if secure else 80)), PATIENCE)
    except (OSError, UnicodeError) as error:
        reason = "nobody listens" if isinstance(error, ConnectionRefusedError) else str(error)
        raise NobodyListens(f"no Folding@home client at {parts.netloc}: {reason}") from None
    own.settimeout(None)
    try:
        opening = connect(
            url,
            sock=own,
            ssl=ssl.create_default_context() if secure else None,
            proxy=None,
            compression=None,
            open_timeout=PATIENCE,
            close_timeout=0.2,
            ping_interval=None,  # the client need not answer
            max_size=_LARGEST,
            max_queue=_QUEUE,
            logger=_SILENT,
        )
        return stack.enter_context(opening)
    except InvalidStatus as error:
        reason = f"Folding@home at {parts.netloc} refuses the connection: HTTP {error.response.status_code}"
    except TimeoutError:
        reason = f"Folding@home at {parts.netloc} does not answer"
    except (WebSocketException, OSError, EOFError):
        reason = f"what listens at {parts.netloc} is no Folding@home client"
    own.close()
    raise FoldingTrouble(reason)


def _understood(call: Callable[..., _Answer], *words: Any) -> _Answer:
    try:
        return call(*words)
    except MALFORMED:
        raise FoldingTrouble(_MALFORMED) from None


# ---- Giving back: for the backend, the guardian, the next start and `release` alike ----------------------------------


def go_on(client: FoldingClient, name: str, finish: bool) -> tuple[bool, str]:
    """Let a group that we paused fold again, or go on finishing, if it is still as we left it.

    Return whether that is settled, and what became of it.
    """

    def paused() -> bool:
        return name not in client.groups() or client.groups()[name].paused

    if not client.wait(paused, SPACING):
        return True, "folds"  # a pause that was still on its way would have shown by now
    for _ in range(TRIES):
        group = client.groups().get(name)
        if group is None:
            return True, "is not there any more"
        if group.failed:
            return True, "has paused itself after units that failed, and stays paused"
        finish = finish or group.finish  # the latter was asked for by somebody else meanwhile
        if finish and not group.units:
            return True, "has finished its units, and stays paused"
        (client.finish if finish else client.fold)(name)
        if client.wait(partial(_goes_on, client, name, finish), SPACING):
            return True, "goes on finishing its units" if finish else "folds again"
    return False, "does not confirm that it folds again"


def _goes_on(client: FoldingClient, name: str, finish: bool) -> bool:
    group = client.groups().get(name)
    return group is None or (not group.paused and (group.finish or not finish))
