"""The main job on real input: real keys and speech, a real background process, the real llama.cpp server.

Waits for conditions and order, never for milliseconds.
"""

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.desktop import display, focused_window, needs, sound_server, speak, type_keys
from helpers.engine_process import EngineProcess, engine_process
from helpers.job import background_job, unique_name
from helpers.wait import wait_until

from diagnostics.client import Reply, complete
from diagnostics.real_server import RealServer
from engine.clock import SystemClock
from engine.processes import state

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    needs("Xvfb", "xdotool", "pulseaudio", "pactl", "paplay", "espeak-ng"),
]

CONVERSATION = "The user and the model have talked about the garden for a while. " * 31  # some 2,000 tokens
SENTENCE = "Please tell me what I should plant next to the tomatoes this year, and when to water them."


@dataclass
class Desk:
    """Everything that surrounds the engine."""

    engine: EngineProcess
    server: RealServer
    job: int
    screen: str
    sound: dict[str, str]

    def ask(self, prompt: str, n_predict: int = 60) -> Reply:
        """Prompt as a plain HTTP client does."""
        return complete(self.server.url, prompt, SystemClock(), n_predict=n_predict)

    def job_runs(self) -> bool:
        """Tell whether the background process is not stopped."""
        return state(self.job) in ("R", "S", "D")

    def job_held(self) -> bool:
        """Tell whether the background process is stopped."""
        return state(self.job) == "T"


@contextlib.contextmanager
def desk(folder: Path, model: Path, *, sleep: int = 0, job_name: str = "", **settings: object) -> Iterator[Desk]:
    """Set everything up: screen with a focused window, sound, job, server, engine."""
    name = job_name or unique_name()
    slots = folder / "slots"
    slots.mkdir()
    with contextlib.ExitStack() as stack:
        screen = stack.enter_context(display())
        stack.enter_context(focused_window(screen))
        sound = stack.enter_context(sound_server())
        job = stack.enter_context(background_job(name))
        server = stack.enter_context(RealServer(model, folder, slot_save_path=slots, sleep_idle_seconds=sleep))
        values = {
            "SERVER_URL": server.url,
            "BACKGROUND_PROCESS_NAME": name,
            "BACKGROUND_METHOD": "process",
            "FALLBACK_TO_SUSPEND": "on",
            "KEYBOARD": "off",
            "MICROPHONE": "off",
            **settings,
        }
        engine = stack.enter_context(engine_process(folder, values, {"DISPLAY": screen, **sound}))
        yield Desk(engine, server, job.pid, screen, sound)


def keep_a_context(desk: Desk) -> int:
    """Have a conversation that nobody foresaw; return how many tokens were kept of it."""
    desk.engine.wait_snapshot("the server", lambda seen: seen["server"] == "up" and seen["backend"] == "process")
    moves = len(desk.engine.moves)
    reply = desk.ask(CONVERSATION)
    assert reply.cache_n == 0
    moves = desk.engine.wait_move("ACTIVE_INFERENCE", "prompt", moves)
    desk.engine.wait_move("COLD_IDLE", "finished", moves)
    kept = desk.engine.wait_snapshot("the context to be kept", lambda seen: seen["context_detail"] == "saved")
    assert kept["context_tokens"] > 2000
    return kept["context_tokens"]


def restart(desk: Desk) -> None:
    """End the server and start it anew: DEGRADED with the job at full share, then back."""
    moves = len(desk.engine.moves)
    desk.server.stop()
    moves = desk.engine.wait_move("DEGRADED", "server_lost", moves)
    desk.engine.wait_snapshot("the job at 100 %", lambda seen: seen["background_share"] == 100)
    assert desk.job_runs()
    desk.server.start()
    desk.engine.wait_move("COLD_IDLE", "server_back", moves)
    desk.engine.wait_snapshot("the loss to be told", lambda seen: seen["context"] == "saved")


def prompt_after_preparation(desk: Desk, moves: int, kept: int) -> None:
    """Expect the context restored and the job held for the prompt, and everything as before afterwards."""
    moves = desk.engine.wait_move("SPECULATIVE_PREPARED", "threshold", moves)
    wait_until(desk.job_held, what="the job to be held")
    desk.engine.wait_log("restored")
    verified = (10, True)
    desk.engine.wait_snapshot(
        "the verified share", lambda seen: (seen["background_share"], seen["background_verified"]) == verified
    )
    # On a busy machine the last keys arrive late; those that came behind the prompt would announce another one.
    desk.engine.wait_snapshot("the last key to be over", lambda seen: seen["probability"] < 0.9)
    reply = desk.ask(CONVERSATION + "x" * 40, n_predict=200)
    moves = desk.engine.wait_move("ACTIVE_INFERENCE", "prompt", moves)
    assert reply.cache_n >= 0.95 * min(kept, len(CONVERSATION))
    moves = desk.engine.wait_move("COLD_IDLE", "finished", moves)
    end = desk.engine.wait_snapshot("the job back", lambda seen: seen["background_share"] == 100)
    wait_until(desk.job_runs, what="the job to run")
    assert (end["hits"], end["false_positives"]) == (1, 0), desk.engine.moves
    held_states = [seen["background_share"] for seen in desk.engine.snapshots if seen["state"] == "ACTIVE_INFERENCE"]
    assert all(share in (0, 10) for share in held_states[-1:])


def finish(desk: Desk) -> None:
    """End the engine as Ctrl+C does."""
    assert desk.engine.end(signal.SIGINT) == 0
    last = desk.engine.snapshots[-1]
    assert (last["state"], last["background_share"]) == ("COLD_IDLE", 100)
    assert desk.job_runs()
    assert not any("Traceback" in line for line in desk.engine.log)


def test_typing_prepares_and_the_prompt_finds_its_context(tmp_path: Path, tiny_model: Path) -> None:
    """Kept, lost by a restart, restored because of typing, re-used by the prompt, given back."""
    with desk(tmp_path, tiny_model, job_name="fahclient", KEYBOARD="on") as real:
        real.engine.wait_snapshot("the keyboard", lambda seen: seen["sensors"]["keyboard"] == "on")
        kept = keep_a_context(real)
        restart(real)
        moves = len(real.engine.moves)
        type_keys(real.screen, SENTENCE, delay_ms=60)
        prompt_after_preparation(real, moves, kept)
        finish(real)


def test_speech_alone_prepares(tmp_path: Path, tiny_model: Path) -> None:
    """The same with no keyboard at all: what the microphone hears is enough."""
    with desk(tmp_path, tiny_model, MICROPHONE="on") as real:
        real.engine.wait_snapshot("the microphone", lambda seen: seen["g_a"] is not None)
        kept = keep_a_context(real)
        restart(real)
        moves = len(real.engine.moves)
        speak(real.sound, SENTENCE)
        prompt_after_preparation(real, moves, kept)
        finish(real)


def test_a_server_that_sleeps_is_left_asleep_and_woken_in_time(tmp_path: Path, tiny_model: Path) -> None:
    """Our looking does not keep it awake; typing wakes it with its context."""
    # By the rules P fades soon after the last key; by the score it would outlast these five seconds.
    with desk(tmp_path, tiny_model, sleep=5, KEYBOARD="on", LEARNED="off") as real:
        real.engine.wait_snapshot("the keyboard", lambda seen: seen["sensors"]["keyboard"] == "on")
        kept = keep_a_context(real)
        real.engine.wait_snapshot("the server to sleep", lambda seen: seen["server"] == "asleep")
        real.engine.wait_snapshot("the loss to be told", lambda seen: seen["context"] == "saved")
        moves = len(real.engine.moves)
        type_keys(real.screen, SENTENCE, delay_ms=60)
        prompt_after_preparation(real, moves, kept)
        finish(real)
