"""What is known of a server: whether it can sleep, what shapes its slot files, what it lacks."""

from pathlib import Path

import pytest

from engine.client.answers import Kind
from engine.client.view import Facts, flag, readable


@pytest.mark.parametrize(
    ("line", "seconds"),
    [(("llama-server", "--sleep-idle-seconds", "30"), 30.0), (("llama-server",), None), (None, None)],
)
def test_after_how_long_it_sleeps_stands_in_its_command_line(
    line: tuple[str, ...] | None, seconds: float | None
) -> None:
    """Where that can be read."""
    assert Facts(Kind.LLAMA_SERVER, command_line=line).sleeps_after == seconds


@pytest.mark.parametrize(
    ("line", "can"),
    [
        (None, True),
        (("llama-server", "-m", "a.gguf"), False),
        (("llama-server", "--sleep-idle-seconds", "-1"), False),
        (("llama-server", "--sleep-idle-seconds=0"), False),
        (("llama-server", "--sleep-idle-seconds", "30"), True),
        (("llama-server", "--sleep-idle-seconds=30"), True),
    ],
)
def test_only_a_command_line_without_the_flag_says_that_it_never_sleeps(
    line: tuple[str, ...] | None, can: bool
) -> None:
    """Unknown counts as yes: asking its slots would keep it awake."""
    assert Facts(Kind.LLAMA_SERVER, command_line=line).can_sleep is can


def test_a_flag_is_read_in_either_form_and_the_last_one_counts() -> None:
    """As llama-server does."""
    line = ("llama-server", "--slot-save-path", "/a", "--slot-save-path=/b")
    assert flag(line, "--slot-save-path") == "/b"
    assert flag(line, "--slot") is None
    assert flag(("llama-server", "--slot-save-path"), "--slot-save-path") == ""


def test_cache_types_tell_servers_apart_whose_files_do_not_mix() -> None:
    """Short and long names mean the same; what is not given is not there."""

    def types(*line: str) -> str:
        return Facts(Kind.LLAMA_SERVER, command_line=("llama-server", *line)).cache_types

    assert types() == "" == Facts(Kind.LLAMA_SERVER).cache_types
    assert types("-ctk", "q8_0") == types("--cache-type-k=q8_0") != types()
    assert types("-kvu") == types("--kv-unified") != types()
    assert types("--lora", "a.gguf") != types("--lora", "b.gguf")


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (Facts(Kind.LLAMA_SERVER, has_metrics=True), ""),
        (Facts(Kind.LLAMA_SERVER, has_slots=True), "--metrics"),
        (Facts(Kind.LLAMA_SERVER), "nothing is tuned"),
        (Facts(Kind.LLAMA_SERVER, needs_key=True), "API_KEY"),
        (Facts(Kind.OLLAMA), "Ollama"),
        (Facts(Kind.LM_STUDIO), "LM Studio"),
        (Facts(Kind.LLAMA_SWAP), "llama-swap"),
        (Facts(Kind.ROUTER), "no model is loaded"),
    ],
)
def test_what_cannot_be_observed_is_said(facts: Facts, word: str) -> None:
    """With the name of what would change it."""
    assert word in facts.shortcoming
    assert bool(word) == bool(facts.shortcoming)


def test_a_folder_that_counts_from_the_servers_own_place_is_not_looked_into() -> None:
    """From here it would be another folder."""
    assert readable("slots", "a.bin") is None
    assert readable("/slots", "a.bin") == Path("/slots/a.bin")
