"""More rights than needed are refused on a desktop, and only said where nobody else is there."""

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.config.settings import Settings
from engine.orchestration import elevated
from engine.orchestration.elevated import examine

SERVICE = Path(__file__).parents[3] / "packaging" / "zat-scs.service"


@pytest.fixture(autouse=True)
def _no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests say where they are."""
    monkeypatch.setattr(elevated, "_MARKS_OF_CONTAINERS", ())


@pytest.fixture
def _root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_an_ordinary_user_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is how it should be started."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert examine(Settings(), {"SUDO_UID": "1000"}) is None


@pytest.mark.usefixtures("_root")
@pytest.mark.parametrize(
    ("environ", "method", "refused"),
    [
        ({"SUDO_UID": "1000"}, "auto", True),
        ({"PKEXEC_UID": "1000"}, "auto", True),
        ({"SUDO_UID": "1000"}, "process", False),
        ({"SUDO_UID": "1000", "CI": "true"}, "auto", False),
        ({"SUDO_UID": "0"}, "auto", False),
        ({}, "auto", False),
    ],
)
def test_root_is_refused_where_somebody_became_it_without_need(
    environ: dict[str, str], method: str, refused: bool
) -> None:
    """Else there is one line that says so."""
    finding = examine(Settings(background_method=method), environ)
    assert finding
    assert finding.refuse is refused
    assert "rights of root" in finding.sentence


@pytest.mark.usefixtures("_root")
def test_in_a_container_everybody_is_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That is no reason to refuse."""
    monkeypatch.setattr(elevated, "_MARKS_OF_CONTAINERS", (str(tmp_path),))
    finding = examine(Settings(), {"SUDO_UID": "1000"})
    assert finding
    assert not finding.refuse


# ---- The unit for systemd --------------------------------------------------------------------------------------------


def test_the_service_gives_back_whatever_ended_it() -> None:
    """Also after kill -9, and without killing the guardian first."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(SERVICE.read_text("utf-8"))
    service = unit["Service"]
    assert service["ExecStart"].endswith("zat-scs engine")
    assert service["ExecStopPost"].endswith("zat-scs release")
    assert service["KillMode"] == "process"  # mixed kills all that is left once the engine is gone


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_understands_the_service(tmp_path: Path) -> None:
    """With a command that is there."""
    text = SERVICE.read_text("utf-8").replace("%h/.local/bin/zat-scs", "/bin/true")
    (tmp_path / "zat-scs.service").write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "zat-scs.service")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "zat-scs.service" in done.stderr) == (0, False), done.stderr
