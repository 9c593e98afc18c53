"""A process that listens and passes everything on to another port, as `ssh -L` and the like do."""

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

_HOST = "127.0.0.1"


@contextlib.contextmanager
def forwarded(port: int) -> Iterator[str]:
    """Let a process of its own pass on to this port; yield the address at which it listens."""
    command = [sys.executable, "-u", __file__, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        try:
            yield f"http://{_HOST}:{int(child.stdout.readline())}"
        finally:
            child.kill()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while words := source.recv(65536):
            target.sendall(words)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, port: int) -> None:
    while True:
        here, there = listener.accept()[0], socket.create_connection((_HOST, port))
        for ends in ((here, there), (there, here)):
            threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def main() -> None:
    """Serve until the standard input closes: so it never outlives whoever started it."""
    listener = socket.create_server((_HOST, 0))
    print(listener.getsockname()[1])  # noqa: T201 - to whoever started it
    threading.Thread(target=_serve, args=(listener, int(sys.argv[1])), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
