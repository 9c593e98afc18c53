"""Says what is found on this machine, what it costs where something is missing, and the exact flag that changes it.

Looks only: no job is held, no context restored, no server woken.
"""

import queue
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diagnostics import weighing
from diagnostics.advice import advise, shown, start_lines
from engine.client.answers import SENTENCES, Kind
from engine.client.contexts import Contexts
from engine.client.observer import Look, Observer
from engine.client.restorer import server_name
from engine.client.view import Facts, flag
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.days import load
from engine.events import Event, ShareReport
from engine.orchestration import uvm
from engine.orchestration.finder import ProcessFinder
from engine.parts import RealParts, Sensor

SENSOR_PATIENCE = 3.0  # s
SHARE_PATIENCE = 10.0

Findings = dict[str, Any]


def examine(loaded: Loaded) -> Findings:
    """Return what `doctor --json` prints."""
    clock = SystemClock()
    settings = loaded.settings
    with tempfile.TemporaryDirectory(prefix="zat-scs-doctor-") as folder:
        # A ledger of its own: the one of an engine that runs meanwhile is not ours to undo.
        parts = RealParts(clock, Path(folder), Path(folder))
        background = _background(parts, settings)
        sensors = {
            "keyboard": _sensor(parts.keyboard(), settings.keyboard),
            "microphone": _sensor(parts.microphone(), settings.microphone),
            "window": _sensor(parts.window(), settings.watches_window),
        }
    return report(loaded, background, sensors)


def report(loaded: Loaded, background: Findings, sensors: dict[str, str]) -> Findings:
    """Look at the server alone, and put it together with what a running engine tells of job and sensors.

    `background`: chosen, refused and detail, as in `doctor --json`. No sensor and no guardian is started.
    """
    clock, settings = SystemClock(), loaded.settings
    name, parts = settings.background_process_name, RealParts.of_user(clock)
    server, facts = _server(settings, parts)
    known_as = server_name(facts, settings.server_url) if facts else None
    findings: Findings = {
        "server": server,
        "background": {**background, "name": name, "processes": len(ProcessFinder(name, clock.now).find())},
        "sensors": sensors,
        "benefit": weighing.weigh(load(parts.days), settings, clock.wall(), known_as),
        "settings": str(loaded.path),
        "problems": list(loaded.problems),
    }
    return {**findings, "advice": advise(findings, settings)}


def _server(settings: Settings, parts: RealParts) -> tuple[Findings, Facts | None]:
    observer = Observer(settings)
    try:
        look = observer.look(parts.clock.now(), keen=False, busy=False)
    finally:
        observer.close()
    facts = observer.facts
    found: Findings = {"url": settings.server_url, "state": _state(look), "advice": []}
    if not look.reached:
        found["advice"].append(f"no llama-server answers: {look.reason}; start it, or set SERVER_URL")
        return found, None
    if facts is None:
        return found, None
    start, drop_in = start_lines(facts.command_line, settings)
    saved = Contexts(parts.contexts).best(facts, settings.server_url)
    found |= {
        "kind": facts.kind.value,
        "about": SENTENCES[facts.kind],
        "model": facts.model_path,
        "build": facts.build,
        "slots": facts.total_slots,
        "context": facts.n_ctx,
        "needs_key": facts.needs_key,
        "metrics": facts.has_metrics,
        "slots_shown": facts.has_slots,
        "command": shown(facts.command_line),
        "start": start,
        "drop_in": drop_in,
        "slot_save_path": facts.save_path,
        "saved_tokens": saved.tokens if saved else None,
        "unified_memory": uvm.state(facts.process.pid if facts.process else None),
        "advice": _advice(facts, settings),
    }
    return found, facts


def _state(look: Look) -> str:
    if not look.reached:
        return "down"
    return "loading" if look.loading else "asleep" if look.sleeping else "up"


def _advice(facts: Facts, settings: Settings) -> list[str]:
    """List what is missing, what that costs, and the flag or setting that changes it."""
    if facts.needs_key:
        return ["it wants an API key, so prompts are not seen: set API_KEY"]
    if facts.kind not in (Kind.LLAMA_SERVER, Kind.ROUTER):
        return []
    advice = []
    if not facts.has_metrics:
        advice.append("prompts are seen only while you type: start it with --metrics")
    if not facts.save_path and settings.keep_context:
        advice.append("its context is lost at restart and sleep: start it with --slot-save-path FOLDER")
    elif facts.save_path and not facts.has_slots:
        advice.append("its context cannot be kept: start it without --no-slots")
    line = facts.command_line
    if line is not None and facts.save_path and flag(line, "--slot-save-path") is None and settings.slot_save_path:
        advice.append("SLOT_SAVE_PATH is set, but its command line does not name a folder: both must be the same")
    return advice


def _background(parts: RealParts, settings: Settings) -> Findings:
    reports: queue.SimpleQueue[Event] = queue.SimpleQueue()
    share = parts.share(settings, reports.put)
    share.start()
    try:
        report = reports.get(timeout=SHARE_PATIENCE)
    except queue.Empty:
        return {"chosen": "null", "refused": {"process": "no answer"}, "detail": ""}
    finally:
        share.close(SHARE_PATIENCE)
    assert isinstance(report, ShareReport)
    return {"chosen": report.backend, "refused": dict(report.refused), "detail": report.detail}


def _sensor(sensor: Sensor[object], wanted: bool) -> str:
    if not wanted:
        return "off"
    sensor.start()
    try:
        _wait(lambda: sensor.state != "unavailable: starting", SENSOR_PATIENCE)
        return sensor.state
    finally:
        sensor.stop()


def _wait(condition: Callable[[], bool], patience: float) -> None:
    pause = threading.Event()
    for _ in range(int(patience / 0.02)):
        if condition():
            return
        pause.wait(0.02)


def as_text(findings: Findings) -> str:
    """Return the findings for people."""
    server, background = findings["server"], findings["background"]
    lines = [f"Server      {server['url']}: {server['state']}"]
    if "about" in server:
        lines.append(f"            {server['about']}")
    lines += [
        f"            {name.replace('_', ' ')}: {server[name]}"
        for name in ("model", "build", "slot_save_path", "saved_tokens", "unified_memory")
        if server.get(name) is not None
    ]
    lines += [f"          → {sentence}" for sentence in server["advice"]]
    lines += _fixes(findings, "server", known=" ".join(server["advice"]))
    held_by = "nothing" if background["chosen"] == "null" else background["chosen"]
    lines.append(f"Background  held by: {held_by}")
    if background["detail"]:
        lines.append(f"            {background['detail']}")
    lines += [f"          · {name}: {reason}" for name, reason in background["refused"].items()]
    lines += _fixes(findings, "background")
    lines += [f"{'Sensors' if n == 0 else '':<11} {k}: {v}" for n, (k, v) in enumerate(findings["sensors"].items())]
    lines += _fixes(findings, "sensors")
    lines += [f"{'' if n else 'Benefit':<11} {line}" for n, line in enumerate(weighing.as_lines(findings["benefit"]))]
    lines.append(f"Settings    {findings['settings']}")
    lines += [f"          → {problem}" for problem in findings["problems"]]
    return "\n".join(lines)


def _fixes(findings: Findings, about: str, known: str = "") -> list[str]:
    """Return what is to be copied, after what it is good for; `known`: what was said of it already."""
    lines = []
    for entry in findings["advice"]:
        if entry["about"] == about and entry["fix"] and entry["fix"] not in known:
            optional = " (optional)" if entry["optional"] else ""
            where = f", in settings.toml ({entry['place']})" if entry["place"] else ""
            lines.append(f"          → {entry['what']}{optional}: {entry['fix']}{where}")
    return lines
