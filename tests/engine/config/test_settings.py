"""The declarations of the settings, and what each setting accepts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import Settings, spec, specs
from engine.config.spec import Spec, Value
from engine.errors import SettingsError

# What tools outside this project rely on: names and defaults.
CONTRACT: dict[str, Value] = {
    "INITIAL_THRESHOLD": 0.65,
    "MIN_THRESHOLD": 0.40,
    "MAX_THRESHOLD": 0.90,
    "ADJUSTMENT_STEP": 0.05,
    "CONSECUTIVE_FALSE_POSITIVES_LIMIT": 3,
    "INACTIVITY_TIMER": 15.0,
    "LAMBDA_DECAY": 0.1,
    "WEIGHT_KEY": 0.45,
    "WEIGHT_AUD": 0.35,
    "TELEMETRY_HZ": 10,
    "BACKGROUND_PROCESS_NAME": "fahclient",
    "FALLBACK_TO_SUSPEND": False,
    "SERVER_URL": "http://127.0.0.1:8080",
    "API_KEY": "",
    "SLOT_ID": "auto",
    "SLOT_SAVE_PATH": "",
    "KEEP_CONTEXT": True,
    "CONTEXT_HOURS": 24.0,
    "EVIDENCE": "adaptive",
    "TIMER_FROM": "evidence",
    "KEYBOARD": True,
    "MICROPHONE": True,
    "WINDOW_FILTER": True,
    "LEARNED": True,
    "GUESS_ON_BATTERY": False,
    "QUIET_PROGRAMS": "",
    "BACKGROUND_METHOD": "auto",
    "LINGER": 60.0,
    "JOB_WORTH": 0.0,
}
CONTRACT_NAMES_ONLY = {"FOLDING_URL", "BOINC_URL", "BOINC_PASSWORD_FILE", "MAX_PAUSES_PER_HOUR"}
CHOICES = {
    "EVIDENCE": ("adaptive", "seed"),
    "TIMER_FROM": ("evidence", "entry"),
    "BACKGROUND_METHOD": ("auto", "mps", "folding", "boinc", "process", "off"),
}
each_spec = pytest.mark.parametrize("spec_", specs(), ids=lambda s: s.name)


def test_names_are_those_of_the_contract() -> None:
    """Nothing is missing and nothing is there that the contract does not name."""
    assert {s.name for s in specs()} == set(CONTRACT) | CONTRACT_NAMES_ONLY


@pytest.mark.parametrize(("name", "default"), CONTRACT.items())
def test_defaults_are_those_of_the_contract(name: str, default: Value) -> None:
    """Each default has the contract's value and type."""
    assert spec(name).default == default
    assert spec(name).kind is type(default)


@pytest.mark.parametrize(("name", "choices"), CHOICES.items())
def test_choices_are_those_of_the_contract(name: str, choices: tuple[str, ...]) -> None:
    """A setting with choices offers exactly these."""
    assert spec(name).choices == choices


@each_spec
def test_a_declaration_is_complete(spec_: Spec) -> None:
    """Title, help and group are there, and are written the same way everywhere."""
    assert spec_.title
    assert spec_.group
    assert spec_.help.endswith(".")
    for text in (spec_.title, spec_.help, spec_.group, spec_.unit, spec_.allowed):
        assert text == text.strip()
        assert "  " not in text
    assert not spec_.title.endswith(".")


@each_spec
def test_a_default_is_allowed(spec_: Spec) -> None:
    """Bounds, choices and patterns contain the default; numbers have bounds."""
    assert spec_.check(spec_.default) == spec_.default
    if spec_.kind in (int, float):
        assert spec_.low is not None
        assert spec_.high is not None
        assert spec_.low < spec_.high


@each_spec
def test_what_is_allowed_is_said(spec_: Spec) -> None:
    """Only a text that may be anything is called just `text`, and none is."""
    assert spec_.allowed != "text"


def test_groups_are_not_torn_apart() -> None:
    """Settings of one group stand together, so that the table and the dialog need not sort them."""
    order = [s.group for s in specs()]
    assert [g for i, g in enumerate(order) if i == 0 or order[i - 1] != g] == list(dict.fromkeys(order))


WRONG_TEXTS = [
    ("INITIAL_THRESHOLD", "high", "'high'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "", "''", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", " 0.5", "' 0.5'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "0.5\n", r"'0.5\n'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "0,5", "'0,5'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "65%", "'65%'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "1_0", "'1_0'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "\u0660.\u0665", "'\u0660.\u0665'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "1.5", "1.5", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "-0.5", "-0.5", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "0", "0.0", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "nan", "'nan'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "inf", "'inf'", "a number from 0.01 to 1"),
    ("INITIAL_THRESHOLD", "1e999", "inf", "a number from 0.01 to 1"),
    ("INACTIVITY_TIMER", "0.5", "0.5", "a number from 1 to 600 s"),
    ("TELEMETRY_HZ", "10.0", "'10.0'", "a whole number from 1 to 50 Hz"),
    ("TELEMETRY_HZ", "1e1", "'1e1'", "a whole number from 1 to 50 Hz"),
    ("TELEMETRY_HZ", "0", "0", "a whole number from 1 to 50 Hz"),
    ("TELEMETRY_HZ", "51", "51", "a whole number from 1 to 50 Hz"),
    ("TELEMETRY_HZ", "9" * 40, f"'{'9' * 40}'", "a whole number from 1 to 50 Hz"),
    ("KEYBOARD", "yes", "'yes'", "on or off (in settings.toml: true or false)"),
    ("KEYBOARD", "", "''", "on or off (in settings.toml: true or false)"),
    ("KEYBOARD", "2", "'2'", "on or off (in settings.toml: true or false)"),
    ("EVIDENCE", "Seed", "'Seed'", "one of adaptive, seed"),
    ("TIMER_FROM", "", "''", "one of evidence, entry"),
    ("SLOT_ID", "-1", "'-1'", "auto or a slot number"),
    ("SLOT_ID", "first", "'first'", "auto or a slot number"),
    ("SLOT_ID", "\u0663", "'\u0663'", "auto or a slot number"),
    ("BOINC_URL", "127.0.0.1", "'127.0.0.1'", "host:port"),
    ("BOINC_URL", "127.0.0.1:70000", "'127.0.0.1:70000'", "host:port"),
    ("BOINC_URL", "[::g]:31416", "'[::g]:31416'", "host:port"),
    ("BACKGROUND_PROCESS_NAME", "", "''", "a program's name without a path"),
    ("BACKGROUND_PROCESS_NAME", "bin/job", "'bin/job'", "a program's name without a path"),
    ("SLOT_SAVE_PATH", "a\0b", r"'a\x00b'", "a path"),
]


@pytest.mark.parametrize(("name", "text", "shown", "allowed"), WRONG_TEXTS)
def test_a_wrong_text_is_refused(name: str, text: str, shown: str, allowed: str) -> None:
    """The message names setting, value and what is allowed, and nothing else."""
    with pytest.raises(SettingsError) as refusal:
        spec(name).parse(text)
    assert str(refusal.value) == f"{name} = {shown} is not allowed: expected {allowed}"


ADDRESS = "an address such as http://127.0.0.1:8080"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8080",
        "ftp://127.0.0.1",
        "http://",
        "http://:8080",
        "http:///path",
        "http://host:0",
        "http://host:99999",
        "http://host:port",
        "http://[::1",
        "http://[:::]",
        "http://::1:8080",
        "http://host/a b",
        "http://host/?q=1",
        "http://host/#top",
        "http://host\\evil",
        "http://host\n",
    ],
)
def test_a_wrong_server_address_is_refused(text: str) -> None:
    """What cannot be an address never gets as far as a request."""
    with pytest.raises(SettingsError) as refusal:
        spec("SERVER_URL").parse(text)
    assert str(refusal.value) == f"SERVER_URL = {text!r} is not allowed: expected {ADDRESS}"


@pytest.mark.parametrize(
    "text",
    [
        "http://localhost",
        "https://gpu.example.org/llama",
        "http://[::1]:8080",
        "http://10.0.0.7:1/a/b/",
        "http://h/a@b",
    ],
)
def test_a_good_server_address_is_taken_as_it_is(text: str) -> None:
    """Names, both kinds of numbers, ports and path prefixes are fine."""
    assert spec("SERVER_URL").parse(text) == text


def test_a_password_within_an_address_is_not_shown() -> None:
    """Such an address is refused, and the message leaves the password out."""
    with pytest.raises(SettingsError) as refusal:
        spec("SERVER_URL").parse("http://me:hunter2/x@host:8080")
    assert str(refusal.value) == f"SERVER_URL = 'http://(not shown)@host:8080' is not allowed: expected {ADDRESS}"


@pytest.mark.parametrize("value", ["0.5", True, None, [], {"a": 1}, math.nan, math.inf, -math.inf, 10**400, 0, 2])
def test_a_wrong_typed_value_is_refused(value: object) -> None:
    """What a TOML file can hold in place of a number; a value of any length gives a short message."""
    with pytest.raises(SettingsError, match=r"^INITIAL_THRESHOLD = .* is not allowed: expected a number") as refusal:
        spec("INITIAL_THRESHOLD").check(value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(
    ("name", "value"),
    [("TELEMETRY_HZ", 10.0), ("TELEMETRY_HZ", True), ("KEYBOARD", 1), ("EVIDENCE", 1), ("SLOT_ID", True)],
)
def test_types_are_not_bent(name: str, value: object) -> None:
    """Neither is True a number, nor a float a whole number, nor 1 a switch."""
    with pytest.raises(SettingsError, match=f"^{name} = {value!r} is not allowed"):
        spec(name).check(value)


@pytest.mark.parametrize("text", ["on", "ON", "True", "tRUE", "1"])
def test_on_in_any_case(text: str) -> None:
    """All ways to write on."""
    assert spec("KEYBOARD").parse(text) is True


@pytest.mark.parametrize("text", ["off", "OFF", "False", "fALSE", "0"])
def test_off_in_any_case(text: str) -> None:
    """All ways to write off."""
    assert spec("KEYBOARD").parse(text) is False


@pytest.mark.parametrize(("text", "value"), [("15", 15.0), ("15.", 15.0), ("1.5e1", 15.0)])
def test_bare_numbers(text: str, value: float) -> None:
    """A setting with fractions takes whole numbers, and makes them its own type."""
    parsed = spec("INACTIVITY_TIMER").parse(text)
    assert parsed == value
    assert type(parsed) is float


def test_whole_numbers_for_settings_with_fractions() -> None:
    """`INACTIVITY_TIMER = 15` is natural in TOML."""
    assert type(Settings(inactivity_timer=15).inactivity_timer) is float


def test_slot_as_a_number() -> None:
    """`SLOT_ID = 3` is natural in TOML."""
    assert spec("SLOT_ID").check(3) == "3"
    with pytest.raises(SettingsError, match=r"^SLOT_ID = '-1' is not allowed: expected auto or a slot number$"):
        spec("SLOT_ID").check(-1)


def values_of(of: Spec) -> st.SearchStrategy[Value]:
    """Return a strategy for all that this setting allows."""
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


@each_spec
def test_shown_values_can_be_typed_in_again(spec_: Spec) -> None:
    """What is shown is what `--set` takes, to the last digit."""

    @given(values_of(spec_))
    def holds(value: Value) -> None:
        assert spec_.parse(spec_.show(value)) == value

    if not spec_.secret:
        holds()


@pytest.mark.parametrize(
    "changes",
    [{"MIN_THRESHOLD": 0.7}, {"MAX_THRESHOLD": 0.6}, {"INITIAL_THRESHOLD": 0.95}, {"INITIAL_THRESHOLD": 0.1}],
)
def test_thresholds_stand_in_order(changes: dict[str, Value]) -> None:
    """One change that breaks MIN ≤ INITIAL ≤ MAX is refused, with all three values."""
    low, start, high = ({**CONTRACT, **changes}[f"{name}_THRESHOLD"] for name in ("MIN", "INITIAL", "MAX"))
    with pytest.raises(SettingsError) as refusal:
        Settings().replace(changes)
    assert str(refusal.value) == (
        f"MIN_THRESHOLD = {low:g}, INITIAL_THRESHOLD = {start:g}, MAX_THRESHOLD = {high:g} is not allowed: "
        "expected MIN_THRESHOLD ≤ INITIAL_THRESHOLD ≤ MAX_THRESHOLD"
    )


def test_equal_thresholds_are_in_order() -> None:
    """A threshold that never moves is allowed."""
    equal = Settings(min_threshold=0.5, initial_threshold=0.5, max_threshold=0.5)
    assert equal.initial_threshold == 0.5


def test_replace_checks_values() -> None:
    """A copy is checked as the original was, and leaves the original alone."""
    settings = Settings()
    with pytest.raises(SettingsError, match=r"^LINGER = -1\.0 is not allowed"):
        settings.replace({"LINGER": -1})
    assert settings.replace({"LINGER": 5}) == Settings(linger=5.0)
    assert settings == Settings()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("INITIAL_TRESHOLD", "did you mean INITIAL_THRESHOLD?"),
        ("linger", "did you mean LINGER?"),
        ("THRESHOLD", "did you mean INITIAL_THRESHOLD or MIN_THRESHOLD or MAX_THRESHOLD?"),
        ("COLOUR", "`zat-scs settings` lists all names"),
        ("E", "`zat-scs settings` lists all names"),
        ("ORDERED", "`zat-scs settings` lists all names"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    """Names are exact; what is near is named."""
    with pytest.raises(SettingsError) as refusal:
        spec(name)
    assert str(refusal.value) == f"{name} is not a setting; {hint}"


def test_a_name_that_is_empty() -> None:
    """The message still reads."""
    with pytest.raises(SettingsError, match=r"^\(no name\) is not a setting; `zat-scs settings` lists all names$"):
        spec("")


def test_a_secret_shows_nowhere() -> None:
    """Neither in a message, nor in a list, nor where settings are printed whole."""
    key = spec("API_KEY")
    with pytest.raises(SettingsError) as refusal:
        key.parse("two words")
    assert str(refusal.value) == "API_KEY = (not shown) is not allowed: expected a key without spaces"
    assert key.show("hunter2") == "(set)"
    assert key.show("") == ""
    assert "hunter2" not in repr(Settings(api_key="hunter2"))
    assert [s.name for s in specs() if s.secret] == ["API_KEY"]


@pytest.mark.parametrize(
    ("url", "in_clear"),
    [
        ("http://127.0.0.1:8080", False),
        ("http://127.9.9.9", False),
        ("http://localhost:8080", False),
        ("http://LOCALHOST", False),
        ("http://[::1]:8080", False),
        ("https://gpu.example.org", False),
        ("http://gpu.example.org", True),
        ("http://127.example.org", True),
        ("http://localhost.example.org", True),
        ("http://192.168.0.2:8080", True),
        ("http://[fe80::1]:8080", True),
    ],
)
def test_a_key_in_clear(url: str, in_clear: bool) -> None:
    """Only plain HTTP to another machine, and only with a key."""
    assert Settings(server_url=url, api_key="k").key_in_clear is in_clear
    assert Settings(server_url=url).key_in_clear is False
