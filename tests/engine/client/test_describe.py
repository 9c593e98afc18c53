"""Relative paths of a server count from its own folder, never from ours."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics import tiny_model as writer
from diagnostics.client import complete
from diagnostics.real_server import RealServer
from engine.client import describe
from engine.client.answers import Kind
from engine.client.contexts import Contexts, model_key
from engine.client.describe import placed
from engine.client.keeper import Keeper
from engine.client.observer import Observer
from engine.client.restorer import Restorer
from engine.client.view import Facts, View, readable
from engine.client.workbench import Workbench
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.processes import look

CLOCK = SystemClock()
TALK = "The user and the model have talked about the garden for a while. " * 10
HERE, THERE = "http://127.0.0.1:8080", "http://10.0.0.1:8080"


@pytest.fixture
def facts() -> Facts:
    """Return what is known of a server that runs in our own folder."""
    seen = look(os.getpid())
    assert seen
    line = ("llama-server", "-m", "m.gguf", "--slot-save-path", "./slots")
    return Facts(Kind.LLAMA_SERVER, model_path="m.gguf", save_path="./slots", command_line=line, process=seen.process)


def test_relative_paths_count_from_the_servers_folder(facts: Facts) -> None:
    """Both that of the model and that of the slot files; what is whole stays."""
    known = placed(facts, HERE)
    assert (known.model_path, known.save_path) == (str(Path.cwd() / "m.gguf"), f"{Path.cwd()}{os.sep}./slots")
    assert (known.is_unclear, known.is_own) == (False, True)
    assert readable(known.save_path or "", "a.bin") == Path.cwd() / "slots" / "a.bin"
    whole = replace(facts, model_path="/models/m.gguf", save_path="/slots")
    assert placed(whole, HERE) == whole
    assert placed(replace(facts, save_path=None), HERE).save_path is None


def test_a_model_whose_folder_cannot_be_seen_is_unclear(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may have the same name: its contexts are not kept, and why is said."""
    hidden = replace(facts, process=None, command_line=None)
    assert placed(hidden, HERE).is_unclear
    assert "the whole path of m.gguf" in placed(hidden, HERE).unkeepable
    monkeypatch.setattr(describe, "working_folder", lambda _: None)
    assert placed(facts, HERE).is_unclear


@pytest.mark.parametrize("path", ["/models/m.gguf", "C:\\models\\m.gguf", None])
def test_a_whole_path_is_clear_wherever_it_is(facts: Facts, path: str | None) -> None:
    """On this system or another."""
    hidden = placed(replace(facts, process=None, command_line=None, model_path=path), HERE)
    assert (hidden.is_unclear, hidden.model_path) == (False, path)


def test_a_server_elsewhere_keeps_what_it_says(facts: Facts) -> None:
    """On another machine, or behind a program that passes on to it: whose folder would not be the server's."""
    far = replace(facts, process=None, command_line=None)
    assert placed(far, THERE) == far
    passed_on = replace(facts, command_line=("ssh", "-L", "8080:localhost:8080", "gpu-box"))
    assert placed(passed_on, HERE) == passed_on


def test_a_file_of_that_name_in_our_own_folder_means_nothing(
    facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server elsewhere has another one."""
    monkeypatch.chdir(tmp_path)
    before = model_key(facts)
    Path("m.gguf").write_bytes(b"weights")
    assert model_key(facts) == before


# ---- The real server -------------------------------------------------------------------------------------------------


@contextmanager
def at(server: RealServer, folder: Path) -> Iterator[tuple[Workbench, Keeper, Restorer]]:
    """Return what keeps and restores, at this server; `folder`: where the list of contexts lies."""
    settings, view = Settings(server_url=server.url), View(reachable=True)
    bench = Workbench(settings, view, Contexts(folder / "contexts.json"), CLOCK, lambda _: None)
    observer = Observer(settings)
    observer.look(CLOCK.now(), keen=False, busy=False)
    observer.close()
    view.facts = observer.facts
    yield bench, Keeper(bench), Restorer(bench)
    bench.server.close()


def known(bench: Workbench) -> Facts:
    """Return what is known of the server."""
    assert bench.view.facts
    return bench.view.facts


@pytest.mark.real
def test_a_model_of_the_same_name_in_another_folder_is_given_nothing(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the other one's context in silence. We ourselves run in a third folder, where both would be one."""
    for name in ("one", "other", "ours", "slots"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "model.gguf").write_bytes(tiny_model.read_bytes())
    writer.write(tmp_path / "other" / "model.gguf", seed=1)
    (tmp_path / "ours" / "model.gguf").write_bytes(tiny_model.read_bytes())
    server = RealServer(Path("model.gguf"), tmp_path, slot_save_path=tmp_path / "slots")
    found = {}
    for name in ("one", "other", "one"):
        monkeypatch.chdir(tmp_path / name)
        with server:
            monkeypatch.chdir(tmp_path / "ours")
            with at(server, tmp_path) as (bench, keeper, restorer):
                assert known(bench).model_path == str(tmp_path / name / "model.gguf")
                found[name] = restorer.candidate(known(bench))[0]
                if name == "one" and found[name] is None:
                    complete(server.url, TALK, CLOCK, n_predict=2)
                    keeper.keep()
    assert found["one"] is not None
    assert found["other"] is None


@pytest.mark.real
def test_slot_files_in_a_relative_folder_are_looked_after(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For their owner only, checked, and deleted: as in any other folder of this machine."""
    for name in ("servers", "servers/slots", "ours"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "servers")
    with RealServer(tiny_model, tmp_path, slot_save_path=Path("slots")) as server:
        monkeypatch.chdir(tmp_path / "ours")
        complete(server.url, TALK, CLOCK, n_predict=2)
        with at(server, tmp_path) as (bench, keeper, restorer):
            keeper.keep()
            saved, _ = restorer.candidate(known(bench))
            assert saved
            assert saved.stamp
            path = tmp_path / "servers" / "slots" / saved.filename
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            path.write_bytes(path.read_bytes()[:-1000])
            assert "cut short" in restorer.candidate(known(bench))[1]
            assert bench.contexts.forget() == (1, ())
            assert not path.exists()
