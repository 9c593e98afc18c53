"""The documents say what the program does: their commands are run, their tables compared, their links followed."""

import argparse
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import documents
from helpers.documents import DOCUMENTS, ROOT, Block, name_of
from helpers.engine_process import engine_process, user_folders
from helpers.wait import wait_until

from app import cli, serve
from diagnostics import benchmark, stress_test
from diagnostics.mock_server import StandIn
from engine.config import store, table
from engine.options import take_settings

README = ROOT / "README.md"
COMMANDS = documents.commands()
KINDS = ("sh", "powershell", "text", "toml", "ini")
JOB = "zat-scs-documents"  # no such program runs, so nothing of this machine is held


@dataclass(frozen=True)
class Answers:
    """It is run here, and ends by itself with this code, having said these words."""

    words: str = ""
    code: int = 0


@dataclass(frozen=True)
class Engine(Answers):
    """It is run here, and talks to an engine."""


@dataclass(frozen=True)
class Runs:
    """It is run here until Ctrl+C, which comes once it has said these words, and ends with 0."""

    words: str


@dataclass(frozen=True)
class Elsewhere:
    """It is run by this test."""

    test: str


@dataclass(frozen=True)
class NotRun:
    """It cannot be run by a test, for this reason; only its syntax is checked."""

    reason: str


STARTED = "background: free ("  # what a running engine logs once it has looked for its job
SYSTEM = NotRun("changes this system, and asks for a password")
LOGIN = NotRun("needs a login with systemd")
PACKAGE = Elsewhere("tests/packaging/test_linux.py::test_the_package_is_installed_run_and_removed")
FOLDER = Elsewhere("tests/packaging/test_linux.py::test_the_tarball_unpacks_to_a_folder_that_runs")
BUILD = Elsewhere("tests/packaging/test_linux.py::test_what_is_built_is_there")
SET_UP = NotRun("sets up a folder of its own, for minutes: it is how these tests were started")
DEMO = Elsewhere("tests/app/test_cli.py::test_the_demo_shows_the_whole_loop")
WAYS: dict[str, Answers | Engine | Runs | Elsewhere | NotRun] = {
    "zat-scs": Elsewhere("tests/app/test_main.py::test_a_first_start_by_hand_asks"),
    "zat-scs benchmark --server http://127.0.0.1:8080": Elsewhere(
        "tests/diagnostics/test_benchmark.py::test_on_a_server_of_the_user"
    ),
    "zat-scs benchmark --real": Elsewhere("tests/diagnostics/test_benchmark.py::test_on_the_real_server"),
    "zat-scs benchmark --real --curve": Elsewhere("tests/diagnostics/test_benchmark.py::test_curve_and_harm"),
    "zat-scs benchmark --real --harm": Elsewhere("tests/diagnostics/test_benchmark.py::test_curve_and_harm"),
    "zat-scs benchmark --real --interleavings 1000": Elsewhere(
        "tests/diagnostics/test_benchmark.py::test_interleavings_on_the_real_server"
    ),
    "zat-scs demo": DEMO,
    "zat-scs doctor": Answers("Background  held by:"),
    "zat-scs doctor --json": Answers('"drop_in"'),
    "zat-scs doctor --set BACKGROUND_METHOD=boinc --set BOINC_URL=127.0.0.1:31417": Answers("boinc: "),
    "zat-scs doctor --set BACKGROUND_METHOD=folding": Answers("Background  held by:"),
    "zat-scs doctor --set BACKGROUND_METHOD=mps": Answers("mps: "),
    "zat-scs engine": Runs(STARTED),
    "zat-scs engine --record day.jsonl.gz": Runs(STARTED),
    "zat-scs engine --set BACKGROUND_METHOD=off": Runs("free (null): switched off"),
    "zat-scs engine --set BACKGROUND_PROCESS_NAME=blender --set FALLBACK_TO_SUSPEND=on": Runs(STARTED),
    "zat-scs forget": Answers("Deleted 0 saved contexts."),
    "zat-scs forget --habits": Answers("Nothing was learned yet."),
    "zat-scs prepare": Engine("A prompt seems near"),
    "zat-scs quit": Elsewhere("tests/app/test_ending.py::test_an_engine_that_holds_a_job_gives_it_back_and_ends"),
    "zat-scs release": Engine("The engine holds nothing any more"),
    "zat-scs replay day.jsonl.gz": Elsewhere(
        "tests/diagnostics/test_replay.py::test_the_table_names_the_worst_file_and_tells_programs_apart"
    ),
    "zat-scs replay day.jsonl.gz --suggest": Elsewhere(
        "tests/diagnostics/test_suggest.py::test_the_command_searches_real_days"
    ),
    "zat-scs resume": Engine("held back"),
    "zat-scs serve": Answers("expected the server's command line", code=2),
    "zat-scs serve -- llama-server -m model.gguf -c 8192": Answers("--slot-save-path"),
    "zat-scs settings": Answers("MIN_THRESHOLD = 0.4  # default"),
    "zat-scs settings --markdown": Answers("| `MIN_THRESHOLD` |"),
    "zat-scs stats": Answers("Nothing can be said yet"),
    "zat-scs status": Engine("held back"),
    "zat-scs stress": NotRun("takes a quarter of an hour; tests/diagnostics/test_stress.py runs each phase in small"),
    "llama-server -m model.gguf -c 8192 --slot-save-path FOLDER --metrics": Answers(),
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY=1 llama-server -m model.gguf -c 8192 --slot-save-path FOLDER --metrics": Answers(),
    'mkdir -p -m 700 "$HOME/llama-slots"': Answers(),
    'mkdir -p "$HOME/.local/bin"': Answers(),
    'mkdir -p "$HOME/.config/systemd/user"': Answers(),
    'ln -s "$PWD/zat-scs-0.1.0/zat-scs" "$HOME/.local/bin/zat-scs"': Answers(),
    'cp packaging/zat-scs.service "$HOME/.config/systemd/user/"': Answers(),
    'rm -r "$HOME/.config/zat-scs" "$HOME/.local/share/zat-scs" "$HOME/.local/state/zat-scs"': Answers(),
    ".venv/bin/python -m pytest tests/test_house.py": NotRun("it is one of the tests"),
    ".venv/bin/zat-scs doctor": Elsewhere(
        "tests/app/test_cli.py::test_doctor_says_what_is_missing_and_the_flag_that_changes_it"
    ),
    "tar -xf dist/zat-scs-0.1.0-linux-x86_64.tar.xz": FOLDER,
    "zat-scs-0.1.0/zat-scs demo": Elsewhere("tests/packaging/test_bundle.py::test_nothing_leaves_the_machine"),
    "zat-scs-0.1.0/zat-scs doctor": FOLDER,
    "sudo apt install ./dist/zat-scs_0.1.0_amd64.deb": PACKAGE,
    "sudo apt remove zat-scs": PACKAGE,
    "docker run --gpus all -p 127.0.0.1:8080:8080 -e GGML_CUDA_ENABLE_UNIFIED_MEMORY=1 -v /srv/models:/srv/models:ro"
    " -v /srv/llama-slots:/srv/llama-slots IMAGE -m /srv/models/model.gguf -c 8192 --host 0.0.0.0 --port 8080"
    " --metrics --slot-save-path /srv/llama-slots/": NotRun("needs containers, a card and an image"),
    'sudo adduser "$USER" boinc': SYSTEM,
    "sudo apt install gnome-shell-extension-appindicator": SYSTEM,
    "sudo apt install libportaudio2": SYSTEM,
    'sudo loginctl enable-linger "$USER"': SYSTEM,
    "sudo systemctl edit llama-server": SYSTEM,
    "sudo zat-scs engine --set BACKGROUND_METHOD=process --set BACKGROUND_PROCESS_NAME=blender"
    " --set FALLBACK_TO_SUSPEND=on": Elsewhere(
        "tests/engine/orchestration/test_elevated.py::test_root_is_refused_where_somebody_became_it_without_need"
    ),
    "systemctl --user daemon-reload": LOGIN,
    "systemctl --user enable --now zat-scs": LOGIN,
    "systemctl --user disable zat-scs": LOGIN,
    "make": Elsewhere("tests/test_readme.py::test_make_lists_what_there_is"),
    "make run": DEMO,
    "SYSTEM_PACKAGES=no make run": DEMO,
    "SYSTEM_PACKAGES=no make setup": SET_UP,
    "make test": NotRun("it is all of the tests"),
    "make format": NotRun("writes into the source; `make test` runs the same tool with --check"),
    "make bench": NotRun("takes five minutes"),
    "python3 -m venv .venv": SET_UP,
    ".venv/bin/pip install -c constraints.txt -e .": SET_UP,
    ".venv/bin/zat-scs demo": DEMO,
    "make installer": Elsewhere("tests/packaging/test_installer.py::test_installed_and_removed_without_a_trace"),
    "make audit": NotRun("asks a service; tests/packaging/test_supply.py runs its script with a stand-in"),
    "make lock": NotRun("asks the package index, and writes into the source"),
    "make windows-bundle": NotRun("needs wine and a compiler for Windows, for ten minutes"),
    "make try-installer INSTALLER=FILE": Elsewhere(
        "tests/packaging/test_installer.py::test_installed_and_removed_without_a_trace"
    ),
    "make bundle": BUILD,
    "make deb": BUILD,
    "make tarball": BUILD,
    "make try": NotRun("makes a Debian of its own, for minutes"),
    "make screenshots": Elsewhere("tests/packaging/test_screenshots.py::test_a_picture_is_taken"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the home of a new user, with a server of their own, and the program on their path."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    stand_in = bin_ / "llama-server"
    stand_in.write_text('#!/bin/sh\necho "$@"\n', "utf-8")
    stand_in.chmod(0o755)
    for name in [name for name in os.environ if name.startswith(("XDG_", "ZAT_SCS_"))]:
        monkeypatch.delenv(name)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SUDO_UID", "PKEXEC_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("ZAT_SCS_BACKGROUND_PROCESS_NAME", JOB)
    for name in ("app", "diagnostics", "packaging"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "dist").mkdir()
    for folder in (".config", ".local/share", ".local/state"):
        (tmp_path / folder / "zat-scs").mkdir(parents=True)
    (tmp_path / ".config" / "systemd" / "user").mkdir(parents=True)
    (tmp_path / ".local" / "bin").mkdir()
    monkeypatch.chdir(tmp_path)
    with StandIn() as server:
        monkeypatch.setenv("ZAT_SCS_SERVER_URL", server.url)
        yield tmp_path


def of_kind(*kinds: type) -> list[str]:
    """Return the commands that the documents show and that are treated so."""
    return [command for command, way in WAYS.items() if type(way) in kinds and command in COMMANDS]


# ---- Commands --------------------------------------------------------------------------------------------------------


def test_every_command_is_run_or_stands_here_with_a_reason() -> None:
    """A command that is new in a document, or gone from all, is to be taken note of."""
    assert {command: where for command, where in COMMANDS.items() if command not in WAYS} == {}
    assert sorted(set(WAYS) - set(COMMANDS)) == []


def test_every_block_names_its_kind() -> None:
    """What is to be typed can be told from what is printed, and no block stands there only indented."""
    assert [block for block in documents.blocks() if block.kind not in KINDS] == []
    indented = {name_of(document): re.findall(r"\n\n {4,}\S.*", documents.prose(document)) for document in DOCUMENTS}
    assert {name: lines for name, lines in indented.items() if lines} == {}


@pytest.mark.parametrize("command", of_kind(Answers))
def test_a_command_answers(command: str, home: Path) -> None:
    """As it stands there, for a new user with a server."""
    way = WAYS[command]
    assert isinstance(way, Answers)
    answer = subprocess.run(
        ["bash", "-c", command], cwd=home, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert (answer.returncode, way.words in answer.stdout + answer.stderr) == (way.code, True), answer


@pytest.mark.parametrize("command", of_kind(Runs))
def test_a_command_runs_until_ctrl_c(command: str, home: Path) -> None:
    """As it stands there; it ends with 0."""
    way = WAYS[command]
    assert isinstance(way, Runs)
    with (home / "log").open("w") as log:
        started = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=home, stderr=log, stdin=subprocess.DEVNULL)
    try:
        said = home / "log"
        wait_until(lambda: way.words in said.read_text() or started.poll() is not None, 60, way.words)
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 0, said.read_text()
    finally:
        started.kill()
        started.wait()
    if "--record" in command:
        assert (home / "day.jsonl.gz").stat().st_size > 0


def test_commands_talk_to_a_running_engine(home: Path) -> None:
    """All that the documents have a person say to it."""
    with StandIn() as server, engine_process(home, {"SERVER_URL": server.url, "BACKGROUND_METHOD": "off"}) as engine:
        engine.wait_snapshot("the server", lambda seen: seen["server"] == "up")
        for command in of_kind(Engine):
            way = WAYS[command]
            assert isinstance(way, Engine)
            env = {**os.environ, **user_folders(home)}
            answer = subprocess.run(shlex.split(command), env=env, check=False, capture_output=True, text=True)
            assert (answer.returncode, way.words in answer.stdout) == (way.code, True), answer


@pytest.mark.parametrize("way", {way for way in WAYS.values() if isinstance(way, Elsewhere)}, ids=lambda way: way.test)
def test_the_test_that_runs_a_command_is_there(way: Elsewhere) -> None:
    """It has not been renamed meanwhile."""
    file, _, name = way.test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text("utf-8")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_well_formed(command: str) -> None:
    """The shell can read it, and this program's own words are ones that it takes."""
    subprocess.run(["bash", "-n", "-c", command], check=True, capture_output=True)
    words = shlex.split(command)
    at = next((n for n, word in enumerate(words) if Path(word).name == "zat-scs" and word[:1] != "$"), None)
    if at is not None and words[0] not in ("systemctl", "ln") and "apt" not in words:
        parse(words[at + 1 :])


@pytest.mark.parametrize("command", [c for c in COMMANDS if "llama-server -" in c or "docker" in c])
def test_a_server_is_started_with_all_it_needs(command: str) -> None:
    """`serve` would have nothing to add to a line that the documents give."""
    if not command.startswith("zat-scs"):
        assert serve.additions(shlex.split(command), Path("slots")) == []


def test_make_lists_what_there_is() -> None:
    """Each target that the documents name is one."""
    listed = subprocess.run(["make"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    named = {match[1] for command in COMMANDS if (match := re.search(r"\bmake ([a-z-]+)$", command))}
    there = {name for names in re.findall(r"^  make ((?:[a-z-]+ )+)", listed, re.MULTILINE) for name in names.split()}
    assert named - there == set()


# ---- The table of commands -------------------------------------------------------------------------------------------

METAVARS = {"S": "1", "N": "1", "P": "0", "URL": "http://127.0.0.1:1"}


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command by its name; "": of the program itself."""
    parser = cli._parser()
    subs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    own = {"benchmark": benchmark._parser(), "stress": stress_test._parser()}
    return {"": parser, **subs.choices, **own}


def parse(words: list[str]) -> None:
    """Let the program read a command line as far as it does without doing anything; SystemExit: it does not take it."""
    words = take_settings(words)[1]
    if words[:1] == ["mock-server"]:
        return
    if words[:1] in (["benchmark"], ["stress"]):
        parsers()[words[0]].parse_args(words[1:])
    else:
        cli._parser().parse_args(words)


def variants(usage: str) -> Iterator[list[str]]:
    """Yield what a usage allows, with all its options at once; one line for each alternative."""
    parts = re.findall(r"\[([^\]]*)\]|(\S+)", usage.replace("FILE...", "FILE").replace("ARGS", "-m x"))
    choices = [part[0].split(" | ") if part[0] else [part[1]] for part in parts]
    for chosen in itertools.product(*choices):
        words = shlex.split(" ".join(chosen))
        yield [METAVARS.get(word, word) for word in words]


@pytest.mark.parametrize("usage", documents.usages())
def test_a_row_of_the_table_of_commands_is_true(usage: str) -> None:
    """The program takes what the row shows, and the row shows all that it takes."""
    name = usage.split()[1] if len(usage.split()) > 1 and usage.split()[1][0].isalpha() else ""
    if name == "replay":
        usage = usage.replace("[--json] [--plot PICTURE] [--suggest]", "[--json | --plot PICTURE | --suggest]")
    shown: set[str] = set()
    for words in variants(usage):
        shown |= {word for word in words if word.startswith("--") and word != "--"}
        parse(words[1:])
    if name == "mock-server":
        program = str(Path(sys.executable).with_name("zat-scs"))
        answer = subprocess.run([program, "mock-server", "--help"], check=True, capture_output=True, text=True)
        taken = set(re.findall(r"^  (?:-h, )?(--[\w-]+)", answer.stdout, re.MULTILINE))
    else:
        taken = {option for action in parsers()[name]._actions for option in action.option_strings}
    assert shown == {option for option in taken if option.startswith("--")} - {"--help", "--version"}


def test_the_table_of_commands_is_complete() -> None:
    """Every command stands there once."""
    names = [usage.split()[1] for usage in documents.usages() if not usage.startswith("zat-scs [")]
    assert sorted(names) == sorted(name for name in parsers() if name)


# ---- What else stands there ------------------------------------------------------------------------------------------


def test_the_table_of_settings_is_the_declared_one() -> None:
    """Between the two marks stands what `zat-scs settings --markdown` prints."""
    begin, end = "<!-- settings: begin -->", "<!-- settings: end -->"
    text = README.read_text("utf-8")
    assert (text.count(begin), text.count(end)) == (1, 1), f"README.md needs {begin} and {end}, once each"
    between = text.partition(begin)[2].partition(end)[0]
    assert between.strip() == table.markdown().strip()


@pytest.mark.parametrize("block", [b for b in documents.blocks() if b.kind == "toml"], ids=lambda b: b.text.split()[0])
def test_settings_that_are_shown_are_allowed(block: Block, tmp_path: Path) -> None:
    """A file with these lines is read without a complaint."""
    file = tmp_path / "settings.toml"
    file.write_text(block.text, "utf-8")
    assert store.load(file).problems == ()
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_settings_in_a_sentence_exist(document: Path) -> None:
    """A name in capitals with an underscore is a setting, or a variable of somebody else that is known here."""
    others = {"GGML_CUDA_ENABLE_UNIFIED_MEMORY", "CUDA_MPS_PIPE_DIRECTORY", "XDG_CONFIG_HOME", "SYSTEM_PACKAGES"}
    states = {"WAYLAND_DISPLAY", "COLD_IDLE", "SPECULATIVE_PREPARED", "ACTIVE_INFERENCE", "ZAT_SCS_"}
    signing = {"WINDOWS_CERTIFICATE", "WINDOWS_CERTIFICATE_PASSWORD", "WINDOWS_TIMESTAMP_URL"}
    names = set(re.findall(r"\b[A-Z]{2,}_[A-Z_]+\b", document.read_text("utf-8")))
    assert (
        names - others - states - signing - {match[1] for match in re.finditer(r"\| `(\w+)` \|", table.markdown())}
        == set()
    )


def source() -> str:
    """Return all of the program's text, strings that go on in the next line joined."""
    files = [file for name in ("app", "diagnostics", "engine") for file in (ROOT / name).rglob("*.py")]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text("utf-8") for file in files))


def quoted() -> list[tuple[str, str]]:
    """Return what documents quote of the program: what stands in curly quotes, or as code in a whole sentence."""
    found = []
    for document in DOCUMENTS[:1] + DOCUMENTS[2:]:
        words = [span for span in documents.spans(document) if re.match(r"(zat-scs: |[a-z]+ )", span)]
        words += re.findall(r"“([a-z][^”`]* [^”`]*)”", " ".join(documents.prose(document).split()))
        found += [(name_of(document), span) for span in words if span not in COMMANDS and len(span.split()) > 2]
    return found


def test_the_program_is_quoted_as_it_speaks() -> None:
    """At least three words in a row, or all of them, stand so in the source: figures and names differ."""
    of_others = "Waiting for idle system"  # the words of Folding@home that are passed on
    text, missing = source(), []
    for document, quote in quoted():
        words = quote.removeprefix("zat-scs: ").replace(of_others, "").replace("…", "").split()
        runs = [" ".join(words[n : n + min(3, len(words))]) for n in range(max(1, len(words) - 2))]
        if not any(run in text for run in runs):
            missing.append((document, quote))
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_and_pictures_lead_somewhere(document: Path) -> None:
    """Each file is there, and each heading."""
    for target in documents.links(document):
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        assert not anchor or anchor in documents.anchors(file), target


def test_files_are_named_by_the_present_version() -> None:
    """A package is called as it is called now."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    named = {
        match for document in DOCUMENTS for match in re.findall(r"zat-scs[-_](\d[\d.]*\d)", document.read_text("utf-8"))
    }
    assert named == {version}


def test_every_page_is_linked_from_the_readme() -> None:
    """A page that nobody leads to is not found."""
    linked = {target.partition("#")[0] for target in documents.links(README)}
    assert {name_of(document) for document in DOCUMENTS[2:]} - linked == set()
