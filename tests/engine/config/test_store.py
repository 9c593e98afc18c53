"""Where settings come from, what is said of mistakes, and how the file is written."""

import os
import stat
import tempfile
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from engine.config import store
from engine.config.settings import Settings, spec, specs
from engine.config.spec import Spec, Value
from engine.errors import SettingsError

NUMBER = "a number from 0.01 to 1"
ADDRESS = "an address such as http://127.0.0.1:8080"
ORDER = "expected MIN_THRESHOLD ≤ INITIAL_THRESHOLD ≤ MAX_THRESHOLD"
SECRET = "hunter2"
SWITCH = "on or off (in settings.toml: true or false)"
QUOTES = "a text stands in quotes, a switch is true or false"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return where the user's file lies; it is not there yet."""
    return tmp_path / "zat-scs" / "settings.toml"


def written(file: Path, content: str | bytes) -> Path:
    """Put content into the file."""
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


# --- precedence


def test_nothing_is_said_anywhere(file: Path) -> None:
    """Without any source the defaults are in force."""
    assert store.load(file, {}) == store.Loaded(Settings(), {}, (), file)


def test_each_source_wins_over_the_one_before(file: Path) -> None:
    """Default < file < environment < --set, and the source of each is known."""
    written(file, "LINGER = 1\nWEIGHT_KEY = 0.1\nWEIGHT_AUD = 0.1\n")
    environ = {"ZAT_SCS_WEIGHT_KEY": "0.2", "ZAT_SCS_WEIGHT_AUD": "0.2", "OTHER": "x"}
    loaded = store.load(file, environ, ["WEIGHT_AUD=0.3"])
    assert loaded.settings == Settings(linger=1.0, weight_key=0.2, weight_aud=0.3)
    assert loaded.sources == {"LINGER": "file", "WEIGHT_KEY": "environment", "WEIGHT_AUD": "--set"}
    assert loaded.problems == ()


def test_the_last_set_wins() -> None:
    """A setting may be given twice, and a value may hold an equals sign."""
    loaded = store.load(Path("nowhere.toml"), {}, ["LINGER=1", "API_KEY=a=b", "LINGER=2"])
    assert loaded.settings == Settings(linger=2.0, api_key="a=b")


def test_the_usual_places_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments the user's own file and the process's environment are read."""
    monkeypatch.setattr(store, "config_file", lambda: Path("nowhere.toml"))
    monkeypatch.setenv("ZAT_SCS_LINGER", "7")
    loaded = store.load()
    assert loaded.path == Path("nowhere.toml")
    assert loaded.settings == Settings(linger=7.0)


def test_folders_are_the_users_own() -> None:
    """All three places are absolute and named after the program."""
    for place in (store.config_file().parent, store.data_folder(), store.state_folder()):
        assert place.is_absolute()
        assert "zat-scs" in place.parts


# --- mistakes in the file are reported and defaulted

IN_THE_FILE = [
    ("MIN_TRESHOLD = 0.5", "MIN_TRESHOLD is not a setting; did you mean MIN_THRESHOLD?"),
    ("linger = 5", "linger is not a setting; did you mean LINGER?"),
    ("'' = 5", "(no name) is not a setting; `zat-scs settings` lists all names"),
    ("[colours]\nred = 1", "colours is not a setting; `zat-scs settings` lists all names"),
    ("WEIGHT_KEY = 'x'", "WEIGHT_KEY = 'x' is not allowed: expected a number from 0 to 1; the default is used"),
    ("WEIGHT_KEY = true", "WEIGHT_KEY = True is not allowed: expected a number from 0 to 1; the default is used"),
    ("WEIGHT_KEY = 2", "WEIGHT_KEY = 2.0 is not allowed: expected a number from 0 to 1; the default is used"),
    ("WEIGHT_KEY = nan", "WEIGHT_KEY = nan is not allowed: expected a number from 0 to 1; the default is used"),
    ("WEIGHT_KEY = -inf", "WEIGHT_KEY = -inf is not allowed: expected a number from 0 to 1; the default is used"),
    (
        "TELEMETRY_HZ = 10.5",
        "TELEMETRY_HZ = 10.5 is not allowed: expected a whole number from 1 to 50 Hz; the default is used",
    ),
    ("KEYBOARD = 'maybe'", f"KEYBOARD = 'maybe' is not allowed: expected {SWITCH}; the default is used"),
    ("KEYBOARD = 0", f"KEYBOARD = 0 is not allowed: expected {SWITCH}; the default is used"),
    ("EVIDENCE = 'both'", "EVIDENCE = 'both' is not allowed: expected one of adaptive, seed; the default is used"),
    (
        "SERVER_URL = 'localhost'",
        f"SERVER_URL = 'localhost' is not allowed: expected {ADDRESS}; the default is used",
    ),
    ("LINGER = [1]", "LINGER = [1] is not allowed: expected a number from 0 to 3600 s; the default is used"),
    ("[LINGER]\na = 1", "LINGER = {'a': 1} is not allowed: expected a number from 0 to 3600 s; the default is used"),
    (
        f"API_KEY = 'two {SECRET}'",
        "API_KEY = (not shown) is not allowed: expected a key without spaces; the default is used",
    ),
    (
        f"[API_KEY]\nkey = '{SECRET}'",
        "API_KEY = (not shown) is not allowed: expected a key without spaces; the default is used",
    ),
]


@pytest.mark.parametrize(("line", "problem"), IN_THE_FILE)
def test_a_mistake_in_the_file(file: Path, line: str, problem: str) -> None:
    """It is reported in one sentence, the default is used, and what else the file says holds."""
    loaded = store.load(written(file, f"MICROPHONE = false\n{line}\n"), {})
    assert loaded.problems == (f"{file}: {problem}",)
    assert loaded.settings == Settings(microphone=False)
    assert loaded.sources == {"MICROPHONE": "file"}


def test_a_number_of_any_size_in_the_file(file: Path) -> None:
    """A whole number that no float can hold is a mistake like any other."""
    loaded = store.load(written(file, f"LINGER = {'9' * 400}\n"), {})
    assert loaded.settings == Settings()
    assert loaded.problems[0].startswith(f"{file}: LINGER = 999")


def test_slot_as_a_number_in_the_file(file: Path) -> None:
    """A slot may be written without quotes."""
    assert store.load(written(file, "SLOT_ID = 3\n"), {}).settings == Settings(slot_id="3")


@pytest.mark.parametrize("value", ["true", "'on'", '"True"', "'1'"])
def test_a_switch_in_the_file_may_be_a_word(file: Path, value: str) -> None:
    """What `--set` takes for a switch is taken in quotes, too."""
    loaded = store.load(written(file, f"FALLBACK_TO_SUSPEND = {value}\n"), {})
    assert (loaded.settings, loaded.problems) == (Settings(fallback_to_suspend=True), ())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"LINGER = \xff", "'utf-8' codec can't decode byte 0xff in position 9: invalid start byte"),
        (b"LINGER = five", f"Unexpected character: 'i' at line 1 col 10; {QUOTES}"),
        (b"KEYBOARD = off", f"Unexpected character: 'o' at line 1 col 11; {QUOTES}"),
        (b"LINGER 5", "Invalid key (not shown) at line 1 col 0"),
        (b"LINGER = 5\nLINGER = 6\n", "Key (not shown) already exists. at line 2 col 0"),
    ],
)
def test_a_file_that_cannot_be_read(file: Path, content: bytes, reason: str) -> None:
    """Text that is no TOML is reported with its place, and defaults are used."""
    loaded = store.load(written(file, content), {})
    assert loaded.settings == Settings()
    assert loaded.problems == (f"{file}: cannot be read, so defaults are used: {reason}",)


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    """It is reported, and defaults are used."""
    loaded = store.load(tmp_path, {})
    assert loaded.settings == Settings()
    assert loaded.problems[0].startswith(f"{tmp_path}: cannot be read, so defaults are used: ")


def test_a_file_that_may_not_be_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, and defaults are used."""

    # Root may read everything, so the refusal is made here.
    def refuse(_self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(file))

    written(file, "LINGER = 5\n")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    loaded = store.load(file, {})
    assert loaded.settings == Settings()
    assert loaded.problems == (f"{file}: cannot be read, so defaults are used: [Errno 13] Permission denied: '{file}'",)


def test_a_file_from_a_windows_editor(file: Path) -> None:
    """A byte-order mark and its line ends are no mistake."""
    loaded = store.load(written(file, b"\xef\xbb\xbfLINGER = 5\r\n# end\r\n"), {})
    assert loaded.settings == Settings(linger=5.0)
    assert loaded.problems == ()


@given(st.text(alphabet=st.sampled_from("LINGERAPI_KEY =[]{}\"'\\#.,0123456789truefalsnai+-:TZ\n\t\r\x00é")))
def test_no_file_is_fatal(text: str) -> None:
    """Whatever the file holds, there are settings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.toml"
        path.write_bytes(text.encode())
        assert isinstance(store.load(path, {}).settings, Settings)


@pytest.mark.parametrize(
    "content",
    [
        f"API_KEY = {SECRET}",
        f'API_KEY = "{SECRET}',
        f"API_KEY {SECRET}",
        f'API_KEY = "{SECRET}" {SECRET}',
        f'API_KEY = "a"\nAPI_KEY = "{SECRET}"',
        f'API_KEY = "{SECRET}\\q"',
    ],
)
def test_a_broken_line_does_not_show_the_key(file: Path, content: str) -> None:
    """Not even where the parser complains about that very line."""
    loaded = store.load(written(file, content), {})
    assert loaded.problems
    assert SECRET not in " ".join(loaded.problems)


# --- mistakes from outside end the command

OUTSIDE = [
    ("COLOUR", "red", "COLOUR is not a setting; `zat-scs settings` lists all names"),
    ("linger", "1", "linger is not a setting; did you mean LINGER?"),
    ("INITIAL_THRESHOLD", "high", f"INITIAL_THRESHOLD = 'high' is not allowed: expected {NUMBER}"),
    ("INITIAL_THRESHOLD", "", f"INITIAL_THRESHOLD = '' is not allowed: expected {NUMBER}"),
    ("INITIAL_THRESHOLD", "7", f"INITIAL_THRESHOLD = 7.0 is not allowed: expected {NUMBER}"),
    ("INITIAL_THRESHOLD", "nan", f"INITIAL_THRESHOLD = 'nan' is not allowed: expected {NUMBER}"),
    ("INITIAL_THRESHOLD", "-inf", f"INITIAL_THRESHOLD = '-inf' is not allowed: expected {NUMBER}"),
    ("TELEMETRY_HZ", "2.5", "TELEMETRY_HZ = '2.5' is not allowed: expected a whole number from 1 to 50 Hz"),
    ("KEYBOARD", "maybe", f"KEYBOARD = 'maybe' is not allowed: expected {SWITCH}"),
    ("EVIDENCE", "both", "EVIDENCE = 'both' is not allowed: expected one of adaptive, seed"),
    (
        "SERVER_URL",
        "localhost:8080",
        f"SERVER_URL = 'localhost:8080' is not allowed: expected {ADDRESS}",
    ),
    ("API_KEY", f"two {SECRET}", "API_KEY = (not shown) is not allowed: expected a key without spaces"),
    (
        "INITIAL_THRESHOLD",
        "0.95",
        f"MIN_THRESHOLD = 0.4, INITIAL_THRESHOLD = 0.95, MAX_THRESHOLD = 0.9 is not allowed: {ORDER}",
    ),
]


@pytest.mark.parametrize(("name", "text", "message"), OUTSIDE)
def test_a_mistake_in_the_environment(file: Path, name: str, text: str, message: str) -> None:
    """It ends the command; the message names the variable, or what the values break together."""
    with pytest.raises(SettingsError) as refusal:
        store.load(file, {f"ZAT_SCS_{name}": text})
    who = "environment" if message.startswith("MIN") else f"environment ZAT_SCS_{name}"
    assert str(refusal.value) == f"{who}: {message}"


@pytest.mark.parametrize(("name", "text", "message"), OUTSIDE)
def test_a_mistake_in_a_set(file: Path, name: str, text: str, message: str) -> None:
    """It ends the command; the message names `--set` and the setting."""
    with pytest.raises(SettingsError) as refusal:
        store.load(file, {}, [f"{name}={text}"])
    who = "--set" if message.startswith("MIN") else f"--set {name}"
    assert str(refusal.value) == f"{who}: {message}"


@pytest.mark.parametrize(
    ("given_", "shown"),
    [("LINGER", "LINGER"), ("", ""), (f"API_KEY {SECRET}", "API_KEY"), (f"API_KEY:{SECRET}", "API_KEY")],
)
def test_a_set_without_an_equals_sign(file: Path, given_: str, shown: str) -> None:
    """The name alone is repeated, since what follows it may be a secret."""
    with pytest.raises(SettingsError) as refusal:
        store.load(file, {}, [given_])
    assert str(refusal.value) == f"--set {shown}: expected NAME=VALUE"


# --- the order of the thresholds across sources


def test_an_order_broken_by_the_file(file: Path) -> None:
    """The file's thresholds are dropped, all of them, and the rest of the file holds."""
    loaded = store.load(written(file, "MIN_THRESHOLD = 0.7\nMAX_THRESHOLD = 0.8\nLINGER = 5\n"), {})
    assert loaded.settings == Settings(linger=5.0)
    assert loaded.sources == {"LINGER": "file"}
    values = "MIN_THRESHOLD = 0.7, INITIAL_THRESHOLD = 0.65, MAX_THRESHOLD = 0.8"
    assert loaded.problems == (f"{file}: {values} is not allowed: {ORDER}; the defaults are used for all three",)


def test_an_order_mended_from_outside(file: Path) -> None:
    """What counts is what is in force in the end."""
    loaded = store.load(written(file, "MIN_THRESHOLD = 0.7\n"), {"ZAT_SCS_INITIAL_THRESHOLD": "0.8"})
    assert loaded.settings == Settings(min_threshold=0.7, initial_threshold=0.8)
    assert loaded.problems == ()


def test_an_order_broken_by_file_and_set_together(file: Path) -> None:
    """Both are named, since either can be changed."""
    with pytest.raises(SettingsError) as refusal:
        store.load(written(file, "MAX_THRESHOLD = 0.7\n"), {}, ["INITIAL_THRESHOLD=0.8"])
    assert str(refusal.value).startswith(
        "--set and file: MIN_THRESHOLD = 0.4, INITIAL_THRESHOLD = 0.8, MAX_THRESHOLD = 0.7"
    )


# --- writing


def test_only_what_differs_is_written(file: Path) -> None:
    """A value equal to the default is taken out, or never gets in."""
    store.save(file, {"LINGER": 5.0, "KEYBOARD": True, "API_KEY": "k"})
    assert file.read_text("utf-8") == 'LINGER = 5.0\nAPI_KEY = "k"\n'
    store.save(file, {"LINGER": 60})
    assert file.read_text("utf-8") == 'API_KEY = "k"\n'


def test_the_users_own_text_stays(file: Path) -> None:
    """Comments, order, blank lines and what this version does not know are kept; new lines stand before tables."""
    written(file, "# mine\nLINGER = 5 # short\n\nFUTURE = 1\nKEYBOARD = false\n\n[notes]\nx = 1 # kept\n")
    store.save(file, {"LINGER": 6.0, "KEYBOARD": True, "MICROPHONE": False})
    lines = file.read_text("utf-8").splitlines()
    assert lines[:4] == ["# mine", "LINGER = 6.0 # short", "", "FUTURE = 1"]
    assert [line for line in lines[4:] if line] == ["MICROPHONE = false", "[notes]", "x = 1 # kept"]
    assert store.load(file, {}).settings == Settings(linger=6.0, microphone=False)


def test_line_ends_stay(file: Path) -> None:
    """A file from Windows keeps its line ends."""
    written(file, b"# mine\r\nLINGER = 5\r\n")
    store.save(file, {"LINGER": 6.0})
    assert file.read_bytes() == b"# mine\r\nLINGER = 6.0\r\n"


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX systems")
def test_only_the_owner_may_read(file: Path) -> None:
    """File and folder are made for their owner, and a file that was open to others is closed."""
    store.save(file, {"API_KEY": "k"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    file.chmod(0o644)
    store.save(file, {"LINGER": 5.0})
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (Path, "replace")])
def test_an_interrupted_write_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    """Wherever it breaks off, the old file is whole, nothing lies beside it, and the error is ours."""

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    written(file, "LINGER = 5\n")
    monkeypatch.setattr(owner, step, broken)
    with pytest.raises(SettingsError) as refusal:
        store.save(file, {"LINGER": 6.0})
    assert str(refusal.value) == f"{file}: not written: [Errno 28] No space left on device"
    assert file.read_text("utf-8") == "LINGER = 5\n"
    assert list(file.parent.iterdir()) == [file]


def test_ctrl_c_during_a_write_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no error of the disk passes through, after the half-written file is gone."""

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.save(file, {"LINGER": 6.0})
    assert list(file.parent.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """A file that is kept elsewhere, among dotfiles, is written there."""
    elsewhere = written(tmp_path / "dotfiles" / "zat.toml", "LINGER = 5\n")
    file.parent.mkdir()
    file.symlink_to(elsewhere)
    store.save(file, {"LINGER": 6.0})
    assert file.is_symlink()
    assert elsewhere.read_text("utf-8") == "LINGER = 6.0\n"


def test_a_broken_file_is_not_written_over(file: Path) -> None:
    """What the user wrote, even wrongly, is not thrown away."""
    written(file, "LINGER 5\n")
    with pytest.raises(SettingsError, match="not written, since it cannot be read: Invalid key"):
        store.save(file, {"LINGER": 6.0})
    assert file.read_text("utf-8") == "LINGER 5\n"


@pytest.mark.parametrize(("name", "value"), [("LINGER", -1.0), ("COLOUR", "red"), ("KEYBOARD", "maybe")])
def test_a_bad_value_is_not_written(file: Path, name: str, value: Value) -> None:
    """Nothing is touched before all is checked."""
    with pytest.raises(SettingsError, match=name):
        store.save(file, {"MICROPHONE": False, name: value})
    assert not file.exists()


def test_a_folder_in_place_of_the_file_is_not_written(tmp_path: Path) -> None:
    """The error is ours."""
    with pytest.raises(SettingsError, match="not written"):
        store.save(tmp_path, {"LINGER": 6.0})


def test_a_secret_does_not_show_when_it_is_not_written(file: Path) -> None:
    """The dialog may show the message."""
    with pytest.raises(SettingsError) as refusal:
        store.save(file, {"API_KEY": f"two {SECRET}"})
    assert str(refusal.value) == "API_KEY = (not shown) is not allowed: expected a key without spaces"


# --- there and back


def values_of(of: Spec) -> st.SearchStrategy[Value]:
    """Return a strategy for what this setting allows; three thresholds stay in their order."""
    if of.name in Settings.ordered:
        third = Settings.ordered.index(of.name) * 0.3
        return st.floats(max(third, 0.01), third + 0.3)
    if of.kind is bool:
        return st.booleans()
    if of.choices:
        return st.sampled_from(of.choices)
    if of.kind is str:
        return st.from_regex(of.pattern, fullmatch=True).filter(lambda text: accepts(of, text))
    assert of.low is not None
    assert of.high is not None
    return st.integers(int(of.low), int(of.high)) if of.kind is int else st.floats(of.low, of.high)


def accepts(of: Spec, value: Value) -> bool:
    """Tell whether the setting allows this value."""
    try:
        of.check(value)
    except SettingsError:
        return False
    return True


@given(st.fixed_dictionaries({name: values_of(spec(name)) for name in Settings.ordered}))
def test_thresholds_there_and_back(changes: dict[str, Value]) -> None:
    """The three that depend on each other, together."""
    assert_there_and_back(changes)


@pytest.mark.parametrize("spec_", [s for s in specs() if s.name not in Settings.ordered], ids=lambda s: s.name)
def test_each_setting_there_and_back(spec_: Spec) -> None:
    """Settings, file, settings: nothing is lost, whatever the value."""

    @given(values_of(spec_))
    def holds(value: Value) -> None:
        assert_there_and_back({spec_.name: value})

    holds()


def assert_there_and_back(changes: dict[str, Value]) -> None:
    """Write, read, and write again what was read: the same settings and the same file."""
    wanted = Settings().replace(changes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "settings.toml"
        store.save(path, changes)
        loaded = store.load(path, {})
        assert (loaded.settings, loaded.problems) == (wanted, ())
        first = path.read_bytes()
        store.save(path, {s.name: getattr(loaded.settings, s.attribute) for s in specs()})
        assert path.read_bytes() == first
        assert set(tomlkit.parse(first.decode())) == {n for n, v in changes.items() if v != spec(n).default}
