"""What `doctor` prints for people; `tests/app/test_cli.py` runs the command itself."""

from typing import Any

from diagnostics import doctor, weighing
from diagnostics.advice import advise
from engine.config.settings import Settings
from engine.days import Kept


def printed(background: dict[str, Any] | None = None, sensors: dict[str, str] | None = None, **server: Any) -> str:
    """Return what is printed where all is well, but for what is given."""
    well = {"url": "u", "state": "up", "kind": "llama_server", "about": "", "needs_key": False, "metrics": True,
            "slots_shown": True, "slot_save_path": "/slots", "unified_memory": "on", "advice": [],
            **server}  # fmt: skip
    found: dict[str, Any] = {
        "server": well,
        "background": {"chosen": "process", "refused": {}, "detail": "", "processes": 1, **(background or {})},
        "sensors": sensors or {"keyboard": "on"},
        "benefit": weighing.weigh(Kept(), Settings(), 0.0, None),
        "settings": "settings.toml",
        "problems": [],
    }
    return doctor.as_text({**found, "advice": advise(found, Settings())})


def test_each_line_to_copy_is_printed() -> None:
    """Behind what it is good for, whatever the part."""
    assert "→" not in printed()
    for text, line in (
        (
            printed(unified_memory="off"),
            "→ The server may not use unified memory (optional): GGML_CUDA_ENABLE_UNIFIED_MEMORY=1",
        ),
        (printed(state="down"), ": zat-scs serve -- llama-server -m MODEL.gguf"),
        (
            printed(sensors={"microphone": "unavailable: the library PortAudio is missing"}),
            "→ Microphone: the library PortAudio is missing: sudo apt install libportaudio2",
        ),
    ):
        assert text.count("→") == 1
        assert line in text


def test_a_setting_to_copy_says_where_it_goes() -> None:
    """Into the file, or to its place in the tray."""
    text = printed({"chosen": "null", "refused": {"process": "set FALLBACK_TO_SUSPEND to stop the job"}})
    assert "FALLBACK_TO_SUSPEND = true, in settings.toml (Settings › Background job › Suspend)" in text  # noqa: RUF001 - as it is printed


def test_what_was_said_is_not_said_again() -> None:
    """The flag stands in the sentence of the server already."""
    sentence = "prompts are seen only while you type: start it with --metrics"
    text = printed(metrics=False, advice=[sentence])
    assert text.count("--metrics") == 1
    assert f"→ {sentence}" in text


def test_a_job_that_nothing_holds() -> None:
    """Nobody knows what null is."""
    text = printed({"chosen": "null", "detail": "switched off"})
    assert "Background  held by: nothing\n" in text
    assert "null" not in text
