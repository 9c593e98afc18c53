"""One look at the server: which questions to ask so that neither sleep nor speed is disturbed. Decides nothing."""

from dataclasses import dataclass, replace

from engine.client.answers import Health, Kind, Metrics, Model, Slot
from engine.client.api import LlamaServer
from engine.client.describe import described, listening, placed
from engine.client.view import Facts, Reuse, flag
from engine.config.settings import Settings
from engine.errors import ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable
from engine.events import ServerReport, ServerState
from engine.processes import ProcessId, alive, command_line

LATE = 1.0  # s; older servers answer only between batches: an answer later than this means busy
LOST_IDLE = 5.0  # s without any answer
LOST_BUSY = 60.0
PROPS_EVERY = 2.0  # s; only /props shows that it fell asleep, and it costs a request
LEARN_EVERY = 30.0  # s after which something that is not llama-server is asked again who it is


@dataclass(frozen=True, slots=True)
class Look:
    """What one look showed.

    `reached`: it answered. `loading`: it is not ready. `reason`: why it was not reached, or what it refused.
    `certain`: one such look is enough to call it lost.
    `skipped`: its work was not asked for this time, so what was known stays.
    `late`: it answered its health but nothing else in time, which means busy.
    `work`: prompts in work or waiting, None where that cannot be seen; `deferred`: those that wait, None: not shown.
    Counters are of `model` (None: there is but one) since its start; None where there are none.
    """

    reached: bool
    loading: bool = False
    certain: bool = False
    skipped: bool = False
    late: bool = False
    reason: str = ""
    sleeping: bool = False
    work: int | None = None
    deferred: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_seconds: float | None = None
    predicted_tokens: int | None = None
    last_task: int | None = None
    model: str | None = None
    start_mark: str | None = None
    process: ProcessId | None = None


def reuse_between(rest: Look | None, look: Look) -> Reuse | None:
    """Return what prompts took from the cache between two looks; None where no counters show it."""
    if rest is None or rest.model != look.model:
        return None
    if None in (look.cached_tokens, look.prompt_tokens, rest.cached_tokens, rest.prompt_tokens):
        return None
    cached = (look.cached_tokens or 0) - (rest.cached_tokens or 0)
    computed = (look.prompt_tokens or 0) - (rest.prompt_tokens or 0)
    told = look.prompt_seconds is not None and rest.prompt_seconds is not None
    return Reuse(cached, computed, (look.prompt_seconds or 0.0) - (rest.prompt_seconds or 0.0) if told else None)


class Observer:
    """Asks one server. Belongs to one thread, but for abort()."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = LlamaServer(settings.server_url, settings.api_key)
        self._process: ProcessId | None = None
        self._start_mark: str | None = None
        self._learned_at = self._props_at = float("-inf")
        self._sleeping = False
        self._models: dict[str, Facts] = {}  # those in use behind a router
        self.facts: Facts | None = None

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def abort(self) -> None:
        """Break off a look in flight, from another thread."""
        self._server.abort()

    def look(self, now: float, *, keen: bool, busy: bool, quiet: bool = False) -> Look:
        """Ask once.

        `keen`: somebody is about to prompt, so /slots may keep the server awake. `busy`: it had work a moment ago, so
        it may take its time. `quiet`: ask only what lets it notice that we hung up.
        """
        try:
            facts = self._known(now)
            seen = self._ask(now, facts, keen=keen, quiet=quiet)
        except ServerLoading as error:
            return self._loading(error.message)
        except ServerTimeout as error:
            return self._late(busy=busy, reason=str(error))
        except ServerUnreachable as error:
            return self._unreachable(str(error))
        except ServerRefused as error:
            return self._refused(error)
        return replace(seen, process=self._process)

    def report(self, look: Look, *, busy: bool) -> ServerReport:
        """Return what this last look means for people."""
        pid = self.facts.process.pid if self.facts and self.facts.process else None
        if look.loading:
            return ServerReport(ServerState.LOADING, "loading its model", pid)
        if not look.reached:
            return ServerReport(ServerState.DOWN, look.reason, pid)
        detail = (self.facts.shortcoming if self.facts else "") or look.reason
        if look.sleeping:
            return ServerReport(ServerState.ASLEEP, detail, pid)
        return ServerReport(ServerState.BUSY if busy else ServerState.UP, detail, pid)

    def _known(self, now: float) -> Facts:
        """Return what the server is, learned anew with each process and each start."""
        if self._process is not None and not alive(self._process):
            self.facts = None
        elif self.facts and not self.facts.is_llama and now - self._learned_at >= LEARN_EVERY:
            self.facts = None  # something else had its port, or a proxy stood in for it
        if self.facts is None:
            self.facts = self._learn()
            self._process = self.facts.process
            self._start_mark, self._sleeping, self._models = None, False, {}
            self._learned_at, self._props_at = now, float("-inf")
        return self.facts

    def _ask(self, now: float, facts: Facts, *, keen: bool, quiet: bool) -> Look:
        if quiet or not facts.is_llama:
            return self._health_only(skipped=quiet)
        if facts.kind is Kind.ROUTER:
            return self._ask_router(facts, keen=keen)
        if facts.can_sleep and self._asleep(now, facts):
            return Look(reached=True, sleeping=True, work=0)
        seen = self._work(facts, keen=keen)
        self._note_start(now, seen.start_mark)
        if seen.work:
            self._props_at = now  # what works is not about to sleep
        return seen

    def _health_only(self, *, skipped: bool) -> Look:
        if self._server.health(timeout=LOST_IDLE) is Health.LOADING:
            return self._loading("its model is being loaded")
        return Look(reached=True, skipped=skipped, sleeping=self._sleeping)

    def _asleep(self, now: float, facts: Facts) -> bool:
        """Tell whether it sleeps; where its work shows in other ways, that it is awake is believed for a while."""
        if self._sleeping or not facts.has_metrics or now - self._props_at >= PROPS_EVERY:
            self._sleeping = self._server.props(timeout=LATE).is_sleeping
            self._props_at = now
        return self._sleeping

    def _work(self, facts: Facts, *, keen: bool) -> Look:
        """Look at a server that is awake."""
        if facts.has_metrics:
            return _from_metrics(self._server.metrics(facts.model, timeout=LATE))
        if facts.has_slots and (keen or not facts.can_sleep):
            return _from_slots(self._server.slots(facts.model, timeout=LATE))
        return Look(reached=True) if facts.can_sleep else self._health_only(skipped=False)

    def _note_start(self, now: float, mark: str | None) -> None:
        """Learn anew what the server is if it was started anew: it may be another build with other flags."""
        if mark is not None and self._start_mark not in (None, mark):
            self.facts = None
            self._known(now)
        self._start_mark = mark

    def _ask_router(self, facts: Facts, *, keen: bool) -> Look:
        """Look at the models in use; any question about another one would load it."""
        used = [model for model in self._server.models(timeout=LATE) if model.status in ("loaded", "sleeping")]
        names = [model.id for model in used]
        self._models = {model.id: self._models.get(model.id) or self._of_model(facts, model) for model in used}
        if not used:
            self.facts = replace(facts, model=None)
            return Look(reached=True, sleeping=True, work=0)
        looks = {model.id: self._look_at(model, keen=keen) for model in used}
        chosen = next((name for name in names if looks[name].work), None)
        chosen = chosen or (facts.model if facts.model in names else None) or names[0]
        self.facts = self._models[chosen]
        counted = [seen.work for seen in looks.values() if seen.work is not None]
        return replace(looks[chosen], work=sum(counted) if counted else None)

    def _look_at(self, model: Model, *, keen: bool) -> Look:
        if model.status == "sleeping":
            return Look(reached=True, sleeping=True, work=0, model=model.id)
        return replace(self._work(self._models[model.id], keen=keen), model=model.id)

    def _loading(self, reason: str) -> Look:
        self.facts = None
        return Look(reached=True, loading=True, reason=reason)

    def _late(self, *, busy: bool, reason: str) -> Look:
        """Tell a server deep in a batch, whose health answers at once, from one that hangs."""
        try:
            health = self._server.health(timeout=(LOST_BUSY if busy else LOST_IDLE) - LATE)
        except ServerTimeout:
            return Look(reached=False, certain=True, reason=reason)
        except ServerUnreachable as error:
            return self._unreachable(str(error))
        except ServerRefused as error:
            return Look(reached=True, reason=str(error))  # no llama-server
        if health is Health.LOADING:
            return self._loading("its model is being loaded")
        return Look(reached=True, late=True, reason=reason, process=self._process)

    def _unreachable(self, reason: str) -> Look:
        """Forget what it was: whoever answers next may be another one."""
        self.facts = None
        process, self._process = self._process, None
        if process is not None and not alive(process):
            return Look(reached=False, certain=True, reason="its process has ended")
        self._process = process
        return Look(reached=False, reason=reason)

    def _refused(self, error: ServerRefused) -> Look:
        """Keep going with what may still be asked; what is missing is said."""
        if self.facts is None:
            self.facts = Facts(Kind.OTHER)
        elif error.status == 401:
            self.facts = replace(self.facts, needs_key=True)
        elif error.status == 501 and self.facts.has_metrics:
            self.facts = replace(self.facts, has_metrics=False)
        elif error.status == 501:
            self.facts = replace(self.facts, has_slots=False)
        return Look(reached=True, reason=str(error), sleeping=self._sleeping, process=self._process)

    def _learn(self) -> Facts:
        """Find out what answers there and how it may be watched."""
        facts = Facts(self._server.identify().kind)
        if not facts.is_llama:
            return facts
        try:
            props = self._server.props()
        except ServerLoading:
            raise
        except ServerRefused as error:
            return replace(facts, needs_key=error.status == 401, process=listening(self._settings.server_url))
        process = listening(self._settings.server_url)
        line = command_line(process.pid) if process else None
        save_path = self._settings.slot_save_path or flag(line or (), "--slot-save-path") or None
        facts = replace(facts, process=process, command_line=line, save_path=save_path)
        return placed(facts if facts.kind is Kind.ROUTER else described(facts, props), self._settings.server_url)

    def _of_model(self, facts: Facts, model: Model) -> Facts:
        known = described(facts, self._server.props(model.id, timeout=LATE))
        return placed(replace(known, model=model.id, arguments=model.args), self._settings.server_url)


def _from_metrics(metrics: Metrics) -> Look:
    deferred = metrics.deferred or 0
    return Look(
        reached=True,
        work=None if metrics.processing is None else metrics.processing + deferred,
        deferred=deferred,
        prompt_tokens=metrics.prompt_tokens,
        cached_tokens=metrics.prompt_tokens_cached,
        prompt_seconds=metrics.prompt_seconds,
        predicted_tokens=metrics.predicted_tokens,
        start_mark=metrics.start_mark,
    )


def _from_slots(slots: tuple[Slot, ...]) -> Look:
    tasks = [slot.id_task for slot in slots if slot.id_task is not None]
    return Look(reached=True, work=sum(slot.is_processing for slot in slots), last_task=max(tasks, default=None))
