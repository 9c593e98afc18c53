"""The real watcher, prefetcher, restorer and keeper on the model of a server, without threads and real time."""

import random
from collections.abc import Callable
from pathlib import Path

from diagnostics.stress_model import Agenda, ModelServer, Task
from engine.client import answers
from engine.client.answers import Completion, Health, Identity, Kind, Metrics, Props, Restored, Saved, Slot
from engine.client.api import LlamaServer
from engine.client.contexts import Contexts
from engine.client.index import SavedContext
from engine.client.observer import Observer
from engine.client.prefetcher import Prefetcher
from engine.client.view import View
from engine.client.watcher import Watcher
from engine.config.settings import Settings
from engine.errors import ServerError, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable
from engine.events import Event

_LATENCY = 0.003  # s that a question of the prefetcher is under way, at most
_AWAY = "connection refused"


class AgendaClock:
    """The time of an agenda."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._agenda.now

    def slept(self) -> float:
        """Return 0: an agenda knows no suspend."""
        return 0.0

    def wall(self) -> float:
        """Return Unix seconds."""
        return 1_800_000_000.0 + self._agenda.now


class ModelClient(LlamaServer):
    """Our client, answered by the model. `chance`: its calls take time, in which other things happen; None: at once.

    `strike` is called when a slot action has been decided on and is about to be sent: the worst moment.
    """

    def __init__(
        self,
        model: ModelServer,
        url: str,
        chance: random.Random | None,
        strike: Callable[[], None],
        *,
        has_metrics: bool,
    ) -> None:
        super().__init__(url)
        self._model, self._chance, self._strike, self._has_metrics = model, chance, strike, has_metrics
        self.in_flight = False
        self._cut = False

    def abort(self) -> None:
        """Hang up on the call in flight."""
        self._cut = self.in_flight

    def health(self, timeout: float = 5.0) -> Health:
        """Answer, even from within a batch."""
        try:
            self._reach(timeout, aside=True)
        except ServerLoading:
            return Health.LOADING
        return Health.OK

    def identify(self) -> Identity:
        """Answer as llama-server."""
        self._reach(2.0)
        return answers.identity(Kind.LLAMA_SERVER)

    def props(self, model: str | None = None, timeout: float = 5.0) -> Props:
        """Answer without waking."""
        del model
        self._reach(timeout, aside=True)
        return Props(
            total_slots=self._model.count,
            n_ctx=self._model.n_ctx,
            model_path="m.gguf",
            build_info="model",
            is_sleeping=self._model.asleep,
            endpoint_slots=True,
            endpoint_metrics=self._has_metrics,
        )

    def slots(self, model: str | None = None, timeout: float = 5.0) -> tuple[Slot, ...]:
        """Answer, and wake."""
        del model
        self._reach(timeout)
        self._model.wake()
        self._model.looked()
        return tuple(
            Slot(
                id=number,
                is_processing=slot.busy is not None,
                n_ctx=self._model.n_ctx,
                id_task=slot.used,
                n_prompt_tokens=None if slot.used is None else slot.tokens,
            )
            for number, slot in enumerate(self._model.slots)
        )

    def metrics(self, model: str | None = None, timeout: float = 5.0) -> Metrics:
        """Answer without waking."""
        del model
        self._reach(timeout)
        if not self._has_metrics:
            raise ServerRefused(501, "no metrics")
        self._model.looked()
        return Metrics(
            processing=self._model.processing,
            deferred=len(self._model.queue),
            prompt_tokens=self._model.computed,
            prompt_tokens_cached=self._model.cached,
            predicted_tokens=self._model.predicted,
            start_mark=str(self._model.life),
        )

    def save(self, slot: int, filename: str, model: str | None = None, *, timeout: float) -> Saved:
        """Let the model save."""
        del model
        task = self._do(Task("save", slot, filename=filename), timeout)
        return Saved(n_saved=task.tokens, n_written=task.size)

    def restore(self, slot: int, filename: str, model: str | None = None, *, timeout: float) -> Restored:
        """Let the model restore."""
        del model
        task = self._do(Task("restore", slot, filename=filename), timeout)
        return Restored(n_restored=task.tokens, n_read=task.size)

    def complete(
        self,
        prompt: str | list[int],
        n_predict: int,
        slot: int | None = None,
        model: str | None = None,
        *,
        timeout: float,
    ) -> Completion:
        """Take a prompt that is too long for the slot: no other is ever sent by the program."""
        del n_predict, model
        if len(prompt) <= self._model.n_ctx:
            self._model.wrongs.append("a prompt of our own went to the user's slot")
        self._do(Task("unstrand", slot), timeout)
        return Completion()

    def _reach(self, timeout: float, *, aside: bool = False) -> None:
        """Bring a question to the server; one that is asked `aside` needs no turn of its loop."""
        agenda, model = self._model.agenda, self._model
        if self._chance is not None:
            self._pass(self._chance.uniform(0.0, _LATENCY))
        if not model.alive:
            raise ServerUnreachable(_AWAY)
        if model.loading:
            raise ServerLoading(503, "Loading model")
        if not aside and (blocked := model.blocked_until - agenda.now) > 0:
            if blocked > timeout:
                raise ServerTimeout("it computes")
            if self._chance is not None:
                self._pass(blocked)

    def _pass(self, seconds: float) -> None:
        until = self._model.agenda.now + seconds
        while self._model.agenda.step(until):
            pass

    def _do(self, task: Task, timeout: float) -> Task:
        """Send what needs a slot, and wait as our client does."""
        agenda, self.in_flight, self._cut = self._model.agenda, True, False
        self._strike()
        try:
            self._reach(timeout)
            until = agenda.now + timeout
            self._model.submit(task)
            while not task.over and not self._cut and agenda.step(until):
                pass
            if task.broken:
                raise ServerUnreachable("the connection broke off")
            if not task.over:
                self._model.hang_up(task)
                raise ServerUnreachable("broken off by us") if self._cut else ServerTimeout("no answer")
            if task.status != 200:
                raise ServerRefused(task.status or 0, "Unable to restore slot")
            return task
        finally:
            self.in_flight = False


class MemoryContexts(Contexts):
    """The list of contexts, kept in memory: what the disk costs is not the question here."""

    def _write(self) -> None:
        pass

    def restoring(self, saved: SavedContext) -> None:
        """Note nothing."""

    def survived(self) -> None:
        """There was nothing noted."""

    def proven(self, saved: SavedContext) -> None:
        """There was nothing noted."""


class _ModelObserver(Observer):
    def __init__(self, settings: Settings, server: LlamaServer) -> None:
        super().__init__(settings)
        self._server = server


class SteppedWatcher(Watcher):
    """The watcher, one look at a time."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        post: Callable[[Event], None],
        prefetcher: Prefetcher,
        *,
        clock: AgendaClock,
        server: LlamaServer,
    ) -> None:
        super().__init__(settings, view, clock, post, prefetcher)
        self._observer = _ModelObserver(settings, server)

    def attend(self, hz: float) -> None:
        """Look so often from the next look on."""
        self._hz = hz

    def step(self) -> float:
        """Look once; return the seconds until the next look."""
        self._look()
        return self._pause()


class SteppedPrefetcher(Prefetcher):
    """The prefetcher, one job at a time. `crashes` holds what its thread would have logged."""

    def __init__(self, settings: Settings, view: View, index: Path, clock: AgendaClock, server: LlamaServer) -> None:
        super().__init__(settings, view, MemoryContexts(index), clock, lambda _: None)
        self._bench.server = server
        self.crashes: list[str] = []

    @property
    def due(self) -> float:
        """When the next job is due."""
        if self._noticed or self._stranded:
            return self._clock.now()
        return min(at for at in (self._prepare_at, self._keep_at, self._expire_at) if at is not None)

    def step(self) -> None:
        """Do the job that is due."""
        job = self._next()
        if job is not None:
            self._do(job)

    def _do(self, job: Callable[[], None]) -> None:
        try:
            job()
        except ServerError:
            return  # it would be logged once
        except Exception as error:  # noqa: BLE001 - what is looked for
            self.crashes.append(f"{type(error).__name__}: {error}")
