"""A canary is typed, spoken, prompted, and put into a title: afterwards neither memory nor any file of ours has it.

The engine is the real one, in a process of its own, with a real X server, sound server and llama.cpp server.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers import memory
from helpers.desktop import display, needs, running, sound_server, speak, type_keys
from helpers.engine_process import ROOT, EngineProcess, user_folders
from helpers.wait import wait_until
from Xlib.display import Display

from diagnostics import client
from diagnostics.real_server import RealServer
from engine.clock import SystemClock

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    needs("Xvfb", "xdotool", "pulseaudio", "pactl", "paplay", "parec", "espeak-ng"),
]

TYPED = "qzvkwjxyqbzfkvj"
TITLE = "Vxqzkwjpfyhgq"
PROMPT = "kwxqjzvyfphbzq"
SPOKEN = "flibbertigibbet, kwashiorkor, quincunx and syzygy"
FORGOTTEN = 2.0  # s after the last sound and key
IN_A_ROW = 6  # keys that must not lie side by side anywhere
RATE = 44_100
STRETCH = RATE // 40  # samples; any 50 ms of sound hold one of the marks that are set so far apart
MARK = 32  # samples
LOUD = 500  # of 32,768
WINDOW = """
import sys
from Xlib import X, display
screen = display.Display()
root = screen.screen().root
window = root.create_window(0, 0, 200, 100, 0, X.CopyFromParent, event_mask=X.KeyPressMask | X.StructureNotifyMask)
window.set_wm_name(sys.argv[1])
window.map()
while screen.next_event().type != X.MapNotify:
    pass
window.set_input_focus(X.RevertToParent, X.CurrentTime)
screen.sync()
print("open", flush=True)
window.set_wm_name(sys.stdin.readline().strip())
screen.sync()
sys.stdin.read()
"""
HOLDER = """
import array, sys
from pathlib import Path
title, word, codes = (text.encode() for text in sys.argv[1:4])
sound = Path(sys.argv[4]).read_bytes()
sound = sound[: len(sound) // 2 * 2]
kept = [array.array(kind, list(codes)) for kind in "BHIQ"]
kept += [text.decode().encode(coding) for text in (title, word) for coding in ("utf-16-le", "utf-32-le")]
kept += [array.array("f", (sample / 32768 for sample in array.array("h", sound)))]
print("holds it", flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Canary:
    """What must be nowhere: words by coding, sound by its marks, keys as the X server numbers them."""

    words: Mapping[str, bytes]
    sound: Mapping[str, bytes]
    keys: Mapping[str, bytes]
    title: Mapping[str, bytes]


@dataclass(frozen=True)
class Day:
    """What was found. `heard`: the file with the sound; `places`: where in memory; `folder`: all files there are."""

    canary: Canary
    heard: Path
    places: memory.Places
    title_places: memory.Places
    folder: Path
    saw: Mapping[str, object]


@pytest.fixture(scope="module")
def day(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """Play a short day before a recording engine and look through its memory; then end it."""
    folder, outside = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("outside")
    slots = folder / "slots"
    slots.mkdir()
    with contextlib.ExitStack() as stack:
        screen, sound = stack.enter_context(display()), stack.enter_context(sound_server())
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        window = stack.enter_context(
            running([sys.executable, "-c", WINDOW, f"{TITLE} plans - Editor"], {"DISPLAY": screen}, **how)
        )
        assert window.stdout is not None
        assert window.stdout.readline() == "open\n"
        server = stack.enter_context(RealServer(tiny_model, outside, slot_save_path=slots))
        env = {**sound, **user_folders(folder), "DISPLAY": screen, "XDG_CACHE_HOME": str(folder / "cache")}
        engine = stack.enter_context(recording_engine(folder, server.url, slots, env))
        heard = outside / "heard.raw"
        with recorded(heard, sound):
            saw = play(engine, server.url, screen, sound)
        canary = made(heard, screen)
        done = time.time()
        engine.wait_snapshot("some seconds later", lambda seen: seen["at"] >= done + FORGOTTEN)
        places = memory.found(engine.process.pid, {**canary.words, **canary.sound})
        places |= memory.rows(engine.process.pid, canary.keys, IN_A_ROW)
        title_places = title_after_another(engine, window, canary.title)
        assert engine.end() == 0
        (folder / "log").write_text("".join(engine.log), "utf-8")
        (folder / "lines.jsonl").write_text("\n".join(map(json.dumps, engine.lines)), "utf-8")
        yield Day(canary, heard, places, title_places, folder, saw)


@contextlib.contextmanager
def recording_engine(folder: Path, url: str, slots: Path, env: Mapping[str, str]) -> Iterator[EngineProcess]:
    """Run `engine --record` with all sensors on, and wait until they are."""
    settings = {"SERVER_URL": url, "SLOT_SAVE_PATH": slots, "BACKGROUND_METHOD": "off"}
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "app", "engine", "--json", "--record", str(folder / "day.jsonl"), *words]
    clean = {name: value for name, value in os.environ.items() if name not in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE")}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env={**clean, **env}, text=True, **pipes) as process:
        try:
            engine = EngineProcess(process)
            sensing = {"keyboard": "on", "microphone": "on", "window": "on"}
            engine.wait_snapshot("it senses", lambda seen: seen["sensors"] == sensing and seen["server"] == "up")
            yield engine
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(30)
            for reader in engine._readers:
                reader.join(10)


@contextlib.contextmanager
def recorded(path: Path, sound: Mapping[str, str]) -> Iterator[None]:
    """Record what the microphone hears, as the engine hears it: its only other listener."""
    words = ["--device=mic", "--format=s16le", f"--rate={RATE}", "--channels=1", "--raw", str(path)]
    with running(["parec", *words], sound):
        wait_until(lambda: path.exists() and path.stat().st_size, what="the first sound to be recorded")
        yield


def play(engine: EngineProcess, url: str, screen: str, sound: Mapping[str, str]) -> dict[str, object]:
    """Type, speak, and send prompts until a context was saved; return what the engine noticed of it."""
    speaking = threading.Thread(target=speak, args=(sound, SPOKEN))
    speaking.start()
    type_keys(screen, TYPED, delay_ms=120)
    engine.wait_move("SPECULATIVE_PREPARED", "threshold")
    client.complete(url, f"{PROMPT} once upon a time " * 30, SystemClock())
    engine.wait_move("COLD_IDLE", "finished")
    speaking.join()
    type_keys(screen, TYPED, delay_ms=120)
    engine.wait_log("saved")
    return {"voice": max(seen["g_a"] or 0 for seen in engine.snapshots), "hits": engine.snapshots[-1]["hits"]}


def made(heard: Path, screen: str) -> Canary:
    """Return all forms of the canary."""
    sound = np.fromfile(heard, np.int16)
    marks = [sound[at : at + MARK] for at in range(0, len(sound) - MARK, STRETCH)]
    loud = [mark for mark in marks if np.abs(mark.astype(int)).max() > LOUD]
    as_floats = [(mark / np.float32(32768)).astype(np.float32) for mark in loud]
    line = Display(screen)
    try:
        codes = bytes(line.keysym_to_keycode(ord(letter)) for letter in TYPED)
    finally:
        line.close()
    words = {f"{word} in {coding}": text for word in (TYPED, PROMPT) for coding, text in memory.texts(word).items()}
    pieces = [TITLE[at : at + memory.HEAD] for at in range(len(TITLE) - memory.HEAD + 1)]
    return Canary(
        words=words,
        sound={
            f"sound {kind}{n}": m.tobytes() for kind, of in (("i", loud), ("f", as_floats)) for n, m in enumerate(of)
        },
        keys={"keysyms": TYPED.encode(), "codes": codes, "downs and ups": bytes(code for code in codes for _ in "du")},
        title={f"{piece} in {coding}": text for piece in pieces for coding, text in memory.texts(piece).items()},
    )


def title_after_another(
    engine: EngineProcess, window: subprocess.Popen[str], title: Mapping[str, bytes]
) -> memory.Places:
    """Give the window another title; return where the old one is still found when the time for that is over."""
    assert window.stdin is not None
    window.stdin.write("Something else\n")
    window.stdin.flush()
    places: memory.Places = {}

    def gone() -> bool:
        places.clear()
        places.update(memory.found(engine.process.pid, title))
        return not places

    with contextlib.suppress(AssertionError):  # the test shows the places
        wait_until(gone, timeout=20, what="the title to be gone")
    return places


def test_the_search_finds_what_is_there(day: Day) -> None:
    """In a process that holds title, word, keys and sound, all of these are found in each form that it holds."""
    codes = day.canary.keys["codes"].decode()
    command = [sys.executable, "-c", HOLDER, TITLE, TYPED, codes, str(day.heard)]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds it\n"
        assert set(memory.found(holder.pid, day.canary.sound)) == set(day.canary.sound)
        texts = memory.found(holder.pid, {**day.canary.words, **day.canary.title})
        for coding in ("utf-8", "utf-16-le", "utf-32-le"):
            assert {f"{TYPED} in {coding}", f"{TITLE[:8]} in {coding}", f"{TITLE[-8:]} in {coding}"} <= set(texts)
        assert len(memory.rows(holder.pid, {"codes": day.canary.keys["codes"]}, IN_A_ROW)["codes"]) >= 1


@pytest.mark.parametrize("size", [1, 2, 4, 8, 32])
def test_the_search_finds_keys_side_by_side(size: int) -> None:
    """As numbers of any size, and as events of the X server; not if another key lies between them."""
    keys = b"".join(bytes([number]) + bytes(size - 1) for number in b"qzvkwj")
    others = b"".join(bytes([number]) + bytes(size - 1) for number in b"qzvxkwj")
    for held, expected in ((keys, True), (others, False)):
        assert memory.in_a_row(np.frombuffer(b"before" + held + b"after", np.uint8), b"qzvkwj") is expected


def test_the_engine_did_sense_it(day: Day) -> None:
    """Keys, voice, window and prompt went into the trace, and into what is learned and saved."""
    events = [json.loads(line) for line in (day.folder / "day.jsonl").read_text("utf-8").splitlines()[1:]]
    kinds = [event["e"] for event in events]
    assert sum(event["e"] == "key" and event["kind"] == "text" for event in events) >= 2 * len(TYPED) - 2
    assert "prompt" in kinds
    assert any(event.get("title") for event in events if event["e"] == "window")
    assert max(max(event["db"]) for event in events if event["e"] == "audio") > -40
    assert day.saw["voice"]
    assert day.saw["hits"]
    data = day.folder / "data" / "zat-scs"
    assert json.loads((data / "habits.json").read_text("utf-8"))["prompts"] == 1
    assert list((day.folder / "slots").iterdir())
    assert len(day.canary.sound) > 50


def test_memory_holds_nothing_of_keys_prompt_and_sound(day: Day) -> None:
    """Two seconds after the last of it: no word, no six keys in a row, no 50 ms of sound."""
    assert day.places == {}


def test_memory_holds_no_title_once_another_came(day: Day) -> None:
    """Not even eight letters of it, in memory that was freed."""
    assert day.title_places == {}


def test_no_file_holds_any_of_it(day: Day) -> None:
    """Log, ledger, trace, habits, list of contexts, sums of the day, and whatever else there is."""
    wanted = {**day.canary.words, **day.canary.sound, **day.canary.title}
    files = [path for path in day.folder.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"day.jsonl", "log", "habits.json", "contexts.json", "window.key"} <= names
    for path in files:
        content = path.read_bytes()
        assert [name for name, needle in wanted.items() if needle in content] == [], path
