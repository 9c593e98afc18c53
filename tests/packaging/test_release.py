"""What is handed out, and when nothing is."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import packaging/release.py for a project of this test's own."""
    spec = importlib.util.spec_from_file_location("release", ROOT / "packaging" / "release.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n', "utf-8")
    (tmp_path / "CHANGELOG.md").write_text(
        "## [Unreleased]\n\n## [1.2.3] - 2026-11-30\n\n- New.\n\n## [1.2.2]\n", "utf-8"
    )
    (tmp_path / "dist").mkdir()
    for name, path in (("ROOT", tmp_path), ("DIST", tmp_path / "dist"), ("PACKAGES", tmp_path / "dist" / "packages")):
        monkeypatch.setattr(module, name, path)
    return module


def test_packages_are_collected_and_summed(release: ModuleType) -> None:
    """Only what is handed out of this version, with a name for each list of parts, and sums that sha256sum believes."""
    (release.DIST / "zat-scs_1.2.2_amd64.deb").touch()
    for name in ("zat-scs_1.2.3_amd64.deb", "zat-scs-setup-1.2.3-unsigned.exe", "notes.txt", "zat-scs.cdx.json"):
        (release.DIST / name).write_text(name, "ascii")
    assert release.main(["collect"]) == 0
    assert release.main(["checksums"]) == 0
    names = {path.name for path in release.PACKAGES.iterdir()}
    assert names >= {"zat-scs_1.2.3_amd64.deb", "zat-scs-setup-1.2.3-unsigned.exe", "SHA256SUMS"}
    assert names.isdisjoint({"notes.txt", "zat-scs_1.2.2_amd64.deb"})
    assert sum(name.endswith(".cdx.json") and "1.2.3" in name for name in names) == 1
    lines = (release.PACKAGES / "SHA256SUMS").read_text("ascii").splitlines()
    assert len(lines) == len(names) - 1
    if shutil.which("sha256sum"):
        check = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release.PACKAGES, check=False)
        assert check.returncode == 0


def test_nothing_is_collected_of_nothing(
    release: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what it has looked for."""
    monkeypatch.setattr(release.sys, "platform", "linux")
    assert release.main(["collect"]) == 1
    assert capsys.readouterr().err.startswith("release: there is nothing of *.deb ")


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("v1.2.4", "the tag is v1.2.4, the version v1.2.3"),
        ("v1.2.3", "the checksums are missing"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(
    release: ModuleType, capsys: pytest.CaptureFixture[str], tag: str, said: str
) -> None:
    """A tag of another version, or packages without checksums."""
    assert release.main(["publish", tag]) == 1
    assert said in capsys.readouterr().err


def test_a_release_says_what_changed(release: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GitHub's command gets the tag, all packages, and this version's part of the list of changes."""
    gh = tmp_path / "gh"
    gh.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{tmp_path}/words"\ncat >"{tmp_path}/notes"\n', "utf-8")
    gh.chmod(0o755)
    monkeypatch.setattr(release.shutil, "which", lambda _: str(gh))
    release.PACKAGES.mkdir()
    for name in ("a.deb", "SHA256SUMS"):
        (release.PACKAGES / name).touch()
    release.publish("v1.2.3")
    words = (tmp_path / "words").read_text("utf-8").splitlines()
    assert words[:4] == ["release", "create", "v1.2.3", "--verify-tag"]
    assert words[-2:] == [str(release.PACKAGES / "SHA256SUMS"), str(release.PACKAGES / "a.deb")]
    assert (tmp_path / "notes").read_text("utf-8") == "- New.\n"


def test_a_version_that_nobody_wrote_of_is_not_released(release: ModuleType) -> None:
    """An empty section counts as none."""
    for changes in ("## [Unreleased]\n- New.\n", "## [1.2.3]\n\n## [1.2.2]\n- Old.\n"):
        with pytest.raises(release.Unready, match=r"says nothing of 1\.2\.3"):
            release.notes(changes, "1.2.3")
