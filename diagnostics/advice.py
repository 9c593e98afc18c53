"""What is missing, what that costs, and the exact line that changes it. Pure: works on what `doctor` found."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from engine.client.view import flag
from engine.config.settings import Settings, spec
from engine.orchestration import uvm

_START = "zat-scs serve -- llama-server -m MODEL.gguf"
_SECRETS = ("--api-key", "--hf-token", "-hft")
_SAVE = "--slot-save-path"


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that is missing. `about`: server, background or sensors. `fix`: to be copied, "" where none is."""

    about: str
    what: str
    cost: str
    fix: str = ""
    optional: bool = False


def advise(findings: Mapping[str, Any], settings: Settings) -> list[dict[str, Any]]:
    """Return all advice as `doctor --json` prints it: objects of about, what, cost, fix, optional and place.

    `place`: where in the tray a fix belongs that is a setting, "" for any other.
    """
    server, background, sensors = findings["server"], findings["background"], findings["sensors"]
    found = (*_of_server(server, settings), *_of_background(background, settings), *_of_sensors(sensors))
    return [{**asdict(entry), "place": _place_of(entry.fix)} for entry in found]


def _of_server(server: Mapping[str, Any], settings: Settings) -> Iterator[Advice]:
    missing = partial(Advice, "server")

    if server["state"] == "down":
        yield missing(f"No server answers at {settings.server_url}", "No prompt is seen and nothing prepared.", _START)
    elif server.get("needs_key"):
        yield missing("The server wants an API key", "No prompt is seen.", 'API_KEY = "…"')
    elif server.get("kind") in ("llama_server", "router"):
        yield from _of_flags(server, settings)
    elif "about" in server:
        yield missing("This is not llama-server", str(server["about"]))


def _of_flags(server: Mapping[str, Any], settings: Settings) -> Iterator[Advice]:
    missing = partial(Advice, "server")
    if not server["metrics"]:
        cost = "Prompts are seen only while you type; those of agents and voice are missed."
        yield missing("The server does not count its prompts", cost, "--metrics")
    if settings.keep_context and not server["slot_save_path"]:
        cost = "After a restart, or sleep, the whole conversation is computed again before the first word."
        yield missing("The server cannot save contexts", cost, f"{_SAVE} {_folder(settings)}")
    elif settings.keep_context and not server["slots_shown"]:
        cost = "Contexts are not kept, since nobody can tell whether a slot is idle."
        yield missing("The server hides its slots: start it without --no-slots", cost)
    if server["unified_memory"] == "off":
        cost = "A model that does not fit beside what the job leaves in memory fails to load (CUDA only)."
        yield missing("The server may not use unified memory", cost, f"{uvm.VARIABLE}=1", optional=True)


def _of_background(background: Mapping[str, Any], settings: Settings) -> Iterator[Advice]:
    name, reasons = settings.background_process_name, " ".join(background["refused"].values())
    if settings.background_method == "off":
        return
    # Folding@home and BOINC are spoken to, whatever the program is called.
    named = settings.background_method not in ("folding", "boinc") and background["chosen"] in ("null", "process")
    if named and background.get("processes") == 0:
        cost = f"There is nothing to hold back. If your job has another name: {_place('BACKGROUND_PROCESS_NAME')}."
        yield Advice("background", f"No {name} is running", cost)
    if background["chosen"] == "null" and "FALLBACK_TO_SUSPEND" in reasons:
        cost = "Prompts share the card with the job. Stopping the job's processes can always be undone."
        yield Advice("background", "Its priority may not be changed", cost, "FALLBACK_TO_SUSPEND = true")
    elif background["chosen"] == "null":
        yield Advice("background", "No way to hold the job fits", "Prompts share the card with the job.")


def _of_sensors(sensors: Mapping[str, str]) -> Iterator[Advice]:
    costs = {
        "keyboard": "Typing is not seen, so prompts come as a surprise.",
        "microphone": "Speech is not heard, so dictated prompts come as a surprise.",
        "window": "Typing counts in every window, so there are more false alarms.",
    }
    for name, state in sensors.items():
        reason = state.removeprefix("unavailable: ")
        if reason not in (state, "starting", "not part of this version"):
            fix = "sudo apt install libportaudio2" if "PortAudio" in reason else ""
            yield Advice("sensors", f"{name.capitalize()}: {reason}", costs.get(name, ""), fix)


def _place_of(fix: str) -> str:
    setting = re.match(r"([A-Z][A-Z_]+) = ", fix)
    return _place(setting[1]) if setting else ""


def _place(name: str) -> str:
    setting = spec(name)
    return f"Settings › {setting.group} › {setting.title}"  # noqa: RUF001 - as the way through menus is written


def start_lines(command_line: Sequence[str] | None, settings: Settings) -> tuple[str, str]:
    """Return how to start this very server with all that it lacks: as a command, and as a drop-in for systemd.

    Keys on its command line are left out. Empty where the command line is not known.
    """
    if not command_line:
        return "", ""
    line = list(_without_secrets(command_line))
    if flag(tuple(line), _SAVE) is None:
        line += [_SAVE, _folder(settings)]
    if "--metrics" not in line:
        line.append("--metrics")
    command = shlex.join(line)
    drop_in = (
        "# systemctl edit NAME-OF-THE-SERVICE\n"
        f"[Service]\nEnvironment={uvm.VARIABLE}=1\nExecStart=\nExecStart={command.replace('%', '%%')}\n"
    )
    return f"{uvm.VARIABLE}=1 {command}", drop_in


def shown(command_line: Sequence[str] | None) -> str | None:
    """Return a command line fit to be shown and sent to others: without keys. None: not known."""
    return shlex.join(_without_secrets(command_line)) if command_line else None


def _folder(settings: Settings) -> str:
    return settings.slot_save_path or "FOLDER"


def _without_secrets(command_line: Sequence[str]) -> Iterator[str]:
    hidden = False
    for word in command_line:
        name, equals, _ = word.partition("=")
        if hidden:
            yield "KEY"
        elif equals and name in _SECRETS:
            yield f"{name}=KEY"
        else:
            yield word
        hidden = not hidden and word in _SECRETS
