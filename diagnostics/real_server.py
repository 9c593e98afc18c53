"""Runs the real llama.cpp server, which the package xllamacpp carries, as a child process on the loopback address.

Only the child imports xllamacpp: a server that aborts takes the child with it, never this process.
"""

import argparse
import contextlib
import socket
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any, Self

from engine import itself
from engine.client.api import Health, LlamaServer
from engine.clock import SystemClock
from engine.errors import ServerError, ServerUnreachable

_HOST = "127.0.0.1"


def free_port() -> int:
    """Return a loopback port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


class RealServer:
    """One llama.cpp server on a port of its own, which it keeps over restarts.

    `folder` receives the log. `context` is in tokens and shared by the slots, unless `kv_unified`;
    `sleep_idle_seconds` 0: never sleeps. Nothing runs before `start()`; as a context manager it starts and stops.
    """

    def __init__(
        self,
        model: Path,
        folder: Path,
        *,
        context: int = 4096,
        slots: int = 1,
        slot_save_path: Path | None = None,
        metrics: bool = True,
        slots_endpoint: bool = True,
        api_key: str = "",
        sleep_idle_seconds: int = 0,
        cache_ram_mib: int = 0,
        threads: int = 1,
        kv_unified: bool = False,
    ) -> None:
        self.port = free_port()
        self.url = f"http://{_HOST}:{self.port}"
        self.log = folder / f"server-{self.port}.log"
        self._child: subprocess.Popen[bytes] | None = None
        self._command = itself.command("diagnostics.real_server", str(model), str(self.port))
        for name, value in (
            ("context", context),
            ("slots", slots),
            ("slot-save-path", slot_save_path),
            ("api-key", api_key),
            ("sleep-idle-seconds", sleep_idle_seconds),
            ("cache-ram-mib", cache_ram_mib),
            ("threads", threads),
        ):
            if value not in ("", None):
                self._command.append(f"--{name}={value}")
        for name, on in (("metrics", metrics), ("slots-endpoint", slots_endpoint), ("kv-unified", kv_unified)):
            self._command.append(f"--{name}" if on else f"--no-{name}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the server, None when none was started."""
        return self._child.pid if self._child else None

    @property
    def exit_code(self) -> int | None:
        """How the server ended: None while it runs, negative by a signal."""
        return self._child.poll() if self._child else None

    def start(self, timeout: float = 60.0) -> None:
        """Start the server and wait, `timeout` seconds at most, until it is healthy.

        Raises ServerUnreachable, with the end of the log, when it ends or is not ready by then.
        """
        clock = SystemClock()
        self.launch()
        with LlamaServer(self.url) as server:
            until = clock.now() + timeout
            while clock.now() < until and self.exit_code is None:
                try:
                    if server.health(timeout=1.0) is Health.OK:
                        return
                except ServerError:
                    pass  # not open yet
                time.sleep(0.02)
        ended = self.exit_code
        self.stop()
        tail = self.log.read_text("utf-8", "replace")[-2000:]
        how = "did not become ready" if ended is None else f"ended with {ended}"
        raise ServerUnreachable(f"the server at {self.url} {how}; its log ends with:\n{tail}")

    def launch(self) -> None:
        """Start the process without waiting: it loads its model now."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(  # noqa: S603 - a part of ourselves
                self._command, env=itself.environment(), stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def stop(self) -> None:
        """Ask the server to end, insist after 5 s, and wait for it. Harmless when none runs."""
        if self._child:
            self._child.terminate()
            self._reap(patience=5.0)

    def kill(self) -> None:
        """End the server at once, as a crash would. Harmless when none runs."""
        if self._child:
            self._child.kill()
            self._reap(patience=30.0)

    def wait(self, timeout: float) -> int:
        """Wait for a server that ends by itself and return its exit code; subprocess.TimeoutExpired if it does not."""
        if self._child is None:
            raise ServerUnreachable("no server was started")
        return self._child.wait(timeout)

    def restart(self) -> None:
        """Stop, then start on the same port: whatever was in memory is lost."""
        self.stop()
        self.start()

    def _reap(self, patience: float) -> None:
        child = self._child
        if child is None:
            return
        try:
            child.wait(patience)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdin:
            child.stdin.close()


def _params(options: argparse.Namespace) -> Any:
    """Translate our options into the server's own."""
    import xllamacpp  # noqa: PLC0415 - native code that may abort: only in the child

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = [_HOST]
    params.port = options.port
    params.n_ctx = options.context
    params.n_parallel = options.slots
    params.kv_unified = options.kv_unified
    params.endpoint_metrics = options.metrics
    params.endpoint_slots = options.slots_endpoint
    params.cache_ram_mib = options.cache_ram_mib
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    if options.slot_save_path:
        params.slot_save_path = options.slot_save_path.rstrip("/") + "/"  # the server only puts the name behind it
    if options.api_key:
        params.api_keys = [options.api_key]
    if options.sleep_idle_seconds:
        params.sleep_idle_seconds = options.sleep_idle_seconds
    return params


def main(argv: list[str] | None = None) -> int:
    """Be the server, until the standard input closes: so it never outlives the process that started it."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.real_server", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("port", type=int)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--slot-save-path", default="")
    parser.add_argument("--api-key", default="")
    parser.add_argument("--sleep-idle-seconds", type=int, default=0)
    parser.add_argument("--cache-ram-mib", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--metrics", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--slots-endpoint", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--kv-unified", action=argparse.BooleanOptionalAction, default=False)
    params = _params(parser.parse_args(argv))

    import xllamacpp  # noqa: PLC0415 - native code that may abort: only in the child

    server = xllamacpp.Server(params)
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.buffer.read()
    del server
    return 0


if __name__ == "__main__":
    sys.exit(main())
