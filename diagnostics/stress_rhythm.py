"""Phase (a): keys at 100 Hz, under which the loop must hold its ten ticks a second.

python -m diagnostics.stress_rhythm FOLDER SECONDS plays it on the real keyboard sensor, for the X server of DISPLAY.
"""

import contextlib
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diagnostics.mock_server import StandIn
from diagnostics.scripted import NoSound, ScriptedParts, ScriptedWindow
from diagnostics.stress_stage import Figure, Rig, Stage, Unmet, clock, held_by, until
from engine import itself
from engine.client.link import ServerLink
from engine.config.settings import Settings
from engine.events import Event, Snapshot
from engine.loop import Engine
from engine.orchestration.mps import BackgroundShare
from engine.telemetry.keyboard import KeyboardSensor

SECONDS = 30.0
KEYS_HZ = 100
OFF = 0.10  # by which the median interval may be off


def keys(stage: Stage, off: float = OFF, lost: int = 0) -> dict[str, Figure]:
    """Press keys; `off`, `lost`: how far the rhythm may be off, and how many ticks may be lost."""
    seconds = SECONDS * stage.scale
    rhythm = _scripted(stage, seconds)
    figures: dict[str, Figure] = {"keys": round(seconds * KEYS_HZ), **_figures(stage, rhythm, off, lost, "")}
    if all(map(shutil.which, ("Xvfb", "xdotool"))):
        with _display(stage.folder) as display:
            heard, rhythm = _typed(stage.room(), display, seconds)
        stage.check(heard, "no key of the X server was heard")
        return figures | {"x_sensed": heard, **_figures(stage, rhythm, off, lost, "x_")}
    return figures | {"x_sensed": None}


def _figures(stage: Stage, at: Sequence[float], off: float, lost: int, prefix: str) -> dict[str, Figure]:
    """Judge the rhythm of these ticks."""
    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(at))
    period = 1.0 / Settings().telemetry_hz
    middle, last = statistics.median(gaps), gaps[math.ceil(0.99 * len(gaps)) - 1]
    missing = max(0, round((at[-1] - at[0]) / period) - len(gaps))
    stage.check(abs(middle - period) <= off * period, f"{prefix}ticks come every {middle * 1000:.1f} ms")
    stage.check(missing <= lost, f"{missing} {prefix}ticks were lost")
    return {
        f"{prefix}ticks": len(at),
        f"{prefix}lost": missing,
        f"{prefix}interval_p50_ms": round(middle * 1000, 2),
        f"{prefix}interval_p99_ms": round(last * 1000, 2),
    }


def _scripted(stage: Stage, seconds: float) -> list[float]:
    """Press keys of the program; return when the ticks were over."""
    with StandIn() as server, stage.job() as job, Rig(stage.room(), held_by(server.url, job)) as rig:
        rig.ready()
        start, pause = clock.now(), threading.Event()
        for number in range(round(seconds * KEYS_HZ)):
            pause.wait(max(0.0, start + number / KEYS_HZ - clock.now()))
            rig.parts.keys.press(clock.now())
            stage.progress(number / (2 * KEYS_HZ * seconds))
        rig.until(lambda seen: seen.background_share == 10, "the job to be held")
        return [at for at in rig.at if at >= start]


# ---- Real keys -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _display(folder: Path) -> Iterator[str]:
    """Run an X server of our own: keys must never reach what somebody works in."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"]
    with os.fdopen(reading) as number, (folder / "xvfb.log").open("wb") as log:
        server = subprocess.Popen(command, pass_fds=(writing,), stdout=log, stderr=log)  # noqa: S603 - fixed words
        try:
            os.close(writing)
            line = number.readline().strip()
            if not line:
                raise Unmet("the X server did not start")
            yield f":{line}"
        finally:
            server.terminate()
            server.wait()


def _typed(folder: Path, display: str, seconds: float) -> tuple[int, list[float]]:
    """Let another process hear the keys of this X server; return how many it heard, and when its ticks were over."""
    kept = {
        name: value
        for name, value in itself.environment().items()
        if name not in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE")
    }
    words = itself.command("diagnostics.stress_rhythm", str(folder), str(seconds))
    answer = subprocess.run(  # noqa: S603 - a part of ourselves
        words, env={**kept, "DISPLAY": display}, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise Unmet(f"the keyboard sensor failed: {answer.stderr[-200:]}")
    heard, at = json.loads(answer.stdout.splitlines()[-1])
    return int(heard), [float(one) for one in at]


@dataclass
class _RealKeys:
    """Parts with the real keyboard sensor."""

    parts: ScriptedParts
    sensor: KeyboardSensor = field(default_factory=lambda: KeyboardSensor(clock))

    def keyboard(self) -> KeyboardSensor:
        return self.sensor

    def microphone(self) -> NoSound:
        return self.parts.microphone()

    def window(self) -> ScriptedWindow:
        return self.parts.window()

    def share(self, settings: Settings, post: Callable[[Event], None]) -> BackgroundShare:
        return self.parts.share(settings, post)

    def link(self, settings: Settings, post: Callable[[Event], None]) -> ServerLink:
        return self.parts.link(settings, post)


def main(words: Sequence[str]) -> int:
    """Let xdotool type; print how many ticks sensed it, and when ticks were over."""
    folder, seconds = Path(words[0]), float(words[1])
    at: list[float] = []
    seen: list[Snapshot] = []
    settings = Settings(microphone=False, background_method="off", server_url="http://127.0.0.1:9")
    engine = Engine(settings, _RealKeys(ScriptedParts(clock, folder)), clock)
    engine.subscribe(seen.append)
    engine.subscribe(lambda _: at.append(clock.now()))
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        until(lambda: seen and seen[-1].sensors["keyboard"] == "on", "the keyboard sensor")
        start = clock.now()
        typing = ["xdotool", "type", "--delay", str(1000 // KEYS_HZ), "a" * round(seconds * KEYS_HZ)]
        subprocess.run(typing, check=True)  # noqa: S603 - fixed words
        threading.Event().wait(max(0.0, start + seconds - clock.now()))
    finally:
        engine.stop()
        thread.join()
    sensed = sum(bool(one.f_c) for one in seen)
    print(json.dumps([sensed, [one for one in at if start <= one < start + seconds]]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
