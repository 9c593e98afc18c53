"""A stand-in for llama-server with its HTTP shapes and none of its intelligence: for demo, benchmarks and tests.

A prompt whose context is not in its slot waits before its first token, as a cold one does with a model.
"""

import argparse
import contextlib
import signal
import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any, Self

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from diagnostics.mock_routes import Routes
from diagnostics.mock_slots import Slots
from engine.clock import SystemClock

_HOST = "127.0.0.1"


class StandIn:
    """The stand-in on the loopback address; port 0 takes a free one, which it then keeps.

    `restore_ms`: what a cold prompt waits before its first token; `token_ms`: what each token takes;
    `context`: tokens a slot holds. `slot_save_path`: the folder of saved contexts, None: slot actions are refused.
    A file that is cut short is its death, as with llama-server: it is down until `up()`.
    """

    def __init__(
        self,
        port: int = 0,
        restore_ms: float = 200.0,
        slot_save_path: Path | None = None,
        *,
        slots: int = 1,
        context: int = 8192,
        token_ms: float = 5.0,
        verbose: bool = False,
    ) -> None:
        self.port = port
        self._slots = Slots(slots, context, slot_save_path)
        self._clock = SystemClock()
        self._routes = Routes(
            self._slots, self._clock, restore=restore_ms / 1000.0, token=token_ms / 1000.0, die=self.down
        )
        self._peers: set[socket.socket] = set()
        self._handler = _handler(self._peers, verbose=verbose)
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_HOST}:{self.port}"

    def start(self) -> None:
        """Begin to listen, and return at once. Raises OSError when the port is taken."""
        self._routes.start_mark = f"{self._clock.now():.9f}"
        with socket.create_server((_HOST, self.port), backlog=64) as listener:
            self.port = listener.getsockname()[1]
            self._server = make_server(
                _HOST, self.port, self._routes.app, threaded=True, request_handler=self._handler, fd=listener.fileno()
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, name="stand-in", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and cut every connection. Harmless when it does not run."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        server.server_close()
        for peer in tuple(self._peers):
            with contextlib.suppress(OSError):  # it may have hung up by itself
                peer.shutdown(socket.SHUT_RDWR)
        if self._thread:
            self._thread.join()

    def forget(self) -> None:
        """Lose every context."""
        self._slots.forget()

    def sleep(self) -> None:
        """Fall asleep, as after --sleep-idle-seconds: contexts are lost, and /props says so."""
        self._slots.sleep()

    def down(self) -> None:
        """Die: connections are refused, contexts and counters lost."""
        self.stop()
        self._slots.reset()

    def up(self) -> None:
        """Come back on the same port."""
        self.start()


def _handler(peers: set[socket.socket], *, verbose: bool) -> type[WSGIRequestHandler]:
    """Return a handler that notes its open connections in `peers`, and is silent unless asked."""

    class Handler(WSGIRequestHandler):
        def setup(self) -> None:
            super().setup()
            peers.add(self.connection)

        def finish(self) -> None:
            peers.discard(self.connection)
            super().finish()

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the library's name
            if verbose:
                super().log(type, message, *args)

    return Handler


def main(argv: list[str] | None = None, *, prog: str = "python -m diagnostics.mock_server") -> int:
    """Run the stand-in until Ctrl+C; return the exit code. `prog`: how it was called."""
    parser = argparse.ArgumentParser(prog=prog, description="A stand-in for llama-server on this machine.")
    parser.add_argument("--port", type=_port, default=8080, help="port on the loopback address; 0: a free one")
    parser.add_argument("--restore-ms", type=_milliseconds, default=200.0, help="what a cold prompt waits")
    parser.add_argument("--slot-save-path", type=Path, metavar="FOLDER", help="where contexts are saved")
    parser.add_argument("--verbose", action="store_true", help="log each request")
    options = parser.parse_args(argv)
    if options.slot_save_path and not options.slot_save_path.is_dir():
        parser.error(f"--slot-save-path: {options.slot_save_path} is not a folder")
    server = StandIn(options.port, options.restore_ms, options.slot_save_path, verbose=options.verbose)
    try:
        server.start()
    except OSError as error:
        print(f"mock-server: cannot listen on {server.url}: {error.strerror}", file=sys.stderr)
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs behind it deaf to Ctrl+C
        signal.signal(number, signal.default_int_handler)
    try:
        print(f"Stand-in server at {server.url} (Ctrl+C ends it)", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()
    return 0


def _port(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 0 <= (port := int(text)) <= 65535:
            return port
    raise argparse.ArgumentTypeError(f"{text} is not a port: expected 0 to 65535")


def _milliseconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.0 <= (value := float(text)) <= 600_000.0:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not allowed: expected 0 to 600000 ms")


if __name__ == "__main__":
    sys.exit(main())
