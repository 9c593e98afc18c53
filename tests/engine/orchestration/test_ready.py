"""The guardian has in memory what giving back takes: the program's folder may be gone by then."""

import fcntl
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.fake_boinc import PASSWORD, fake_boinc
from helpers.fake_folding import folding, group
from helpers.wait import wait_until

import engine
from engine import itself
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Entry, Ledger, RestoreBoinc, UnpauseFolding

SCRIPT = """
import sys
from pathlib import Path

from engine.orchestration.ledger import Ledger
from engine.orchestration.undoing import get_ready, undo


class Gone:
    def find_spec(self, name, path=None, target=None):
        raise ImportError(f"the folder with {name} is gone")


ledger = Ledger(Path(sys.argv[1]))
entries = ledger.read()
get_ready(entries)
sys.meta_path.insert(0, Gone())
undone = undo(entries)
ledger.clear([one.entry for one in undone if one.settled])
print(*[one.sentence for one in undone])
"""


def _undone_without_a_folder(entry: Entry, folder: Path) -> str:
    """Return what a process that can load nothing more says of undoing it."""
    ledger = Ledger(folder / "ledger.json")
    ledger.record([entry])
    command = [sys.executable, "-c", SCRIPT, str(ledger.path)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def _heard(guardian: Guardian) -> None:
    """Wait until the child has read all that it was told."""
    assert guardian._child
    assert guardian._child.stdin
    pipe = guardian._child.stdin.fileno()
    wait_until(lambda: struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"    "))[0] == 0, what="the child")


def test_nothing_is_loaded_to_let_folding_go_on(tmp_path: Path) -> None:
    """Whatever its client's protocol needs is there before the client is paused."""
    with folding() as client:
        client.say("groups", "", "config", "paused", True)
        assert _undone_without_a_folder(UnpauseFolding(client.url, "", False), tmp_path) == "Folding@home folds again"
        assert not client.paused()


def test_nothing_is_loaded_to_end_the_lease_of_boinc(tmp_path: Path) -> None:
    """The same for the other client that is spoken to."""
    password = tmp_path / "gui_rpc_auth.cfg"
    password.write_text(PASSWORD)
    with fake_boinc() as client:
        client.temporary, client.until = 3, time.time() + 50
        said = _undone_without_a_folder(RestoreBoinc(client.address, str(password)), tmp_path)
        assert said == "BOINC goes on"
        assert client.mode != 3


@contextmanager
def _deleted(folder: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> Iterator[None]:
    """Pass when a guardian is armed for a client, its program is deleted, and then its engine has ended."""
    installed = folder / "installed"
    shutil.copytree(Path(engine.__path__[0]), installed / "engine")
    monkeypatch.setattr(itself, "ROOT", installed)
    ledger = Ledger(folder / "ledger.json")
    guardian = Guardian(ledger.path)
    ledger.record([UnpauseFolding(url, "", False)])
    guardian.arm()
    _heard(guardian)
    guardian.beat()
    _heard(guardian)  # it listens again, so all that being armed takes is done
    shutil.rmtree(installed)
    guardian.stop(patient=True)
    yield
    for child in guardian._left:
        child.wait(20)


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_deleted_program_still_gives_folding_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is deleted while the client is paused, then the engine dies."""
    with folding() as client:
        client.say("groups", "", "config", "paused", True)
        with _deleted(tmp_path, monkeypatch, client.url):
            wait_until(lambda: not client.paused(), what="the client to fold")


@pytest.mark.real
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_deleted_program_is_as_patient_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is restarting when the engine dies: a first try is not the last, though nothing can be struck out."""
    with folding() as before:
        port = int(before.url.split(":")[2].split("/")[0])
    with _deleted(tmp_path, monkeypatch, before.url), folding({"": group(paused=True)}, port=port) as client:
        wait_until(lambda: not client.paused(), what="the client to fold")
        wait_until(lambda: not (tmp_path / "ledger.json").exists(), what="the guardian to see that it does")
