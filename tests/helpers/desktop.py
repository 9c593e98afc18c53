"""A desktop for tests: a real X server with a focused window and real keys, a real sound server with real speech.

Everything here ends the processes that it started, and no others.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from helpers.wait import wait_until

WINDOW = """
import sys
from Xlib import X, display
screen = display.Display()
root = screen.screen().root
window = root.create_window(0, 0, 200, 100, 0, X.CopyFromParent, event_mask=X.KeyPressMask | X.StructureNotifyMask)
window.set_wm_name("a window of the tests")
window.map()
while screen.next_event().type != X.MapNotify:
    pass
window.set_input_focus(X.RevertToParent, X.CurrentTime)
screen.sync()
print(window.id, flush=True)
while True:
    screen.next_event()
"""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where one of these programs is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed here: {', '.join(missing)}")


@contextlib.contextmanager
def running(command: list[str], env: Mapping[str, str] | None = None, **how: object) -> Iterator[subprocess.Popen[str]]:
    """Run a program for as long as the block lasts."""
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **how}
    environment = {**os.environ, **(env or {})}
    with subprocess.Popen(command, text=True, env=environment, **how) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def display() -> Iterator[str]:
    """Start an X server that shows nothing, on a free number; yield its DISPLAY."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset"]
    with os.fdopen(reading) as number, running(command, pass_fds=(writing,)):
        os.close(writing)
        line = number.readline().strip()  # it writes this once clients may connect
        assert line, "Xvfb did not start"
        yield f":{line}"


@contextlib.contextmanager
def focused_window(display: str) -> Iterator[int]:
    """Open a plain window that has the focus; yield its id. Without one, X holds recorded keys back in batches."""
    with running([sys.executable, "-c", WINDOW], {"DISPLAY": display}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, "the window did not open"
        wait_until(lambda: xdotool(display, "getwindowfocus").strip() == line, what="the window to have the focus")
        yield int(line)


def xdotool(display: str, *words: str) -> str:
    """Let xdotool do something on this display; return what it prints."""
    command = ["xdotool", *words]
    return subprocess.run(
        command, env={**os.environ, "DISPLAY": display}, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def type_keys(display: str, text: str, delay_ms: int = 20) -> None:
    """Type `text`; returns when the last key was sent."""
    xdotool(display, "type", "--delay", str(delay_ms), "--", text)


def press_until(display: str, keys: str, condition: Callable[[], object], what: str) -> None:
    """Press these keys until it is so: what comes before a menu, or a grab, has the keyboard reaches nobody."""
    act_until(display, ("key", keys), condition, what)


def act_until(display: str, words: Sequence[str], condition: Callable[[], object], what: str) -> None:
    """Let xdotool do something until it is so: what comes before a window is ready for it reaches nobody."""

    def reached() -> bool:
        xdotool(display, *words)
        with contextlib.suppress(AssertionError):
            wait_until(condition, timeout=2.0)
            return True
        return False

    wait_until(reached, what=what)


@contextlib.contextmanager
def sound_server(folder: Path | None = None) -> Iterator[dict[str, str]]:
    """Start a sound server whose microphone hears its own loudspeaker; yield the variables that lead to it.

    A second server in the same `folder` is found by the clients of the first.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zat-sound-")))
        env = sound_variables(folder)
        speaker = "module-null-sink sink_name=spk rate=44100 channels=1"
        microphone = "module-remap-source source_name=mic master=spk.monitor"
        command = ["pulseaudio", "--daemonize=no", "--exit-idle-time=-1", "-n", "--log-target=stderr"]
        for module in ("module-native-protocol-unix", speaker, microphone):
            command += ["-L", module]
        stack.enter_context(running(command, env))
        wait_until(lambda: pactl(env, "info"), what="the sound server")
        assert pactl(env, "set-default-sink", "spk")
        assert pactl(env, "set-default-source", "mic")
        yield env


def sound_variables(folder: Path) -> dict[str, str]:
    """Return the variables under which a sound server in `folder` is, or would be, found."""
    home, runtime = folder / "home", folder / "run"
    for path in (home, runtime):
        path.mkdir(mode=0o700, exist_ok=True)
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}


def speak(env: Mapping[str, str], text: str) -> None:
    """Say `text` through the loudspeaker; returns when the last word was said."""
    with tempfile.TemporaryDirectory(prefix="zat-speech-") as folder:
        wave = f"{folder}/speech.wav"
        subprocess.run(["espeak-ng", "-s", "150", "-w", wave, text], check=True, capture_output=True, timeout=60)
        subprocess.run(["paplay", wave], env={**os.environ, **env}, check=True, capture_output=True, timeout=60)


def pactl(env: Mapping[str, str], *words: str) -> bool:
    """Tell the sound server something; return whether it obeyed."""
    command = ["pactl", *words]
    return (
        subprocess.run(command, env={**os.environ, **env}, check=False, capture_output=True, timeout=60).returncode == 0
    )
