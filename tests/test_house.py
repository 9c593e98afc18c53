"""Rules of the house that no tool checks."""

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("app", "diagnostics", "engine")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
LONGEST_MODULE, LONGEST_FUNCTION = 300, 50
# Folders of people, on any system; written so that this line is not one of them.
HOME = re.compile(rb"(?<![\w.:/-])/(?:home|Users)/\w|(?<![\w./-])/root/\.?\w|\b[A-Za-z]:\\{1,2}Users\\{1,2}\w")


def name_of(path: Path) -> str:
    """Return the path as people say it."""
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    """Return the module, parsed."""
    return ast.parse(path.read_bytes(), filename=str(path))


def tracked_files() -> Iterator[Path]:
    """Yield the files that git knows; outside a checkout, all that lie in no hidden or built folder."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        # The checkout may belong to somebody else, as in a container: that is no danger to a listing.
        command = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
        names = [name.decode() for name in listing.split(b"\0") if name]
    else:
        names = [name_of(path) for path in ROOT.rglob("*")]
        names = [
            n for n in names if not re.search(r"(^|/)(\.(?!ci/|editorconfig|gitignore)|build/|dist/|__pycache__)", n)
        ]
    yield from (ROOT / name for name in names if (ROOT / name).is_file())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_and_stays_short(path: Path) -> None:
    """Docstring there, at most 300 lines, no function over 50."""
    tree = tree_of(path)
    assert ast.get_docstring(tree), "no docstring"
    lines = path.read_bytes().count(b"\n")
    assert lines <= LONGEST_MODULE
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {f"{node.name}, line {node.lineno}": (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize("path", MODULES + TESTS, ids=name_of)
def test_nothing_is_caught_blindly(path: Path) -> None:
    """A bare except would catch Ctrl+C too."""
    handlers = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ExceptHandler)]
    assert [f"line {node.lineno}" for node in handlers if node.type is None] == []


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_a_test_says_what_holds(path: Path) -> None:
    """Every test has a docstring."""
    tests = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    assert [f"{node.name}, line {node.lineno}" for node in tests if not ast.get_docstring(node)] == []


def test_packaging_is_no_package() -> None:
    """It would hide the library of the same name from pytest and PyInstaller."""
    assert not (ROOT / "packaging" / "__init__.py").exists()


def test_tests_are_no_packages() -> None:
    """They would hide the real packages of the same names."""
    assert [name_of(path) for path in TESTS if path.name == "__init__.py"] == []


def test_no_file_knows_somebodys_home() -> None:
    """A path of one machine works nowhere else, and tells whose it was."""
    here = Path(__file__)  # names such paths on purpose
    found = {name_of(path): HOME.findall(path.read_bytes()) for path in tracked_files() if path != here}
    assert {name: paths for name, paths in found.items() if paths} == {}


def test_types_are_checked_for_all_systems() -> None:
    """Each has names that the others lack."""
    lint = (ROOT / "Makefile").read_text("utf-8").partition("\nlint:")[2].partition("\nformat:")[0]
    assert "for system in linux win32 darwin; do" in lint
    assert "mypy --no-error-summary --platform $$system" in lint


@pytest.mark.skipif(not shutil.which("git"), reason="asks git itself")
def test_a_checkout_has_the_same_bytes_on_every_system(tmp_path: Path) -> None:
    """Also where git is told to write the line ends of Windows; pictures are never touched."""
    files = {
        ".gitattributes": (ROOT / ".gitattributes").read_bytes(),
        "code.py": b"one\ntwo\n",
        "script.sh": b"#!/bin/sh\n",
        "picture.png": b"one\r\ntwo\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    git = ["git", "-C", str(tmp_path), "-c", "core.autocrlf=true"]
    for words in (["init", "-q"], ["add", "."], ["checkout-index", "--all", "--prefix=out/"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files} == files


@pytest.mark.parametrize(
    ("text", "is_home"),
    [
        (b"see /home/ann/x", True),
        (b"'/Users/ann'", True),
        (b"/root/.cache", True),
        (b"/root/work", True),
        (b"C:\\Users\\ann", True),
        (b'"C:\\\\Users\\\\ann"', True),
        (b"https://example.org/home/page", False),
        (b"the /home folder", False),
    ],
)
def test_homes_are_recognised(text: bytes, is_home: bool) -> None:
    """The check above sees what it should, and no more."""
    assert bool(HOME.search(text)) is is_home


def test_the_changelog_has_a_place_for_what_comes() -> None:
    """Keep a Changelog: an Unreleased section stands first."""
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heads[0] == "[Unreleased]"


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_exact_and_cover_every_dependency() -> None:
    """Only `name==version` lines, no name twice, and one for each package that pyproject.toml names."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.+!]*", line)] == []
    names = [canonical(line.partition("==")[0]) for line in lines]
    assert len(set(names)) == len(names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *(d for group in project["optional-dependencies"].values() for d in group)]
    wanted = {canonical(re.split(r"[^A-Za-z0-9._-]", dependency)[0]) for dependency in asked}
    assert wanted - set(names) == set()
