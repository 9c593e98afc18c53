"""What a command line tells of a server, and whether it is the server's own."""

import pytest

from engine.client.flags import flag, is_own, shaping


def test_a_flag_is_read_in_either_form_and_the_last_one_counts() -> None:
    """As llama-server does, which takes underscores for dashes, too."""
    line = ("llama-server", "--slot-save-path", "/a", "--slot-save-path=/b")
    assert flag(line, "--slot-save-path") == "/b"
    assert flag(line, "--slot") is None
    assert flag(("llama-server", "--slot-save-path"), "--slot-save-path") == ""
    assert flag(("llama-server", "--slot_save_path", "/my_slots"), "--slot-save-path") == "/my_slots"


@pytest.mark.parametrize(
    "more",
    [
        "--rope-freq-base 1000000",
        "--rope_freq_base 1000000",
        "--rope-freq-scale 0.5",
        "--rope-scale 2",
        "--rope-scaling yarn",
        "--yarn-orig-ctx 4096",
        "--yarn-ext-factor -1.0",
        "--lora a.gguf",
        "--lora-scaled a.gguf:0.5",
        "--lora-scaled a.gguf 0.5",
        "--lora-init-without-apply",
        "--control-vector v.gguf",
        "--control-vector-scaled v.gguf 0.5",
        "--control-vector-layer-range 2 5",
        "--override-kv llama.rope.freq_base=float:1e6",
        "--swa-full",
        "-gan 4",
        "-gaw 512",
        "-ctk q8_0",
        "-ctv q8_0",
        "-fa on",
        "-kvu",
        "-no-kvu",
        "-np 4",
    ],
)
def test_what_changes_the_cache_tells_servers_apart(more: str) -> None:
    """Their slot files do not mix: some would be refused, others taken in silence."""
    plain = ("llama-server", "-m", "m.gguf", "--port", "8080")
    words = tuple(more.split())
    assert not list(shaping(plain))
    assert len(list(shaping((*plain, *words, "-c", "4096")))) == len(words)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-ctk q8_0", "--cache-type-k q8_0"),
        ("--cache-type-k=q8_0", "--cache-type-k q8_0"),
        ("--rope_scale 2", "--rope-scale 2"),
        ("-kvu", "--kv-unified"),
        ("--lora a.gguf --port 1", "--port 2 --lora a.gguf"),
        ("--mmproj p.gguf -t 4", ""),
        ("-ctkd q8_0 --cache-type-v-draft q8_0", ""),
    ],
)
def test_what_means_the_same_is_the_same(one: str, other: str) -> None:
    """However it is written, and whatever stands beside it."""
    assert " ".join(shaping(tuple(one.split()))) == " ".join(shaping(tuple(other.split())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("--lora a.gguf --lora b.gguf", "--lora b.gguf"),
        ("--rope-scale 2 --rope-freq-scale 1", "--rope-freq-scale 1 --rope-scale 2"),
        ("--control-vector-layer-range 2 5", "--control-vector-layer-range 2 6"),
        ("--yarn-ext-factor -1.0", "--yarn-ext-factor -0.5"),
        ("--lora-scaled a.gguf 0.5", "--lora-scaled a.gguf 0.7"),
    ],
)
def test_each_occurrence_counts_with_all_its_values_and_in_its_order(one: str, other: str) -> None:
    """Adapters add up; of two names for one thing the last is taken."""
    assert " ".join(shaping(tuple(one.split()))) != " ".join(shaping(tuple(other.split())))


@pytest.mark.parametrize(
    ("line", "model"),
    [
        (("llama-server", "-m", "m.gguf"), "/models/m.gguf"),
        (("/opt/bin/llama-server", "-hf", "someone/model"), "/cache/m.gguf"),
        (("LLAMA-SERVER.EXE",), ""),
        (("python", "-m", "some.server", "/models/m.gguf"), "/models/m.gguf"),
        (("./llama", "serve", "-m", "./m.gguf"), "/models/./m.gguf"),
        (("./llama", "serve", "-m", "m.gguf"), "m.gguf"),
        (("C:\\llama\\llama-server.exe", "-hf", "someone/model"), "C:\\cache\\m.gguf"),
        (("llama", "serve", "-m", "m.gguf"), "C:\\models\\m.gguf"),
    ],
)
def test_a_server_is_known_by_its_name_or_by_its_model(line: tuple[str, ...], model: str) -> None:
    """The model is named as the server itself names it."""
    assert is_own(line, model)


@pytest.mark.parametrize(
    "line",
    [
        (),
        ("ssh", "-N", "-m", "hmac-sha2-256", "-L", "8080:localhost:8080", "gpu-box"),
        ("ssh", "-L", "8080:localhost:8080", "gpu-box", "llama-server --sleep-idle-seconds 9 -m /models/m.gguf"),
        ("socat", "TCP-LISTEN:8080,fork", "TCP:gpu-box:8080"),
        ("nginx: master process /usr/sbin/nginx",),
        ("rootlessport",),
        ("llama-swap", "--config", "models.yaml"),
        ("", "--anything"),
    ],
)
def test_who_passes_everything_on_is_not_taken_for_the_server(line: tuple[str, ...]) -> None:
    """Its command line says nothing of the server's flags."""
    assert not is_own(line, "/models/m.gguf")
