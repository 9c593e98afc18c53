"""The stand-in where it differs from the real server: its pace, its switches, and its command.

What it has in common with the real one is in tests/engine/client/test_facts.py.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.rig import Call, ask, at_work

from diagnostics import mock_server
from diagnostics.mock_server import StandIn
from engine.client.api import Health, LlamaServer
from engine.errors import ServerRefused, ServerUnreachable

ROOT = Path(__file__).parents[2]
COLD = 1000  # ms; no busy machine takes a warm prompt for so long
PROMPT = "A prompt long enough to be told from another."


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StandIn]:
    """Return a stand-in whose cold prompts are easily told from warm ones."""
    with StandIn(restore_ms=COLD, slot_save_path=tmp_path, token_ms=0) as stand_in:
        yield stand_in


@pytest.fixture
def client(server: StandIn) -> Iterator[LlamaServer]:
    """Return a client of it."""
    with LlamaServer(server.url) as llama:
        yield llama


def _is_cold(server: StandIn, prompt: str = PROMPT) -> bool:
    """Whether the prompt waits before its first token."""
    _, answer = ask(server.url, "/completion", {"prompt": prompt, "n_predict": 2})
    return bool(answer["timings"]["prompt_ms"] >= COLD)


def test_only_a_cold_prompt_waits(server: StandIn, client: LlamaServer) -> None:
    """After a turn, and after a restore, it does not."""
    assert _is_cold(server)
    assert not _is_cold(server, PROMPT + " And more.")
    client.save(0, "a.bin", timeout=5)
    server.forget()
    assert _is_cold(server)
    server.forget()
    client.restore(0, "a.bin", timeout=5)
    assert not _is_cold(server)


def test_another_prompt_is_cold(server: StandIn) -> None:
    """Though the slot is not empty."""
    assert _is_cold(server)
    assert _is_cold(server, "Something else altogether, which shares nothing with it.")


def test_down_is_refused_and_up_is_back_on_the_same_port(server: StandIn, client: LlamaServer) -> None:
    """What was held and counted is lost, as by a restart."""
    client.complete(PROMPT, 1, timeout=5)
    mark = client.metrics().start_mark
    url = server.url
    server.down()
    with pytest.raises(ServerUnreachable):
        client.health()
    server.up()
    assert server.url == url
    assert client.health() is Health.OK
    metrics = client.metrics()
    assert metrics.prompt_tokens == 0
    assert metrics.start_mark != mark
    assert _is_cold(server)


def test_going_down_cuts_who_waits(tmp_path: Path) -> None:
    """A call in flight breaks off, and none is left behind."""
    with StandIn(restore_ms=60_000, slot_save_path=tmp_path) as server:
        call = Call(server.url, "complete", PROMPT, 1)
        at_work(server.url, processing=1)
        server.down()
        with pytest.raises(ServerUnreachable):
            call.result()
        call.drop()


def test_a_file_cut_short_is_its_death(server: StandIn, client: LlamaServer, tmp_path: Path) -> None:
    """As with the real one."""
    client.complete(PROMPT, 1, timeout=5)
    client.save(0, "a.bin", timeout=5)
    (tmp_path / "a.bin").write_bytes((tmp_path / "a.bin").read_bytes()[:-4])
    with pytest.raises(ServerUnreachable):
        client.restore(0, "a.bin", timeout=5)
    with pytest.raises(ServerUnreachable):
        client.health()
    server.up()
    assert client.health() is Health.OK


def test_asleep_until_it_is_needed(server: StandIn, client: LlamaServer) -> None:
    """Props say so, /slots and actions wake it, and the context is gone."""
    client.complete(PROMPT, 1, timeout=5)
    client.save(0, "a.bin", timeout=5)
    server.sleep()
    client.metrics()
    assert client.props().is_sleeping
    client.slots()
    assert not client.props().is_sleeping
    assert _is_cold(server)
    server.sleep()
    assert client.restore(0, "a.bin", timeout=5).n_restored > 0
    assert not client.props().is_sleeping


def test_without_a_folder_actions_are_refused() -> None:
    """All three of them."""
    with StandIn() as server:
        for action in ("save", "restore", "erase"):
            status, answer = ask(server.url, f"/slots/0?action={action}", {"filename": "a.bin"})
            assert (status, answer["error"]["type"]) == (501, "not_supported_error")
            assert "--slot-save-path" in answer["error"]["message"]


def test_several_slots_serve_at_once_and_prompts_find_their_own(tmp_path: Path) -> None:
    """The most alike is taken, unless the client asks for one."""
    stand_in = StandIn(restore_ms=0, slot_save_path=tmp_path, slots=2, token_ms=0)
    with stand_in as server, LlamaServer(server.url) as client:
        client.complete(PROMPT, 1, 1, timeout=5)
        client.complete("Elsewhere.", 1, 0, timeout=5)
        assert client.complete(PROMPT, 1, timeout=5).cache_n == len(PROMPT)
        assert client.complete(PROMPT, 1, 0, timeout=5).cache_n <= 1


def test_a_client_that_leaves_frees_its_slot(tmp_path: Path) -> None:
    """Streaming or not, begun or not."""
    with StandIn(restore_ms=60_000, slot_save_path=tmp_path) as server:
        call = Call(server.url, "complete", PROMPT, 1)
        at_work(server.url, processing=1)
        call.drop()
        at_work(server.url, processing=0)
        with socket.create_connection(("127.0.0.1", server.port)) as stream:
            body = b'{"prompt": "hello", "stream": true}'
            head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            stream.sendall(head.encode() + body)
            at_work(server.url, processing=1)
        at_work(server.url, processing=0)


def test_context_ends_a_reply(tmp_path: Path) -> None:
    """It cannot say more than fits."""
    stand_in = StandIn(restore_ms=0, slot_save_path=tmp_path, context=64, token_ms=0)
    with stand_in as server, LlamaServer(server.url) as client:
        assert client.complete("x" * 50, 100, timeout=5).predicted_n == 13
        with pytest.raises(ServerRefused, match="exceeds the available context size"):
            client.complete("x" * 64, 1, timeout=5)


# ---- The command -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_serves_quietly_and_ends_when_told(number: signal.Signals) -> None:
    """By Ctrl+C or a plain kill, with exit code 0."""
    with subprocess.Popen(
        [sys.executable, "-m", "diagnostics.mock_server", "--port", "0", "--restore-ms", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout
        url = next(word for word in command.stdout.readline().split() if word.startswith("http://"))
        with LlamaServer(url) as client:
            assert client.health() is Health.OK
            client.complete(PROMPT, 1, timeout=10)
        os.kill(command.pid, number)
        out, err = command.communicate(timeout=20)
    assert (command.returncode, out, err) == (0, "", "")


def test_a_taken_port_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    """And exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert mock_server.main(["--port", str(port)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"cannot listen on http://127.0.0.1:{port}" in err


@pytest.mark.parametrize(
    "options",
    [["--port", "x"], ["--port", "70000"], ["--restore-ms", "-1"], ["--restore-ms", "nan"], ["--what"],
     ["--slot-save-path", "no-such-folder"]],
)  # fmt: skip
def test_bad_options_are_wrong_use(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, with a word about the option."""
    with pytest.raises(SystemExit) as ended:
        mock_server.main(options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize("verbose", [False, True])
def test_it_logs_when_asked(caplog: pytest.LogCaptureFixture, verbose: bool) -> None:
    """Each request; else nothing at all."""
    caplog.set_level("INFO", "werkzeug")
    with StandIn(verbose=verbose) as server:
        ask(server.url, "/health")
    assert ("GET /health" in caplog.text) == verbose
