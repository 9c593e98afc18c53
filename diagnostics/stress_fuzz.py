"""Phase (j), first half: broken answers through the real client, observer, interpreter and machine."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from diagnostics.stress_server import BrokenServer, broken, honest
from diagnostics.stress_stage import Figure, Stage
from engine.client.api import LlamaServer
from engine.client.observer import Look, Observer
from engine.client.view import View
from engine.client.watcher import Interpreter
from engine.config.settings import Settings
from engine.errors import ServerError
from engine.events import ForgetRequested, PromptArrived, PromptFinished, Report, ServerBack, ServerLost, Tick
from engine.orchestration import fsm

ANSWERS = 10_000
SEED = 20_260_102
BROKEN = 0.6  # of the answers; the rest are honest, so that it gets past the first question
MOST = 10_000  # prompts in work that make sense; each one becomes an event


@dataclass
class Fuzzed:
    """What has been answered so far."""

    chance: random.Random
    broken: int = 0
    crashes: dict[str, str] = field(default_factory=dict)

    def answer(self, path: str) -> bytes:
        """Answer a request, as a rule wrongly."""
        if self.chance.random() >= BROKEN:
            return honest(path)
        self.broken += 1
        return broken(self.chance, path)

    def attempt(self, what: str, call: Callable[[], object]) -> object:
        """Call; our own errors are answers, all others defects."""
        try:
            return call()
        except ServerError:
            return None
        except Exception as error:  # noqa: BLE001 - what is looked for
            self.crashes.setdefault(f"{what}: {type(error).__name__}", str(error)[:120])
            return None


def fuzz(stage: Stage) -> dict[str, Figure]:
    """Give broken answers until there were enough: nothing may raise, and nothing senseless may reach the machine."""
    fuzzed, wanted = Fuzzed(random.Random(SEED)), stage.count(ANSWERS)
    with BrokenServer(fuzzed.answer) as server:
        looker, caller = _Looker(stage, server.url, fuzzed), LlamaServer(server.url, "a-key")
        try:
            while fuzzed.broken < wanted:
                stage.progress(0.5 * fuzzed.broken / wanted)
                looker.look()
                _call(stage, caller, fuzzed)
        finally:
            caller.close()
            looker.close()
    stage.faults += [f"{what}: {words}" for what, words in fuzzed.crashes.items()]
    return {"answers": fuzzed.broken, "looks": looker.looks, "losses": looker.losses, "crashes": len(fuzzed.crashes)}


class _Looker:
    """The watcher without its thread, and the machine behind it."""

    def __init__(self, stage: Stage, url: str, fuzzed: Fuzzed) -> None:
        self._stage, self._fuzzed = stage, fuzzed
        self._settings = Settings(server_url=url)
        self._observer = Observer(self._settings)
        self._view = View()
        self._interpreter = Interpreter(self._view)
        self._machine = fsm.start(self._settings, 0.0)
        self._outstanding = 0
        self._now = 0.0
        self.looks = self.losses = 0

    def close(self) -> None:
        """Close the connection."""
        self._observer.close()

    def look(self) -> None:
        """Take one look, as far as it goes."""
        self.looks += 1
        self._now += self._fuzzed.chance.choice((0.05, 0.1, 1.0, 31.0))
        seen = self._fuzzed.attempt("a look", self._look)
        if isinstance(seen, Look):
            if (seen.work or 0) > MOST:
                self._stage.faults.append(f"a look saw {seen.work:g} prompts, each of which would become an event")
            else:
                self._fuzzed.attempt("its meaning", lambda: self._interpret(seen))

    def _look(self) -> Look:
        chance = self._fuzzed.chance
        return self._observer.look(
            self._now, keen=chance.random() < 0.5, busy=self._view.busy, quiet=chance.random() < 0.1
        )

    def _interpret(self, seen: Look) -> None:
        self._view.facts = self._observer.facts
        for event in self._interpreter.take(self._now, seen):
            if isinstance(event, Report | ForgetRequested):
                continue
            self._machine, _ = fsm.step(self._machine, event, self._now, self._settings)
            match event:
                case PromptArrived():
                    self._outstanding += 1
                case PromptFinished():
                    self._outstanding -= 1
                case ServerLost():
                    self._outstanding = 0
                    self.losses += 1
                case ServerBack():
                    self._outstanding = event.busy
                case _:
                    pass
            self._stage.check(self._outstanding >= 0, "more replies than prompts were seen")
        self._machine, _ = fsm.step(self._machine, Tick(0.0), self._now, self._settings)
        self._observer.report(seen, busy=self._view.busy)


def _call(stage: Stage, server: LlamaServer, fuzzed: Fuzzed) -> None:
    """Make one of the calls that a look does not make."""
    calls: tuple[Callable[[], object], ...] = (
        lambda: server.save(0, "f", timeout=5.0),
        lambda: server.restore(0, "f", timeout=5.0),
        lambda: server.complete("x", 1, timeout=5.0),
        lambda: server.unstrand(10, 0, timeout=5.0),
        lambda: server.models(timeout=5.0),
        server.identify,
    )
    number = fuzzed.chance.randrange(len(calls))
    answer = fuzzed.attempt(f"call {number}", calls[number])
    stage.check(answer is None or "a-key" not in repr(answer), "the key came back in an answer")
