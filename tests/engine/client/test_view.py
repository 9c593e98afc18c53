"""What is known of a server: whether it can sleep, what shapes its slot files, what it lacks."""

from pathlib import Path

import pytest

from engine.client.answers import Kind
from engine.client.view import Facts, readable


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


@pytest.mark.parametrize(
    "line",
    [
        ("ssh", "-N", "-L", "8080:localhost:8080", "gpu-box"),
        ("socat", "TCP-LISTEN:8080,fork", "TCP:gpu-box:8080"),
        ("nginx: worker process",),
        ("rootlessport",),
        ("llama-swap", "--config", "models.yaml"),
    ],
)
def test_the_flags_of_who_passes_everything_on_are_not_the_servers(line: tuple[str, ...]) -> None:
    """The server behind may sleep, for all that is known."""
    assert Facts(Kind.LLAMA_SERVER, model_path="/models/m.gguf", command_line=line).can_sleep


@pytest.mark.parametrize(
    ("arguments", "can", "seconds"),
    [
        (None, True, None),
        (("llama-server", "--model", "m.gguf"), False, None),
        (("llama-server", "--model", "m.gguf", "--sleep-idle-seconds", "30"), True, 30.0),
    ],
)
def test_behind_a_router_the_models_own_flags_count(
    arguments: tuple[str, ...] | None, can: bool, seconds: float | None
) -> None:
    """They may stand in a file, so the router's command line alone does not tell."""
    line = ("llama-server", "--models-preset", "models.ini", "-ctk", "q8_0")
    facts = Facts(Kind.ROUTER, model="m", model_path="m.gguf", command_line=line, arguments=arguments)
    assert (facts.can_sleep, facts.sleeps_after) == (can, seconds)
    assert facts.cache_types == ("--cache-type-k q8_0" if arguments is None else "")


def test_cache_types_tell_servers_apart_whose_files_do_not_mix() -> None:
    """Short and long names mean the same; what is not given is not there."""

    def types(*line: str) -> str:
        return Facts(Kind.LLAMA_SERVER, command_line=("llama-server", *line)).cache_types

    assert types() == "" == Facts(Kind.LLAMA_SERVER).cache_types
    assert types("-ctk", "q8_0") == types("--cache-type-k=q8_0") != types()
    assert types("-kvu") == types("--kv-unified") != types()
    assert types("--lora", "a.gguf") != types("--lora", "b.gguf")
    assert types("--rope-freq-base", "1000000") != types()


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (Facts(Kind.LLAMA_SERVER), "--slot-save-path"),
        (Facts(Kind.LLAMA_SERVER, save_path="/slots", model_path="m.gguf", is_unclear=True), "whole path of m.gguf"),
        (Facts(Kind.LLAMA_SERVER, save_path="/slots", model_path="/m.gguf"), ""),
    ],
)
def test_what_keeps_its_contexts_from_being_kept_is_said(facts: Facts, word: str) -> None:
    """With what would change it."""
    assert word in facts.unkeepable
    assert bool(word) == bool(facts.unkeepable)


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
