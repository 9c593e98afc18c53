"""The prompts of a benchmark, one method a kind; each returns what it measured, or why it does not count.

Every kind asks for the same whole: a context of so many tokens, then the same new words. A prepared and a warm prompt
find exactly that context in the slot, so both compute the same tokens.
"""

import http.client
import statistics
from dataclasses import dataclass
from pathlib import Path

from diagnostics import bench_engine, ttft
from diagnostics.bench_engine import Unmet, Watched
from diagnostics.bench_figures import Sample
from diagnostics.bench_jobs import Jobs
from diagnostics.bench_stage import Stage
from diagnostics.ttft import Answer
from engine.clock import Clock
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.errors import ServerError
from engine.events import ContextState, ServerState, Snapshot, State

KINDS = ("cold", "prepared", "warm")
BASELINES = ("reactive", "any_key")
TAIL = 128  # new tokens; with less than 64 some builds are slower per token
PROBE = 400  # characters by which the length of a token is measured
SAVE_TIMEOUT = 60.0  # s from the end of a prompt until the engine has saved its context
_SENTENCE = "What was said before goes on here, sentence by sentence, as conversations do. "
ANY_KEY: dict[str, Value] = {"INITIAL_THRESHOLD": 0.01, "MIN_THRESHOLD": 0.01}  # the second key is enough


@dataclass(frozen=True)
class Words:
    """What is said. `context`: the conversation so far; `tail`: what is new."""

    context: str
    tail: str

    @classmethod
    def of(cls, tokens: int, characters_per_token: float) -> "Words":
        """Return a conversation of about so many tokens."""
        length = round(tokens * characters_per_token)
        new = round(TAIL * characters_per_token)
        return cls(_filled(_SENTENCE, length), _filled("\nAnd then: tell me more about that. ", new))

    def whole(self, run: int | None = None) -> str:
        """Return the whole prompt; with a `run`, one whose first word no cache of any server has seen."""
        first = "" if run is None else f"{run:06d}"
        return first + self.context[len(first) :] + self.tail


def characters_per_token(stage: Stage, clock: Clock) -> float:
    """Measure how long a token of this server's model is. Raises OSError and HTTPException."""
    answer = ttft.ask(stage.target, _filled(_SENTENCE, PROBE), clock, n_predict=1)
    total = (answer.cache_n or 0) + (answer.prompt_n or 0)
    return PROBE / (total - 1) if total > 1 else 1.0  # one token marks the beginning


class Bench:
    """One conversation on one stage. `folder`: of the engine's files. Each run gets a number of its own."""

    def __init__(self, stage: Stage, words: Words, folder: Path, clock: Clock, settings: Settings) -> None:
        self.stage = stage
        self.words = words
        self.clock = clock
        self.folder = folder
        self._settings = settings
        self._number = 0
        self._unkept: str | None = None  # why the context could not be saved, "" if it was

    def settings(self, jobs: Jobs, **more: Value) -> Settings:
        """Return the settings of an engine for this stage and these jobs."""
        return self._settings.replace(
            {
                # Another spelling of the address: an engine of the user's names its files after its own spelling.
                "SERVER_URL": self.stage.target.url.rstrip("/") + "//",
                "SLOT_SAVE_PATH": self.stage.save_path,
                "BACKGROUND_PROCESS_NAME": jobs.name,
                "BACKGROUND_METHOD": "process",
                "FALLBACK_TO_SUSPEND": True,
                "KEYBOARD": True,
                "MICROPHONE": False,
                **more,
            }
        )

    def keep_context(self, jobs: Jobs) -> str:
        """Hold the conversation once, so that the engine saves it; return why it did not, "" if it did."""
        if self._unkept == "" or self.stage.keeps:
            return ""
        try:
            with bench_engine.running(self.settings(jobs), self.folder, self.clock) as engine:
                engine.wait("the server is seen", server_seen)
                self.prime()
                engine.wait("the context is saved or not", _settled, SAVE_TIMEOUT)
                detail = engine.context_detail
                self._unkept = "" if detail == "saved" else f"the context was not saved: {detail}"
        except Unmet as unmet:
            self._unkept = str(unmet)
        return self._unkept

    def run(self, kind: str, number: int, jobs: Jobs) -> Sample:
        """Measure one prompt of this kind; whatever prevents it is in the sample."""
        try:
            return {
                "cold": self.cold,
                "warm": self.warm,
                "prepared": self.prepared,
                "any_key": self.any_key,
                "reactive": self.reactive,
            }[kind](number, jobs)
        except Unmet as unmet:
            return Sample(self.stage.scenario, kind, number, failed=str(unmet))
        except (OSError, http.client.HTTPException, ServerError) as error:
            return Sample(self.stage.scenario, kind, number, failed=str(error) or type(error).__name__)

    def cold(self, number: int, jobs: Jobs) -> Sample:
        """Measure without ZAT-SCS: the context is lost, and the job has the machine."""
        del jobs
        self.lose()
        return self._sample("cold", number, self._ask_cold())

    def warm(self, number: int, jobs: Jobs) -> Sample:
        """Measure on a free machine whose server holds exactly the context; no ZAT-SCS."""
        with jobs.away():
            self.prime()
            return self._sample("warm", number, self.ask())

    def prepared(self, number: int, jobs: Jobs) -> Sample:
        """Measure with ZAT-SCS: the context is lost, somebody types, and all is ready before the prompt."""
        return self._foreseen("prepared", number, jobs)

    def any_key(self, number: int, jobs: Jobs) -> Sample:
        """Measure as prepared, with an engine that prepares at any key."""
        return self._foreseen("any_key", number, jobs, **ANY_KEY)

    def reactive(self, number: int, jobs: Jobs) -> Sample:
        """Measure with nobody typing: the job is held only when the prompt is seen."""
        with bench_engine.running(self.settings(jobs), self.folder, self.clock) as engine:
            self.lose_seen(engine, jobs)
            return self._sample("reactive", number, self._ask_cold())

    def _foreseen(self, kind: str, number: int, jobs: Jobs, **more: Value) -> Sample:
        if self._unkept:
            raise Unmet(self._unkept)
        with bench_engine.running(self.settings(jobs, **more), self.folder, self.clock) as engine:
            self.lose_seen(engine, jobs)
            ready = engine.type_until("all is prepared", lambda seen: self._all_ready(seen, jobs))
            engine.enter()
            answer = self.ask()
        return self._sample(kind, number, answer, ready)

    def lose_seen(self, engine: Watched, jobs: Jobs) -> None:
        """Lose the context before the eyes of a running engine."""
        engine.wait("the server is seen", server_seen)
        engine.wait("a way to hold the job is found", lambda seen: seen.backend == "process" or not jobs.running)
        self.lose()
        if self.stage.lost is not None:
            engine.wait("the loss is seen", self.stage.lost)
        engine.wait("nothing is held", lambda seen: seen.state is State.COLD_IDLE and seen.background_share == 100)

    def _all_ready(self, seen: Snapshot, jobs: Jobs) -> bool:
        held = not jobs.running or (seen.background_share == 10 and seen.background_verified is True and jobs.held)
        context = self.stage.keeps or seen.context is ContextState.RESTORED
        return seen.state is State.SPECULATIVE_PREPARED and held and context

    def lose(self) -> None:
        """Let the server lose its context; where it keeps it, let it hold exactly that."""
        if self.stage.keeps:
            self.prime()
        self.stage.lose()

    def prime(self) -> None:
        """Let the slot hold exactly the context: the one token of the reply is never fed back."""
        ttft.ask(self.stage.target, self.words.context, self.clock, n_predict=1)

    def ask(self) -> Answer:
        """Send the whole prompt."""
        return ttft.ask(self.stage.target, self.words.whole(), self.clock)

    def _ask_cold(self) -> Answer:
        self._number += 1
        return ttft.ask(self.stage.target, self.words.whole(None if self.stage.keeps else self._number), self.clock)

    def _sample(self, kind: str, number: int, answer: Answer, ready: float | None = None) -> Sample:
        scenario, ready_ms = self.stage.scenario, None if ready is None else 1000 * ready
        return Sample(scenario, kind, number, 1000 * answer.first, answer.cache_n, answer.prompt_n, ready_ms)


def kept_tokens(samples: list[Sample]) -> int:
    """Return how many tokens of context the warm runs re-used, 0 if that is not known."""
    known = [sample.cache_n for sample in samples if sample.kind == "warm" and sample.cache_n is not None]
    return round(statistics.median(known)) if known else 0


def server_seen(seen: Snapshot) -> bool:
    """Tell whether the engine has found the server."""
    return seen.server in (ServerState.UP, ServerState.ASLEEP)


def _settled(seen: Snapshot) -> bool:
    return seen.context is ContextState.WARM and bool(seen.context_detail)


def _filled(sentence: str, length: int) -> str:
    return (sentence * (length // len(sentence) + 1))[:length]
