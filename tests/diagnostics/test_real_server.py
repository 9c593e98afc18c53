"""The real server as a child: it starts, keeps its port, dies alone, and leaves nobody behind."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from helpers.wait import wait_until

from diagnostics.real_server import RealServer
from engine.client.api import Health, LlamaServer
from engine.errors import ServerUnreachable

pytestmark = pytest.mark.real


def test_it_starts_restarts_and_stops(tiny_model: Path, tmp_path: Path) -> None:
    """On one port, with a new process each time; what it held is lost."""
    with RealServer(tiny_model, tmp_path) as server, LlamaServer(server.url) as client:
        first = server.pid
        client.complete("hello", 1, timeout=30)
        server.restart()
        assert server.pid != first
        assert client.health() is Health.OK
        assert client.complete("hello", 1, timeout=30).cache_n == 0
    assert server.exit_code is not None
    assert "listening on" in server.log.read_text()
    server.stop()  # once more is harmless


def test_killed_it_is_gone_at_once(tiny_model: Path, tmp_path: Path) -> None:
    """As after a crash; it can be started again."""
    with RealServer(tiny_model, tmp_path) as server, LlamaServer(server.url) as client:
        server.kill()
        assert server.exit_code == -9
        with pytest.raises(ServerUnreachable):
            client.health()
        server.start()
        assert client.health() is Health.OK


def test_options_reach_the_server(tiny_model: Path, tmp_path: Path) -> None:
    """Slots and context, for instance."""
    with RealServer(tiny_model, tmp_path, slots=2, context=1024) as server, LlamaServer(server.url) as client:
        props = client.props()
        assert (props.total_slots, props.n_ctx) == (2, 512)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    """With the end of its log, and no process left."""
    pytest.importorskip("xllamacpp", reason="the real server needs xllamacpp")
    server = RealServer(tmp_path / "missing.gguf", tmp_path)
    with pytest.raises(ServerUnreachable, match=r"missing\.gguf"):
        server.start()
    assert server.exit_code is not None


def test_it_ends_with_the_process_that_started_it(tiny_model: Path, tmp_path: Path) -> None:
    """Even if that one is killed."""
    code = (
        "import sys, pathlib\n"
        "from diagnostics.real_server import RealServer\n"
        "server = RealServer(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", code, str(tiny_model), str(tmp_path)]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        assert child.is_running()
        parent.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, what="the child's end")
