"""One look at the server: which questions to ask so that neither sleep nor speed is disturbed. Decides nothing."""

from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from engine.client.answers import Kind, Metrics, Props, Slot
from engine.client.api import LlamaServer
from engine.client.view import Facts, flag
from engine.config.settings import Settings
from engine.errors import ServerError, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable
from engine.processes import ProcessId, alive, command_line, listener, look

LATE = 1.0  # s; older servers answer only between batches: an answer later than this means busy
LOST_IDLE = 5.0  # s without any answer
LOST_BUSY = 60.0
PROPS_EVERY = 2.0  # s; only /props shows sleep, and it costs a request
LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Look:
    """What one look showed.

    `reached`: it answered. `loading`: it is not ready. `reason`: why it was not reached.
    `certain`: one such look is enough to call it lost.
    `work`: prompts in work or waiting, None where that cannot be seen. Counters are None where there are none.
    `late`: it answered its health but nothing else in time, which means busy.
    """

    reached: bool
    loading: bool = False
    certain: bool = False
    late: bool = False
    reason: str = ""
    sleeping: bool = False
    work: int | None = None
    deferred: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    predicted_tokens: int | None = None
    last_task: int | None = None
    start_mark: str | None = None


class Observer:
    """Asks one server. Belongs to one thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = LlamaServer(settings.server_url, settings.api_key)
        self._props_at = float("-inf")
        self._sleeping = False
        self.facts: Facts | None = None

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def abort(self) -> None:
        """Break off a look in flight, from another thread."""
        self._server.abort()

    def look(self, now: float, *, keen: bool, busy: bool) -> Look:
        """Ask once. `keen`: somebody is about to prompt, so /slots may keep the server awake."""
        try:
            if self.facts is None:
                self.facts = self._learn()
                self._props_at = float("-inf")
            return self._ask(now, self.facts, keen=keen)
        except ServerLoading as error:
            self.facts = None
            return Look(reached=True, loading=True, reason=error.message)
        except ServerTimeout as error:
            return self._late(busy=busy, reason=str(error))
        except ServerUnreachable as error:
            return self._unreachable(str(error))
        except ServerRefused as error:
            return self._refused(error)

    def _ask(self, now: float, facts: Facts, *, keen: bool) -> Look:
        if facts.kind is Kind.ROUTER:
            return self._ask_router(facts)
        if facts.kind is not Kind.LLAMA_SERVER or facts.needs_key:
            self._server.health(timeout=LOST_IDLE)
            return Look(reached=True)
        metrics = self._server.metrics(timeout=LATE) if facts.has_metrics else None
        if facts.can_sleep and (metrics is None or now - self._props_at >= PROPS_EVERY):
            self._sleeping = self._server.props(timeout=LATE).is_sleeping
            self._props_at = now
        if metrics is not None:
            return replace(_from_metrics(metrics), sleeping=self._sleeping)
        if self._sleeping or (facts.can_sleep and not keen) or not facts.has_slots:
            if not facts.can_sleep:
                self._server.health(timeout=LATE)
            return Look(reached=True, sleeping=self._sleeping)
        return _from_slots(self._server.slots(timeout=LATE))

    def _ask_router(self, facts: Facts) -> Look:
        """Look at the one model in use; any question about another would load it."""
        used = [model for model in self._server.models(timeout=LATE) if model.status in ("loaded", "sleeping")]
        if not used:
            self.facts = replace(facts, model=None)
            return Look(reached=True, sleeping=True)
        model = next((model for model in used if model.id == facts.model), used[0])
        if model.id != facts.model:
            self.facts = facts = self._of_model(facts, self._server.props(model.id, timeout=LATE), model.id)
        if model.status == "sleeping":
            return Look(reached=True, sleeping=True)
        if facts.has_metrics:
            return _from_metrics(self._server.metrics(model.id, timeout=LATE))
        return Look(reached=True)

    def _late(self, *, busy: bool, reason: str) -> Look:
        """Tell a server deep in a batch, whose health answers at once, from one that hangs."""
        try:
            self._server.health(timeout=LOST_BUSY if busy else LOST_IDLE)
        except ServerError:
            return Look(reached=False, certain=True, reason=reason)
        return Look(reached=True, late=True)

    def _unreachable(self, reason: str) -> Look:
        process = self.facts.process if self.facts else None
        if process is not None and not alive(process):
            self.facts = None
            return Look(reached=False, certain=True, reason="its process has ended")
        return Look(reached=False, reason=reason)

    def _refused(self, error: ServerRefused) -> Look:
        """Keep going with what may still be asked; what is missing was said when it was learned."""
        if self.facts is None:
            self.facts = Facts(Kind.OTHER)
        elif error.status == 401:
            self.facts = replace(self.facts, needs_key=True)
        elif error.status == 501:
            self.facts = replace(self.facts, has_metrics=False)
        return Look(reached=True, reason=str(error))

    def _learn(self) -> Facts:
        """Find out what answers there and how it may be watched."""
        identity = self._server.identify()
        process = self._process()
        line = command_line(process.pid) if process else None
        facts = Facts(identity.kind, process=process, command_line=line)
        if identity.kind not in (Kind.LLAMA_SERVER, Kind.ROUTER):
            return facts
        try:
            props = self._server.props()
        except ServerLoading:
            raise
        except ServerRefused as error:
            return replace(facts, needs_key=error.status == 401)
        return self._of_model(facts, props, None)

    def _of_model(self, facts: Facts, props: Props, model: str | None) -> Facts:
        save_path = self._settings.slot_save_path or flag(facts.command_line or (), "--slot-save-path")
        return replace(
            facts,
            model=model,
            model_path=props.model_path or props.model_alias,
            build=props.build_info,
            total_slots=props.total_slots,
            n_ctx=props.n_ctx,
            has_metrics=bool(props.endpoint_metrics),
            has_slots=bool(props.endpoint_slots),
            save_path=save_path or None,
        )

    def _process(self) -> ProcessId | None:
        url = urlsplit(self._settings.server_url)
        if url.hostname not in LOCAL:
            return None
        pid = listener(url.port or (443 if url.scheme == "https" else 80))
        seen = look(pid) if pid is not None else None
        return seen.process if seen else None


def _from_metrics(metrics: Metrics) -> Look:
    work = None if metrics.processing is None else metrics.processing + (metrics.deferred or 0)
    return Look(
        reached=True,
        work=work,
        deferred=metrics.deferred or 0,
        prompt_tokens=metrics.prompt_tokens,
        cached_tokens=metrics.prompt_tokens_cached,
        predicted_tokens=metrics.predicted_tokens,
        start_mark=metrics.start_mark,
    )


def _from_slots(slots: tuple[Slot, ...]) -> Look:
    last = max(slots, key=lambda slot: slot.id_task if slot.id_task is not None else -1, default=None)
    return Look(
        reached=True,
        work=sum(slot.is_processing for slot in slots),
        last_task=last.id_task if last else None,
        prompt_tokens=None,
        cached_tokens=last.n_prompt_tokens_cache if last and last.is_processing else None,
    )
