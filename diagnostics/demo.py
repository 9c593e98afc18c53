"""The whole loop on any machine, in half a minute: stand-in server, dummy job, scripted typing, real engine.

Nothing of the user's is touched: the job, the server and all files are the demo's own.
"""

import logging
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from diagnostics.busy import named_job
from diagnostics.client import Reply, complete
from diagnostics.mock_server import StandIn
from diagnostics.quiet import quiet
from diagnostics.scripted import ScriptedParts
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import ContextState, SettingsChanged, Snapshot, State
from engine.loop import Engine
from engine.processes import state as process_state

JOB = "zat-demo-job"
RESTORE_MS = 200.0
PROMPT = "The conversation so far, as long as conversations are. " * 8
TOKENS = 300  # of a reply, some 5 ms each: longer than the second between two looks at an idle server
PATIENCE = 3.0  # s the last preparation waits for a prompt that never comes, so that the demo is short
STEP_TIMEOUT = 20.0  # s any single step may take on a slow machine


class Failed(Exception):  # noqa: N818 - what happened
    """The loop did not do what it must; the message says what."""


def main() -> int:
    """Run the demo; return 0 if the loop did all it must, else 1."""
    print("ZAT-SCS demo: a stand-in server, a dummy background job, scripted typing. Nothing of yours is touched.\n")
    try:
        with (
            quiet(logging.ERROR, "engine"),
            tempfile.TemporaryDirectory(prefix="zat-scs-demo-") as folder,
            named_job(Path(folder), JOB) as job,
        ):
            Demo(Path(folder), job.pid).play()
    except (Failed, OSError) as error:
        print(f"\nThe demo failed: {error}", file=sys.stderr)
        return 1
    return 0


class Demo:
    """Plays the script and prints the timeline."""

    def __init__(self, folder: Path, job: int) -> None:
        self._clock = SystemClock()
        self._start = self._clock.now()
        self._job = job
        self._changed = threading.Condition()
        self._seen: Snapshot | None = None
        self._visited: set[State] = set()
        slots = folder / "slots"
        slots.mkdir()
        self._server = StandIn(restore_ms=RESTORE_MS, slot_save_path=slots)
        self._parts = ScriptedParts(self._clock, folder)
        self._slots = slots

    def play(self) -> None:
        """Play all of it. Raises Failed."""
        with self._server:
            settings = Settings(
                server_url=self._server.url,
                slot_save_path=str(self._slots),
                background_process_name=JOB,
                background_method="process",
                fallback_to_suspend=True,
                microphone=False,
            )
            engine = Engine(settings, self._parts, self._clock)
            engine.subscribe(self._take)
            thread = threading.Thread(target=engine.run, name="engine")
            thread.start()
            try:
                cold, prepared = self._foreseen()
                engine.post(SettingsChanged(replace(settings, inactivity_timer=PATIENCE, timer_from="entry")))
                self._in_vain()
                self._compare(cold, prepared)
            finally:
                engine.stop()
                thread.join()
        self._expect("at the end the job runs", lambda: self._job_state() not in ("T", None))
        missing = set(State) - self._visited
        if missing:
            raise Failed(f"never in {', '.join(sorted(state.value for state in missing))}")

    def _foreseen(self) -> tuple[Reply, Reply]:
        """Play a prompt that comes unforeseen, and one that is foreseen."""
        self._wait("the job is found", lambda seen: seen.backend == "process")
        self._wait("the server is seen", lambda seen: seen.server.value == "up")
        self._line("nobody types; the job has the card")
        cold = self._prompt("a prompt arrives unforeseen")
        self._wait("the context is saved", lambda seen: seen.context_detail == "saved")
        self._line("the context was saved after the reply")
        self._server.down()
        self._wait("the loss is seen", lambda seen: seen.state is State.DEGRADED and seen.background_share == 100)
        self._line("the server is gone: its context is lost, the job has the card")
        self._server.up()
        self._wait("the server is back", lambda seen: seen.state is State.COLD_IDLE)
        self._line("the server is back, cold")
        self._type()
        self._wait("typing prepares", _prepared)
        self._line("typing was sensed: the job is suspended, the context restored")
        return cold, self._prompt("the prompt arrives, foreseen")

    def _in_vain(self) -> None:
        """Play a preparation that no prompt follows."""
        self._type()
        self._wait("typing prepares again", lambda seen: seen.background_share == 10)
        self._line("typing again, but no prompt comes")
        self._wait("a false alarm gives back", lambda seen: seen.false_positives == 1 and seen.background_share == 100)
        self._line("a false alarm: everything was given back")

    def _type(self) -> None:
        """Type twelve keys at eight a second."""
        for n in range(12):
            self._parts.keys.press(self._clock.now())
            threading.Event().wait(0.125 if n < 11 else 0.0)

    def _prompt(self, words: str) -> Reply:
        answers: list[Reply] = []

        def ask() -> None:
            answers.append(complete(self._server.url, PROMPT, self._clock, n_predict=TOKENS))

        asking = threading.Thread(target=ask)
        asking.start()
        self._wait("the prompt takes the card", lambda seen: seen.state is State.ACTIVE_INFERENCE)
        self._wait("the job is held meanwhile", lambda seen: seen.background_share == 0 or not asking.is_alive())
        self._line(words)
        asking.join(STEP_TIMEOUT)
        if not answers:
            raise Failed("the server did not answer")
        self._wait("the card goes back", lambda seen: seen.state is State.COLD_IDLE and seen.background_share == 100)
        self._line(f"answered; first token after {answers[0].first_token * 1000:.0f} ms")
        return answers[0]

    def _compare(self, cold: Reply, prepared: Reply) -> None:
        ratio = cold.first_token / prepared.first_token
        print(
            f"\nTime to first token: cold {cold.first_token * 1000:.0f} ms, "
            f"prepared {prepared.first_token * 1000:.0f} ms: {ratio:.1f}\N{MULTIPLICATION SIGN} "
            f"(stand-in: a cold context costs {RESTORE_MS:.0f} ms)"
        )
        # Whether it was of use is told by the tokens: on a busy machine a time says little.
        if cold.cache_n or (prepared.cache_n or 0) < 0.95 * len(PROMPT):
            raise Failed(f"cold re-used {cold.cache_n} tokens, prepared {prepared.cache_n} of {len(PROMPT)}")

    # ---- watching ----------------------------------------------------------------------------------------------------

    def _take(self, snapshot: Snapshot) -> None:
        with self._changed:
            self._seen = snapshot
            self._visited.add(snapshot.state)
            self._changed.notify_all()

    def _wait(self, what: str, condition: Callable[[Snapshot], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen is not None and condition(self._seen), STEP_TIMEOUT):
                seen = self._seen
                raise Failed(f"{what}: not within {STEP_TIMEOUT:.0f} s; last seen: {seen}")

    def _expect(self, what: str, condition: Callable[[], bool]) -> None:
        if not condition():
            raise Failed(f"expected that {what}")

    def _job_state(self) -> str | None:
        return process_state(self._job)

    def _line(self, words: str) -> None:
        seen = self._seen
        if seen is None:
            raise Failed("nothing was seen of the engine")
        job = "suspended" if self._job_state() == "T" else "running"
        at = self._clock.now() - self._start
        share = f"job {seen.background_share:3d} %, {job}"
        print(f"{at:5.1f} s  {seen.state.value:<21} P {seen.probability:.2f}  {share:<19}  {words}", flush=True)


def _prepared(seen: Snapshot) -> bool:
    done = seen.context is ContextState.RESTORED and seen.background_share == 10 and seen.background_verified is True
    return seen.state is State.SPECULATIVE_PREPARED and done


if __name__ == "__main__":
    sys.exit(main())
