"""Watches the server on its own thread and posts what happens there: prompts, replies, loss, return, sleep.

Whatever client the user has, this is how a prompt's arrival is seen. It never wakes the server nor keeps it awake.
"""

import logging
import threading
from collections.abc import Callable

from engine.client.observer import LOST_BUSY, Look, Observer, reuse_between
from engine.client.view import Helper, Reuse, View
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
)

log = logging.getLogger(__name__)

REFUSALS = 2  # in a row before the server counts as lost
SECOND_LOOK = 0.1  # s after a first refusal
WAKE_GRACE = 3.0  # s; a wake that is not ours counts as a prompt until it shows nothing for this long
MOST_PROMPTS = 1000  # at once; a server that says more than this cannot be believed
STALE = 3.0  # s; a counter that moved since an older look moved at an unknown time: no prompt is made of it
STRANDED_LOOKS = 3  # in a row that show a prompt waiting beside idle slots
CLEAR_LOOKS = 2  # in a row that show nothing: the first may have been under way before the action ended
IDLE_HZ, ALERT_HZ = 1.0, 10.0
BRISK = 1.0  # s of work in which every look asks for it
CALM = 1.2  # s between such questions later: else llama-server would never notice that the user's client hung up


class Interpreter:
    """Turns looks into events. Pure: time comes with each look.

    `reuse`, `stranded`: what the last look showed beside its events. `waiting`: looks in a row that may have shown a
    stranded prompt.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._known = False  # the first successful look was taken
        self._lost = False
        self._refusals = 0
        self._outstanding = 0  # prompts told to the machine and not yet finished
        self._woken_at: float | None = None
        self._late_since: float | None = None
        self._before: Look | None = None  # the last look that saw its work
        self._before_at = 0.0
        self._rest: Look | None = None  # the last look at rest: the base that Reuse counts from
        self._own_requests = 0
        self.waiting = self._clear = 0
        self.reuse: Reuse | None = None
        self.stranded = False

    @property
    def doubtful(self) -> bool:
        """Tell whether the last look failed but the server does not count as lost yet."""
        return self._refusals > 0 and not self._lost

    def take(self, now: float, look: Look) -> list[Event]:
        """Return the events that this look stands for, in order."""
        self.reuse, self.stranded = None, False
        if self._hangs(now, look) or not look.reached or look.loading:
            return self._failed(look)
        self._refusals = 0
        if look.skipped and self._known and not self._lost:
            return []
        events = self._restarted(look) + self._slept_or_woke(now, look)
        work = self._work(look)
        if self._lost or not self._known:
            self._known, self._lost, self._outstanding = True, False, work
            events.append(ServerBack(busy=work))
        else:
            events += self._prompts(now, look, work)
        self._remember(now, look)
        self.stranded = self._strands(look)
        return events

    def _hangs(self, now: float, look: Look) -> bool:
        """Tell whether it has answered nothing but its health for too long even for a busy server."""
        if not look.late:
            self._late_since = self._late_since if look.skipped else None
            return False
        if self._late_since is None:
            self._late_since = now
        return now - self._late_since >= LOST_BUSY

    def _failed(self, look: Look) -> list[Event]:
        self._refusals += 1
        if not (look.loading or look.certain or look.late or self._refusals >= REFUSALS):
            return []
        view = self._view
        already, self._lost, self._known = self._lost, True, True
        self._before, self._rest, self._woken_at, self._outstanding = None, None, None, 0
        view.busy = view.sleeping = view.waking = view.in_doubt = False
        if already:
            return []
        view.loss = "the server was lost"
        view.starts += 1
        return [ServerLost("loading its model" if look.loading else look.reason)]

    def _restarted(self, look: Look) -> list[Event]:
        """Note a start that no look met, by its process, its start mark, or counters that fell; its prompts ended."""
        before = self._before
        if before is None or before.model != look.model:
            return []
        marks = ((before.process, look.process), (before.start_mark, look.start_mark))
        counts = ((before.prompt_tokens, look.prompt_tokens), (before.predicted_tokens, look.predicted_tokens))
        anew = any(None not in pair and pair[0] != pair[1] for pair in marks)
        if not anew and not any(old is not None and new is not None and new < old for old, new in counts):
            return []
        events: list[Event] = [PromptFinished()] * self._outstanding
        self._outstanding, self._before, self._rest = 0, None, None
        self._view.loss = "the server was started anew"
        self._view.starts += 1
        return events

    def _slept_or_woke(self, now: float, look: Look) -> list[Event]:
        before, self._view.sleeping = self._view.sleeping, look.sleeping
        if look.sleeping and not before:
            self._view.loss = "the server fell asleep"
            self._woken_at, self._view.waking = None, False
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
        return min(MOST_PROMPTS, max(0, look.work - min(look.deferred or 0, self._view.own_actions)))

    def _prompts(self, now: float, look: Look, work: int) -> list[Event]:
        moved = self._moved(now, look)
        if self._woken_at is not None:
            # Somebody woke it: a prompt is on its way, even if it does not show yet.
            if work == 0 and not moved and now - self._woken_at < WAKE_GRACE:
                work = max(1, self._outstanding)
            else:
                self._woken_at = None
        events: list[Event] = []
        if work > self._outstanding:
            events = [PromptArrived()] * (work - self._outstanding)
        elif work < self._outstanding:
            events = [PromptFinished()] * (self._outstanding - work)
        elif moved:
            events = [PromptArrived(), PromptFinished()]  # one came and one went between two looks
        self._outstanding = work
        if work == 0 and events and not look.sleeping:
            self.reuse = reuse_between(self._rest, look)
            self._view.turns += 1
            self._view.loss = None  # after a prompt the server holds its context itself
        return events

    def _moved(self, now: float, look: Look) -> bool:
        """Tell whether counters show that a prompt, other than our own, ended or began since a look just before."""
        before, ours = self._before, self._view.own_requests != self._own_requests
        if before is None or before.model != look.model or now - self._before_at > STALE or ours:
            return False
        pairs = ((before.predicted_tokens, look.predicted_tokens), (before.last_task, look.last_task))
        return any(new is not None and new != old for old, new in pairs)

    def _remember(self, now: float, look: Look) -> None:
        if look.work is not None and not look.sleeping:
            self._before, self._before_at = look, now
            if self._outstanding == 0:
                self._rest = look
        self._own_requests = self._view.own_requests
        self._view.busy = self._outstanding > 0

    def _strands(self, look: Look) -> bool:
        """Tell whether a prompt was forgotten behind an action of ours. Where waiting is not shown, suppose it."""
        if not self._view.in_doubt or look.work is None or self._view.own_actions:
            self.waiting = self._clear = 0
            return False
        self._clear = self._clear + 1 if look.work == 0 else 0
        if self._clear == CLEAR_LOOKS:
            self._view.in_doubt, self._clear = False, 0
            return look.deferred is None and not look.sleeping
        self.waiting = self.waiting + 1 if look.work and look.work == look.deferred else 0
        return self.waiting > 0 and self.waiting % STRANDED_LOOKS == 0


class Watcher:
    """The thread. `post` takes events."""

    def __init__(
        self, settings: Settings, view: View, clock: Clock, post: Callable[[Event], None], helper: Helper
    ) -> None:
        self._observer = Observer(settings)
        self._view = view
        self._clock = clock
        self._post = post
        self._helper = helper
        self._interpreter = Interpreter(view)
        self._hz = ALERT_HZ  # the first looks come soon
        self._wake = threading.Event()
        self._closing = False
        self._busy_since: float | None = None
        self._asked_at = 0.0
        self._report: ServerReport | None = None
        self._failures: set[type[Exception]] = set()
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
        """Stop looking; a look in flight is broken off."""
        self._closing = True
        self._wake.set()
        until = self._clock.now() + timeout
        while self._thread.is_alive() and self._clock.now() < until:
            self._observer.abort()  # again and again: one look may ask more than once
            self._thread.join(0.02)

    def _run(self) -> None:
        due = self._clock.now()
        while not self._closing:
            try:
                self._look()
            except Exception as error:
                # One defect in here must not end the watch: a lost server would go unseen.
                if type(error) not in self._failures:
                    self._failures.add(type(error))
                    log.exception("a look at the server failed")
            now = self._clock.now()
            due = max(due + self._pause(), now)
            if self._wake.wait(due - now):
                self._wake.clear()
                due = self._clock.now()
        self._observer.close()

    def _pause(self) -> float:
        if self._interpreter.doubtful:
            return SECOND_LOOK
        return 1.0 / max(self._hz, ALERT_HZ if self._view.in_doubt else IDLE_HZ)

    def _quiet(self, now: float) -> bool:
        """Tell whether to ask for its health alone, so that the server can look who hung up."""
        if not self._view.busy:
            self._busy_since = None
        elif self._busy_since is None:
            self._busy_since = now
        lasting = self._busy_since is not None and now - self._busy_since >= BRISK and not self._interpreter.waiting
        quiet = now < self._view.quiet_until or (lasting and now - self._asked_at < CALM)
        self._asked_at = self._asked_at if quiet else now
        return quiet

    def _look(self) -> None:
        view, now = self._view, self._clock.now()
        keen = self._hz > IDLE_HZ or view.in_doubt
        look = self._observer.look(now, keen=keen, busy=view.busy, quiet=self._quiet(now))
        if self._closing:
            return
        loss = view.loss
        view.facts = self._observer.facts
        events = self._interpreter.take(self._clock.now(), look)
        view.reachable = look.reached and not look.loading
        for event in events:
            self._post(event)
        self._tell_helper(look, changed=bool(events) or view.loss != loss)
        report = self._observer.report(look, busy=view.busy)
        if report != self._report:
            self._report = report
            self._post(report)

    def _tell_helper(self, look: Look, *, changed: bool) -> None:
        if self._view.own_actions and (look.work or 0) > (look.deferred or 0):
            self._helper.take_back()
        if self._interpreter.stranded:
            self._helper.free()
        if changed:
            self._helper.noticed(self._interpreter.reuse)
