"""While a pause outlives the machine's restart, the next login gives it back; and nothing stays registered."""

import shlex
import sys
from pathlib import Path

import pytest

from engine.orchestration import login
from engine.orchestration.ledger import Ledger, Resume, UnpauseFolding

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is another file, or none")

PAUSE = UnpauseFolding("ws://127.0.0.1:9/", "", False)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Give the ledger of a user of this test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Ledger(tmp_path / "state" / "zat-scs" / "ledger.json")


def _entry() -> dict[str, str]:
    lines = login.desktop_file().read_text("utf-8").splitlines()
    assert lines[0] == "[Desktop Entry]"
    return dict(line.split("=", 1) for line in lines[1:])


def test_it_is_registered_before_a_pause_and_taken_back_after_it(ledger: Ledger) -> None:
    """It runs `zat-scs release`, as a desktop starts programs."""
    ledger.record([PAUSE])
    assert login.desktop_file().parent.name == "autostart"
    assert shlex.split(_entry()["Exec"]) == login.command()
    assert login.command()[-1] == "release"
    assert _entry()["Type"] == "Application"
    ledger.clear([PAUSE])
    assert not login.desktop_file().exists()


def test_what_a_restart_undoes_by_itself_registers_nothing(ledger: Ledger) -> None:
    """Stopped processes do not outlive the machine."""
    one = Resume(4711, 1, "one")
    ledger.record([one])
    assert not login.desktop_file().exists()
    ledger.record([PAUSE])
    ledger.clear([one])
    assert login.desktop_file().exists()
    ledger.clear()
    assert not login.desktop_file().exists()


def test_a_ledger_of_another_place_registers_nothing(ledger: Ledger, tmp_path: Path) -> None:
    """`zat-scs release` would not read it; nor does clearing it take back what another one needs."""
    other = Ledger(tmp_path / "ledger.json")
    other.record([PAUSE])
    assert not login.desktop_file().exists()
    ledger.record([PAUSE])
    other.clear()
    assert login.desktop_file().exists()


def test_a_folder_that_cannot_be_written_is_said_and_hinders_nothing(
    ledger: Ledger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The ledger itself is what counts."""
    (tmp_path / "config").write_text("in the way")
    ledger.record([PAUSE])
    assert ledger.read() == (PAUSE,)
    assert "next login cannot be set" in caplog.text


def test_words_of_the_command_are_quoted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may have a space, a dollar sign or a percent sign in its name."""
    monkeypatch.setattr(login, "command", lambda: ["/a folder/100%/$x", "release"])
    ledger.record([PAUSE])
    assert _entry()["Exec"] == '"/a folder/100%%/\\\\$x" "release"'
