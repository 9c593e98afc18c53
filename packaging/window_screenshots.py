#!/usr/bin/env python3
"""Builds each window with believable data and saves pictures, light and dark: window_screenshots.py FOLDER [NAME...].

Needs no screen (QT_QPA_PLATFORM=offscreen) and nothing of this machine: no engine, no server, no settings of a user.
QT_SCALE_FACTOR=1.5 shows how it looks on a dense screen.
"""

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QAction, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from app import theme
from app.benchmark_dialog import BenchmarkDialog
from app.picker import ProcessPicker
from app.settings_dialog import SettingsDialog
from app.window import StatusWindow
from diagnostics.advice import advise, start_lines
from engine.account import Day
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.events import ContextState, Moved, ServerState, Snapshot, State, Why

_START = 1_790_000_000.0  # any Unix time
_HZ = 10
_PATH = Path("settings.toml")
LONG = "the default microphone is a headset's; using it would spoil the sound in the headset, " * 3


@dataclass
class Menus:
    """Stands in for the application's actions."""

    menu_groups: list[tuple[str, list[QAction]]]


def menus() -> Menus:
    """Return menus with the usual entries, which do nothing."""
    owner = QApplication.instance()
    titles = {
        "&Engine": ("Prepare now", "Pause"),
        "&Tools": ("Run benchmark…",),
        "Sett&ings": ("Settings…",),
        "&Help": ("About",),
    }
    return Menus([(title, [QAction(entry, owner) for entry in entries]) for title, entries in titles.items()])


def day() -> Iterator[Snapshot]:
    """Yield five minutes: quiet, a hit, a false alarm, a missed prompt, and somebody typing at the end."""
    seen = Snapshot(
        at=_START,
        state=State.COLD_IDLE,
        backend="process",
        server=ServerState.UP,
        server_detail="llama-server, build 6700",
        unified_memory="on",
        context=ContextState.WARM,
        context_tokens=3120,
        hits=12,
        false_positives=1,
        sensors={"keyboard": "on", "microphone": "on", "window": "on"},
        refused=(("folding", "no Folding@home client answers"), ("boinc", "no BOINC client answers")),
        threshold=0.65,
    )
    level, state = 0.0, State.COLD_IDLE
    for tick in range(300 * _HZ):
        second = tick / _HZ
        typing = _typing(second)
        level = min(1.0, level * math.exp(-0.1 / _HZ * 2) + 0.022 * typing)
        before, state = state, _state(second)
        if before is not state and state is State.COLD_IDLE:
            level = 0.0
        moves = () if before is state else (Moved(before, state, _why(state, second)),)
        seen = replace(
            seen,
            at=_START + second,
            state=state,
            moves=moves,
            probability=level,
            f_c=min(1.0, typing * 0.8),
            g_a=0.04 + 0.03 * math.sin(second),
            false_positives=seen.false_positives + (second == 120.0),
            false_negatives=seen.false_negatives + (second == 180.0),
            hits=seen.hits + (second in (60.0, 266.0)),
            **_job(state),
        )
        yield seen


def _typing(second: float) -> float:
    bursts = ((47, 60), (94, 106), (176, 180), (250, 266), (287, 300))
    return sum((0.7 + 0.3 * math.sin(second * 5)) for start, end in bursts if start <= second < end)


def _state(second: float) -> State:
    spans = {
        State.SPECULATIVE_PREPARED: ((56, 60), (103, 120), (259, 266), (296.5, 301)),
        State.ACTIVE_INFERENCE: ((60, 74), (180, 196), (266, 281)),
        State.DEGRADED: ((220, 240),),
    }
    found = [state for state, ranges in spans.items() for start, end in ranges if start <= second < end]
    return found[0] if found else State.COLD_IDLE


def _why(state: State, second: float) -> Why:
    if state is State.COLD_IDLE:
        return Why.TIMEOUT if second == 120.0 else Why.FINISHED
    reasons = {State.SPECULATIVE_PREPARED: Why.THRESHOLD, State.ACTIVE_INFERENCE: Why.PROMPT}
    return reasons.get(state, Why.SERVER_LOST)


def _job(state: State) -> dict[str, Any]:
    if state is State.SPECULATIVE_PREPARED:
        return {"background_share": 10, "background_verified": True, "deadline_in": 12.4,
                "because": "a window that prompts come from, 12 s after a reply, typing",
                "background_detail": "fahclient: stopped; memory of the card stays taken"}  # fmt: skip
    if state is State.ACTIVE_INFERENCE:
        return {"background_share": 0, "background_verified": True, "deadline_in": None, "because": ""}
    return {"background_share": 100, "background_verified": None, "deadline_in": None, "background_detail": "",
            "because": ""}  # fmt: skip


def loaded(**changes: Any) -> Loaded:
    """Return settings as if from a file, some of them locked."""
    sources = {"WEIGHT_AUD": "environment", "LAMBDA_DECAY": "file", "TELEMETRY_HZ": "--set"}
    return Loaded(Settings(lambda_decay=0.12, telemetry_hz=20, **changes), sources, (), _PATH)


def findings() -> dict[str, Any]:
    """Return what `doctor` finds where a few things are missing."""
    line = ("/usr/bin/llama-server", "-m", "/models/qwen3-30b-a3b-q4_k_m.gguf", "--port", "8080", "-ngl", "99")
    command, drop_in = start_lines(line, Settings())
    found: dict[str, Any] = {
        "server": {
            "url": "http://127.0.0.1:8080",
            "state": "up",
            "kind": "llama_server",
            "about": "",
            "needs_key": False,
            "model": line[2],
            "build": "b6700-3a077146",
            "metrics": False,
            "slots_shown": True,
            "slot_save_path": None,
            "unified_memory": "off",
            "command": " ".join(line),
            "start": command,
            "drop_in": drop_in,
        },
        "background": {
            "chosen": "null",
            "name": "fahclient",
            "processes": 2,
            "detail": "",
            "refused": {
                "process": "a priority, once lowered, could not be raised again by this user: "
                "set FALLBACK_TO_SUSPEND to stop the job instead"
            },
        },
        "sensors": {"keyboard": "on", "microphone": "unavailable: the library PortAudio is missing", "window": "on"},
        "settings": str(_PATH),
        "problems": [],
    }
    return {**found, "advice": advise(found, Settings())}


def status() -> StatusWindow:
    """Build the status window after five minutes of a day."""
    window = StatusWindow(menus())
    window.set_loaded(loaded())
    for snapshot in day():
        window.render(snapshot)
    return window


def five_minutes() -> StatusWindow:
    """Build the same, with the longer look back."""
    window = status()
    window.set_span(300)
    return window


def empty() -> StatusWindow:
    """Build it before the engine has said anything."""
    window = StatusWindow(menus())
    window.set_loaded(loaded())
    return window


def degraded() -> StatusWindow:
    """Build it without a server, sensors or a way to hold the job, all with long reasons."""
    window = status()
    last = window.history.last
    assert last is not None
    window.show_reason("There is no tray here: on GNOME, install the AppIndicator extension. Until then this window "
                       "stays; closing it ends the program.")  # fmt: skip
    for second in range(1, 12):
        window.render(
            replace(
                last,
                at=last.at + second,
                state=State.DEGRADED,
                probability=0.2,
                f_c=None,
                g_a=None,
                background_share=100,
                background_verified=None,
                deadline_in=None,
                backend="null",
                background_detail="process: a priority, once lowered, could not be raised again by this user",
                server=ServerState.DOWN,
                server_detail="http://a-machine_with_a_long_name_without_a_break.example:8080/: Connection refused",
                context=ContextState.NONE,
                context_tokens=None,
                unified_memory="unknown",
                moves=(),
                sensors={"keyboard": "unavailable: no X server answers at :0", "microphone": f"unavailable: {LONG}"},
            )
        )
    return window


def set_up() -> StatusWindow:
    """Build the set-up page with advice."""
    window = status()
    assert window.setup is not None
    window.setup.look = lambda: None  # type: ignore[method-assign]  # a picture does not look around
    window.setup.show_findings(findings())
    window.show_setup()
    return window


def benefit() -> StatusWindow:
    """Build the page that says what helping has brought, after two weeks; the figures are made up."""
    window = status()
    dates = [time.strftime("%Y-%m-%d", time.localtime(_START - 86400 * back)) for back in range(13, -1, -1)]
    counts = (0, 0, 9, 14, 6, 11, 2, 0, 0, 17, 12, 8, 15, 7)
    window.benefit.earlier = lambda: [  # type: ignore[method-assign]  # a picture reads nobody's file
        Day(date, preparations=count + count // 4, hits=count, lead=4.2 * count, false_alarms=count // 4,
            measured=0 if count == 2 else count, reused=2400 * count, saved=0.0 if count == 2 else 5.4 * count,
            held_guessing=9.0 * count, held_serving=21.0 * count, lost=0.01 * count)
        for date, count in zip(dates, counts, strict=True)
    ]  # fmt: skip
    window.show_benefit()
    return window


def benefit_empty() -> StatusWindow:
    """Build that page on the first day."""
    window = status()
    window.benefit.earlier = list  # type: ignore[method-assign]  # as above
    window.show_benefit()
    return window


def settings() -> SettingsDialog:
    """Build the settings dialog as it opens."""
    return SettingsDialog(loaded())


def settings_with_errors() -> SettingsDialog:
    """Build it with values that are not allowed."""
    dialog = SettingsDialog(loaded())
    dialog.editor("MIN_THRESHOLD").set_value(0.8)
    dialog.editor("ADJUSTMENT_STEP").set_value(2.0)
    return dialog


def settings_of_server() -> SettingsDialog:
    """Build it at the group with an address, a key and locked fields."""
    dialog = SettingsDialog(replace(loaded(), sources={"SLOT_ID": "environment", "KEEP_CONTEXT": "--set"}))
    dialog.turn_to("Server")
    return dialog


def benchmark() -> BenchmarkDialog:
    """Build the benchmark with figures of the shape that it measures; they are made up."""
    dialog = BenchmarkDialog(Settings())
    figures = {"cold_ms": 1843.0, "prepared_ms": 61.2, "warm_ms": 58.9, "cold_over_prepared": 30.1}
    dialog.show_figures({"server": "stand-in", "tokens": 3000, "runs": 5, "prepared_over_warm": 1.04, **figures})
    return dialog


def picker() -> ProcessPicker:
    """Build the list of running programs."""
    return ProcessPicker({"blender": 1, "boinc": 1, "fahclient": 1, "ffmpeg": 2, "train.py": 8})


BUILDERS: tuple[Callable[[], QWidget], ...] = (
    status,
    five_minutes,
    empty,
    degraded,
    set_up,
    benefit,
    benefit_empty,
    settings,
    settings_with_errors,
    settings_of_server,
    picker,
    benchmark,
)


def wear(colours: theme.Theme) -> None:
    """Let the application look like a light or a dark desktop."""
    QApplication.setPalette(theme.palette(colours))


def take(build: Callable[[], QWidget], file: Path) -> None:
    """Show what `build` makes, save a picture of it, and close it."""
    window = build()
    window.show()
    settled = QEventLoop()
    QTimer.singleShot(400, settled.quit)  # a picture, not a test: the plot has drawn by then
    settled.exec()
    window.grab().save(str(file))
    window.close()
    window.deleteLater()


def _give_room(folder: str) -> None:
    """Let a screen that is none be a usual one: windows are cut to theirs, and Qt's own has 800 x 800 pixels."""
    if os.environ.get("QT_QPA_PLATFORM") == "offscreen":
        screen = {"name": "usual", "x": 0, "y": 0, "width": 1920, "height": 1080, "logicalDpi": 96, "dpr": 1.0}
        file = Path(folder) / "screen.json"
        file.write_text(json.dumps({"screens": [screen | {"logicalBaseDpi": 96}]}), "utf-8")
        os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={file}"


def main(folder: Path, *wanted: str) -> None:
    """Save the pictures of these names, such as status-light, or all."""
    application = QApplication.instance() or QApplication([])
    before = QPalette(QApplication.palette())
    folder.mkdir(parents=True, exist_ok=True)
    for name, colours in (("light", theme.LIGHT), ("dark", theme.DARK)):
        wear(colours)
        for build in BUILDERS:
            picture = f"{build.__name__.replace('_', '-')}-{name}"
            if not wanted or picture in wanted:
                take(build, folder / f"{picture}.png")
    QApplication.setPalette(before)
    del application


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        _give_room(place)
        main(Path(sys.argv[1]), *sys.argv[2:])
