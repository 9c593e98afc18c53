"""The engine: draws the line from sensors over fusion and machine to actuators, ten times a second.

One tick: take what lies in the inbox, read the sensors, fuse, step the machine, apply its effects, publish one
Snapshot. Nothing in a tick blocks; slow work runs on threads of its own and comes back through the inbox.
"""

import logging
import queue
import threading
from collections.abc import Callable
from typing import assert_never

from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import (
    CancelPreparation,
    Closing,
    Effect,
    Event,
    FlagUnifiedMemory,
    KeepContext,
    MachineEvent,
    Moved,
    Paused,
    PrepareContext,
    PromptArrived,
    PromptFinished,
    Report,
    ResetProbability,
    Resumed,
    ServerLost,
    SetShare,
    SettingsChanged,
    Snapshot,
    State,
    Tick,
    Tuned,
)
from engine.orchestration import fsm, uvm
from engine.parts import Link, Parts
from engine.reports import Reports
from engine.senses import Senses
from engine.telemetry.processor import LATE, Fused, Fusion

log = logging.getLogger(__name__)

ATTENTIVE = 60.0  # s after evidence during which the server is watched closely
FRESH = 2.0  # s; evidence this young keeps the list of background processes fresh
IDLE_HZ, ALERT_HZ, WORKING_HZ = 1.0, 10.0, 20.0  # looks at the server a second
CLOSE_TIMEOUT = 10.0  # s to give the card back at the end

Listener = Callable[[Snapshot], None]


class Engine:
    """The headless engine. `post`, `stop` and `subscribe` may be called from any thread, the rest from one."""

    def __init__(self, settings: Settings, parts: Parts, clock: Clock) -> None:
        self._settings = settings
        self._parts = parts
        self._clock = clock
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._listeners: list[Listener] = []
        self._machine = fsm.start(settings, clock.now())
        self._fusion = Fusion(settings)
        self._senses = Senses(settings, parts)
        self._link_number = 0
        self._share = parts.share(settings, self.post)
        self._link = self._new_link(settings)
        self._reports = Reports()
        self._unified_memory = "unknown"
        self._fused = Fused(0.0, None, None, None, sensing=False)
        self._moves: list[Moved] = []
        self._last_tick: float | None = None
        self._late_ticks = 0
        self._hz = ALERT_HZ
        self._closed = False

    # ---- from any thread ---------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Put an event into the inbox; it is applied with the next tick."""
        self._inbox.put(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Let `listener` see each snapshot, on the engine's thread; return how to end that."""
        self._listeners.append(listener)
        return lambda: self._unsubscribe(listener)

    def _unsubscribe(self, listener: Listener) -> None:
        if listener in self._listeners:  # one that failed was dropped already
            self._listeners.remove(listener)

    def stop(self) -> None:
        """Let run() end; the card is given back on the way out."""
        self._stopped.set()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all parts."""
        self._share.start()
        self._link.start()
        self._senses.open(self._settings)

    def run(self) -> None:
        """Tick at TELEMETRY_HZ until stop(); whatever happens, the card is given back at the end."""
        try:
            self.start()
            due = self._clock.now()
            while not self._stopped.is_set():
                self.tick(self._clock.now())
                period = 1.0 / self._settings.telemetry_hz
                due = max(due + period, self._clock.now() - period)  # catch up with one missed tick, not with a night
                self._stopped.wait(max(0.0, due - self._clock.now()))
        finally:
            self.close()

    def tick(self, now: float) -> Snapshot:
        """Take one step at `now` (monotonic seconds) and return what everybody sees of it."""
        self._moves = []
        self._count_late(now)
        self._take_inbox(now)
        if self._machine.paused_until is not None and now >= self._machine.paused_until:
            self._step(Resumed(), now)
        self._fused = self._fusion.step(now, self._senses.read())
        known = Tick(self._fused.probability, self._fused.evidence_at, self._fused.sensing)
        self._step(known, now)
        self._attend(now)
        self._share.beat()
        return self._publish(now)

    def close(self) -> None:
        """Give the card back first, then stop everything; once."""
        if self._closed:
            return
        self._closed = True
        now = self._clock.now()
        self._moves = []
        try:
            self._step(Closing(), now)
        finally:
            if not self._share.close(CLOSE_TIMEOUT):
                log.error("the background job could not be given back within %g s", CLOSE_TIMEOUT)
            self._senses.close(wait=True)
            self._link.close(CLOSE_TIMEOUT)
        self._take_inbox(now, machine=False)
        self._publish(now)

    def _take_inbox(self, now: float, *, machine: bool = True) -> None:
        while True:
            try:
                event = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, Report):
                self._reports.take(event)
            elif machine:
                self._step(event, now)

    def _step(self, event: MachineEvent, now: float) -> None:
        self._machine, effects = fsm.step(self._machine, event, now, self._settings)
        for effect in effects:
            self._apply(effect)
        match event:
            case SettingsChanged():
                self._reconfigure(event.settings, now)
            case Paused():
                self._senses.close(wait=False)
                self._fusion.clear()
            case Resumed():
                self._senses.open(self._settings)
            case PromptArrived():
                self._fusion.prompted(now)
            case PromptFinished():
                self._fusion.replied(now)
            case _:
                pass

    def _apply(self, effect: Effect) -> None:
        match effect:
            case SetShare():
                self._share.request(effect.percent, linger=effect.linger)
            case FlagUnifiedMemory():
                self._unified_memory = uvm.state(self._reports.server.pid)
            case PrepareContext():
                self._link.prepare()
            case CancelPreparation():
                self._link.cancel()
            case KeepContext():
                self._link.keep()
            case ResetProbability():
                self._fusion.probability = 0.0
            case Moved():
                self._moves.append(effect)
                log.info("%s → %s (%s)", effect.source.value, effect.target.value, effect.why.value)
            case Tuned():
                log.info("threshold %.2f → %.2f (%s)", effect.before, effect.after, effect.because)
            case _:
                assert_never(effect)

    def _reconfigure(self, new: Settings, now: float) -> None:
        """Take over new settings; what cannot change in flight is given back first, then opened anew."""
        old, self._settings = self._settings, new
        self._fusion.configure(new)
        self._link.reconfigure(new)
        changed = new.reopened_since(old)
        if "Background job" in changed:
            self._share.reopen(new)
        if "Server" in changed:
            self._step(ServerLost("another server was set"), now)
            # Closing waits for calls in flight, and the loop waits for nothing.
            threading.Thread(target=self._link.close, args=(CLOSE_TIMEOUT,), daemon=True).start()
            self._link = self._new_link(new)
            self._link.start()
            self._link.attend(self._hz)
        if "Sensors" in changed and not self._machine.paused:
            self._senses.open(new)

    def _new_link(self, settings: Settings) -> Link:
        """Make the server's side; what one that was replaced still has to say is not heard."""
        self._link_number += 1
        number = self._link_number

        def post(event: Event) -> None:
            if number == self._link_number:
                self.post(event)

        return self._parts.link(settings, post)

    def _count_late(self, now: float) -> None:
        period = 1.0 / self._settings.telemetry_hz
        if self._last_tick is not None and now - self._last_tick > LATE * period:
            self._late_ticks += 1
        self._last_tick = now

    def _attend(self, now: float) -> None:
        """Look at the server as often as the moment asks for."""
        since = now - self._machine.last_evidence(float("-inf"))
        if self._machine.state in (State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE):
            hz = WORKING_HZ
        else:
            hz = ALERT_HZ if since < ATTENTIVE else IDLE_HZ
        if since < FRESH:
            self._share.expect()
        if hz != self._hz:
            self._hz = hz
            self._link.attend(hz)

    def _publish(self, now: float) -> Snapshot:
        snapshot = self._snapshot(now)
        for listener in tuple(self._listeners):
            try:
                listener(snapshot)
            except Exception:
                # A broken view must not take the engine along, nor fill the log at 10 Hz.
                log.exception("a listener failed and is dropped")
                self._unsubscribe(listener)
        return snapshot

    def _snapshot(self, now: float) -> Snapshot:
        machine = self._machine
        deadline = machine.deadline(self._settings)
        shown = Snapshot(
            at=self._clock.wall(),
            state=machine.state,
            paused=machine.paused,
            paused_for=None if machine.paused_until is None else max(0.0, machine.paused_until - now),
            probability=self._fusion.probability,
            threshold=machine.threshold,
            f_c=self._fused.f_c,
            g_a=self._fused.g_a,
            unified_memory=self._unified_memory,
            hits=machine.hits,
            false_positives=machine.false_positives,
            false_negatives=machine.false_negatives,
            holding=machine.holding(now),
            deadline_in=None if deadline is None else max(0.0, deadline - now),
            late_ticks=self._late_ticks,
            sensors=self._senses.states(),
            moves=tuple(self._moves),
            closed=self._closed,
        )
        return self._reports.shown_in(shown)
