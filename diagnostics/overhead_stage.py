"""Where overhead.py measures: a screen of its own with a panel, a sound server of its own, and somebody who uses them.

Nothing of the user's is touched: no key goes to their screen, nothing to their loudspeaker. All ends with its block.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from diagnostics.overhead_probe import Unmeasured
from engine.clock import SystemClock

PATIENCE = 20.0  # s for any of the programs to be ready
KEY_GAP = 150  # ms between two keys of somebody who types
SENTENCE = "Well, let us think about how the harbour looked that morning, and who had left the boats there."
_PANEL = "panel_items = S\npanel_size = 100% 32\npanel_position = bottom center horizontal\n"
clock = SystemClock()


@contextlib.contextmanager
def running(
    command: list[str], env: Mapping[str, str] | None = None, pass_fds: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, silently, for as long as the block lasts."""
    program = shutil.which(command[0])
    if program is None:
        raise Unmeasured(f"{command[0]} is not installed")
    process = subprocess.Popen(  # noqa: S603 - words of ours
        [program, *command[1:]],
        env={**os.environ, **(env or {})},
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait for a condition. Raises Unmeasured."""
    end = clock.now() + patience
    while not condition():
        if clock.now() > end:
            raise Unmeasured(f"waited {patience:g} s for {what}")
        time.sleep(0.02)


@contextlib.contextmanager
def screen() -> Iterator[str]:
    """Run an X server that shows nothing; yield its DISPLAY. Raises Unmeasured."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1280x1024x24", "-nolisten", "tcp", "-noreset"]
    with os.fdopen(reading) as number, contextlib.ExitStack() as stack:
        try:
            stack.enter_context(running(command, pass_fds=(writing,)))
        finally:
            os.close(writing)
        line = number.readline().strip()  # it writes this once clients may connect
        if not line:
            raise Unmeasured("Xvfb did not start")
        yield f":{line}"


@contextlib.contextmanager
def panel(display: str, folder: Path, has_tray: Callable[[], bool]) -> Iterator[None]:
    """Run a window manager and a panel with a tray, as a desktop does. Raises Unmeasured."""
    configuration = folder / "tint2rc"
    configuration.write_text(_PANEL, "utf-8")
    with running(["openbox"], {"DISPLAY": display}), running(["tint2", "-c", str(configuration)], {"DISPLAY": display}):
        until(has_tray, "the panel's tray")
        yield


@contextlib.contextmanager
def sound() -> Iterator[dict[str, str]]:
    """Run a sound server whose microphone hears its own loudspeaker; yield the variables that lead to it.

    Raises Unmeasured.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zat-sound-")))
        env = {"HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder / "run")}
        for path in env.values():
            Path(path).mkdir(mode=0o700)
        command = ["pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n"]
        for module in (
            "module-native-protocol-unix",
            "module-null-sink sink_name=spk rate=44100 channels=1",
            "module-remap-source source_name=mic master=spk.monitor",
        ):
            command += ["-L", module]
        stack.enter_context(running(command, env))
        until(lambda: _done(["pactl", "info"], env), "the sound server")
        until(lambda: _done(["pactl", "set-default-sink", "spk"], env), "the loudspeaker")
        until(lambda: _done(["pactl", "set-default-source", "mic"], env), "the microphone")
        yield env


@contextlib.contextmanager
def typing(display: str, seconds: float) -> Iterator[None]:
    """Let somebody type for so long, or until the block ends. Raises Unmeasured."""
    text = "a" * round(1000 * seconds / KEY_GAP)
    with running(["xdotool", "type", "--delay", str(KEY_GAP), "--", text], {"DISPLAY": display}):
        yield


@contextlib.contextmanager
def speech(env: Mapping[str, str], folder: Path, seconds: float) -> Iterator[Path]:
    """Let somebody speak for so long, or until the block ends; yield the sound. Raises Unmeasured."""
    sentence, whole = folder / "sentence.wav", folder / "speech.wav"
    if not _done(["espeak-ng", "-s", "150", "-w", str(sentence), SENTENCE]):
        raise Unmeasured("espeak-ng is not installed, or does not work")
    with wave.open(str(sentence)) as once, wave.open(str(whole), "wb") as again:
        again.setparams(once.getparams())
        frames = once.readframes(once.getnframes())
        for _ in range(1 + round(seconds * once.getframerate()) // once.getnframes()):
            again.writeframes(frames)
    with running(["paplay", str(whole)], env):
        yield whole


def _done(command: list[str], env: Mapping[str, str] | None = None) -> bool:
    program = shutil.which(command[0])
    if program is None:
        raise Unmeasured(f"{command[0]} is not installed")
    answer = subprocess.run(  # noqa: S603 - words of ours
        [program, *command[1:]], env={**os.environ, **(env or {})}, capture_output=True, timeout=60, check=False
    )
    return answer.returncode == 0
