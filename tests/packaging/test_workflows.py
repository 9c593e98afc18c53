"""The workflows of GitHub Actions do what everybody does here, by hands that are nailed down."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONLINT = shutil.which("actionlint", path=str(Path(sys.executable).parent)) or shutil.which("actionlint")
each = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def test_there_are_some() -> None:
    """Tests on every change, and a release."""
    assert [path.name for path in WORKFLOWS] == ["release.yml", "test.yml"]


@each
def test_actions_are_pinned_by_hash(path: Path) -> None:
    """A tag can be moved to other code; the comment says which version the hash is, and it is the same everywhere."""
    everywhere = "".join(other.read_text("utf-8") for other in WORKFLOWS)
    for line in re.findall(r"uses: *(.*)", path.read_text("utf-8")):
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
        action = line.partition("@")[0]
        assert len(set(re.findall(rf"{re.escape(action)}@.*", everywhere))) == 1, action


@each
def test_steps_only_call_make(path: Path) -> None:
    """Whatever is done there can be done here: each step that runs something runs a target that there is."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    commands = re.findall(r"run: *(.*)", path.read_text("utf-8"))
    commands = [command for command in commands if command]  # `defaults: run:` names the shell
    assert commands
    for command in commands:
        found = re.fullmatch(r'make ([a-z-]+)( [A-Z]+="?\$?\w+"?)*', command)
        assert found, command
        assert found[1] in targets, command


@each
def test_nothing_may_be_written_but_by_the_release(path: Path) -> None:
    """Reading is the rule; one job may do more; the checkout leaves no key behind; nothing of a stranger is pasted."""
    text = path.read_text("utf-8")
    assert "\npermissions:\n  contents: read\n\n" in text
    writing = re.findall(r"^ +([a-z-]+): write", text, re.MULTILINE)
    assert sorted(writing) == (["attestations", "contents", "id-token"] if path.name == "release.yml" else [])
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")
    assert "pull_request_target" not in text
    assert [line for line in re.findall(r"run: *(.*)", text) if "${{" in line] == []


def test_a_release_is_summed_and_attested_before_it_is_published() -> None:
    """In this order, and only for a tag."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    order = ["make try-installer", "make checksums", "actions/attest-build-provenance@", "make publish"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert text.count("if: github.event_name == 'push'") == 2  # which is a tag's; by hand nothing is published
    assert 'tags: ["v*"]' in text


@pytest.mark.parametrize("target", ["checksums", "publish"])
def test_where_a_release_may_be_written_nothing_is_installed(target: str) -> None:
    """The job with that right runs code of this project alone."""
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert recipe
    assert recipe[1].startswith("\t@python3 packaging/release.py ")
    assert recipe[1].count("\n") == 1


@pytest.mark.skipif(ACTIONLINT is None, reason="actionlint is not installed")
def test_actionlint_finds_nothing() -> None:
    """It knows the syntax of workflows, their expressions, and what the actions take."""
    assert ACTIONLINT
    done = subprocess.run([ACTIONLINT, "-no-color"], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
