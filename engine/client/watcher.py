"""Watches the server on its own thread and posts what happens there: prompts, replies, loss, return, sleep.

Whatever client the user has, this is how a prompt's arrival is seen. It never wakes the server nor keeps it awake.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from engine.client.answers import SENTENCES, Kind
from engine.client.observer import Look, Observer
from engine.client.view import Facts, View
from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import (
    Event,
    PromptArrived,
    PromptFinished,
    ServerBack,
    ServerLost,
    ServerReport,
    ServerSlept,
    ServerState,
)

log = logging.getLogger(__name__)

REFUSALS = 2  # in a row before the server counts as lost
SECOND_LOOK = 0.1  # s after a first refusal
WAKE_GRACE = 3.0  # s; a wake that is not ours counts as a prompt until it shows nothing for this long
STALE = 3.0  # s; a counter that moved since an older look moved at an unknown time: no prompt is made of it
IDLE_HZ, ALERT_HZ, WORKING_HZ = 1.0, 10.0, 20.0


@dataclass(frozen=True, slots=True)
class Reuse:
    """What the prompts since the last rest took from the server's cache, in tokens."""

    cached: int
    computed: int


class Interpreter:
    """Turns looks into events. Pure: time comes with each look."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._known = False  # the first successful look was taken
        self._lost = False
        self._refusals = 0
        self._outstanding = 0  # prompts told to the machine and not yet finished
        self._woken_at: float | None = None
        self._before: Look | None = None  # the last look that saw its work
        self._before_at = 0.0
        self._rest: Look | None = None  # the last look at rest: the base that Reuse counts from
        self._own_requests = 0
        self.reuse: Reuse | None = None

    @property
    def doubtful(self) -> bool:
        """Tell whether the last look failed but the server does not count as lost yet."""
        return self._refusals > 0 and not self._lost

    def take(self, now: float, look: Look) -> list[Event]:
        """Return the events that this look stands for, in order."""
        self.reuse = None
        if not look.reached or look.loading:
            return self._failed(look)
        self._refusals = 0
        if self._restarted(look):
            self._view.loss = "the server was started anew"
        events = self._slept_or_woke(now, look)
        work = self._work(look)
        if self._lost or not self._known:
            self._known, self._lost, self._outstanding = True, False, work
            events.append(ServerBack(busy=work))
        else:
            events += self._prompts(now, look, work)
        self._remember(now, look)
        return events

    def _failed(self, look: Look) -> list[Event]:
        self._refusals += 1
        if not (look.loading or look.certain or self._refusals >= REFUSALS):
            return []
        already, self._lost, self._known = self._lost, True, True
        self._outstanding, self._before, self._rest, self._woken_at = 0, None, None, None
        self._view.sleeping = False
        self._view.loss = "the server was lost"
        return [] if already else [ServerLost("loading its model" if look.loading else look.reason)]

    def _restarted(self, look: Look) -> bool:
        before = self._before
        if before is None:
            return False
        if before.start_mark is not None and look.start_mark is not None:
            return before.start_mark != look.start_mark
        pairs = ((before.prompt_tokens, look.prompt_tokens), (before.predicted_tokens, look.predicted_tokens))
        return any(old is not None and new is not None and new < old for old, new in pairs)

    def _slept_or_woke(self, now: float, look: Look) -> list[Event]:
        before, self._view.sleeping = self._view.sleeping, look.sleeping
        if look.sleeping and not before:
            self._view.loss = "the server fell asleep"
            self._woken_at = None
            return [ServerSlept()] if self._known and not self._lost else []
        if before and not look.sleeping:
            if not self._view.waking:
                self._woken_at = now
            self._view.waking = False
        return []

    def _work(self, look: Look) -> int:
        """Return how many prompts that are not ours are in work or waiting."""
        if look.late:
            return max(1, self._outstanding)
        if look.work is None:
            return 0
        ours = min(look.deferred, self._view.own_actions)
        return max(0, look.work - ours)

    def _prompts(self, now: float, look: Look, work: int) -> list[Event]:
        if self._woken_at is not None:
            # Somebody woke it: a prompt is on its way, even if it does not show yet.
            if work == 0 and not self._moved(now, look) and now - self._woken_at < WAKE_GRACE:
                work = max(1, self._outstanding)
            else:
                self._woken_at = None
        events: list[Event] = []
        if work > self._outstanding:
            events = [PromptArrived()] * (work - self._outstanding)
        elif work < self._outstanding:
            events = [PromptFinished()] * (self._outstanding - work)
        elif work == 0 and self._moved(now, look):
            events = [PromptArrived(), PromptFinished()]  # came and went between two looks
        self._outstanding = work
        if work == 0 and events:
            self.reuse = self._reused(look)
            self._view.loss = None  # after a prompt the server holds its context itself
        return events

    def _moved(self, now: float, look: Look) -> bool:
        """Tell whether counters show a prompt, other than our own, since a look just before."""
        before = self._before
        if before is None or now - self._before_at > STALE or self._view.own_requests != self._own_requests:
            return False
        pairs = ((before.predicted_tokens, look.predicted_tokens), (before.last_task, look.last_task))
        return any(new is not None and new != old for old, new in pairs)

    def _reused(self, look: Look) -> Reuse | None:
        base = self._rest
        if base is None or None in (look.cached_tokens, look.prompt_tokens, base.cached_tokens, base.prompt_tokens):
            return None
        cached = (look.cached_tokens or 0) - (base.cached_tokens or 0)
        return Reuse(cached, (look.prompt_tokens or 0) - (base.prompt_tokens or 0))

    def _remember(self, now: float, look: Look) -> None:
        if look.work is not None:
            self._before, self._before_at = look, now
            if self._outstanding == 0:
                self._rest = look
        self._own_requests = self._view.own_requests
        self._view.busy = self._outstanding > 0


class Watcher:
    """The thread. `post` takes events; `noticed` is told after each look that changed something of the context."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        clock: Clock,
        post: Callable[[Event], None],
        noticed: Callable[[Reuse | None], None],
    ) -> None:
        self._observer = Observer(settings)
        self._view = view
        self._clock = clock
        self._post = post
        self._noticed = noticed
        self._interpreter = Interpreter(view)
        self._hz = ALERT_HZ  # the first looks come soon
        self._wake = threading.Event()
        self._closing = False
        self._report: ServerReport | None = None
        self._thread = threading.Thread(target=self._run, name="server-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def attend(self, hz: float) -> None:
        """Set how often to look; looking more often begins at once."""
        faster, self._hz = hz > self._hz, hz
        if faster:
            self._wake.set()

    def close(self, timeout: float) -> None:
        """Stop looking."""
        self._closing = True
        self._wake.set()
        self._observer.abort()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        due = self._clock.now()
        while not self._closing:
            try:
                self._look()
            except Exception:
                # One defect in here must not end the watch: a lost server would go unseen.
                log.exception("a look at the server failed")
            now = self._clock.now()
            due = max(due + (SECOND_LOOK if self._interpreter.doubtful else 1.0 / self._hz), now)
            if self._wake.wait(due - now):
                self._wake.clear()
                due = self._clock.now()
        self._observer.close()

    def _look(self) -> None:
        keen = self._hz > IDLE_HZ
        look = self._observer.look(self._clock.now(), keen=keen, busy=self._view.busy)
        if self._closing:
            return
        loss = self._view.loss
        self._view.facts = self._observer.facts
        events = self._interpreter.take(self._clock.now(), look)
        self._view.reachable = look.reached and not look.loading
        for event in events:
            self._post(event)
        if self._interpreter.reuse is not None or events or self._view.loss != loss:
            self._noticed(self._interpreter.reuse)
        report = _report(look, self._observer.facts, busy=self._view.busy)
        if report != self._report:
            self._report = report
            self._post(report)


def _report(look: Look, facts: Facts | None, *, busy: bool) -> ServerReport:
    pid = facts.process.pid if facts and facts.process else None
    if look.loading:
        return ServerReport(ServerState.LOADING, "loading its model", pid)
    if not look.reached:
        return ServerReport(ServerState.DOWN, look.reason, pid)
    if look.sleeping:
        return ServerReport(ServerState.ASLEEP, _detail(facts), pid)
    return ServerReport(ServerState.BUSY if busy else ServerState.UP, _detail(facts), pid)


def _detail(facts: Facts | None) -> str:
    """Say what cannot be observed, and what would change it."""
    if facts is None:
        return ""
    if facts.needs_key:
        return "it wants an API key: set API_KEY; until then prompts are not seen"
    if facts.kind not in (Kind.LLAMA_SERVER, Kind.ROUTER):
        return SENTENCES[facts.kind]
    if facts.has_metrics:
        return ""
    if facts.has_slots:
        return "start it with --metrics: without it prompts are seen only while you type"
    return "start it with --metrics: prompts are not seen, and nothing is tuned"
