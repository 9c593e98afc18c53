"""The engine: draws the line from sensors over fusion and machine to actuators, ten times a second.

One tick: take what lies in the inbox, read the sensors, fuse, step the machine, apply its effects, publish one
Snapshot. Nothing in a tick blocks; slow work runs on threads of its own and comes back through the inbox.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from engine import attention
from engine.clock import Clock, Timeline
from engine.config.settings import Settings
from engine.days import DayBook
from engine.events import (
    CancelPreparation,
    Closing,
    Effect,
    Event,
    FlagUnifiedMemory,
    ForgetRequested,
    KeepContext,
    MachineEvent,
    Moved,
    Paused,
    PrepareContext,
    PromptArrived,
    PromptFinished,
    ReleaseRequested,
    Report,
    ResetProbability,
    Resumed,
    ServerLost,
    SetShare,
    SettingsChanged,
    Snapshot,
    State,
    Tuned,
    Why,
)
from engine.inbox import Inbox
from engine.links import Links
from engine.listeners import Listener, Listeners
from engine.memory import Memory
from engine.orchestration import fsm, uvm
from engine.pace import Pace
from engine.parts import Parts
from engine.picture import of_decisions
from engine.recorder import Recorder
from engine.reports import Reports
from engine.sensing import Sensing
from engine.telemetry.moments import AnyMoment
from engine.telemetry.processor import Fusion

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 10.0  # s to give the card back at the end


class Engine:
    """The headless engine. `post`, `stop` and `subscribe` may be called from any thread, the rest from one."""

    def __init__(
        self,
        settings: Settings,
        parts: Parts,
        clock: Clock,
        *,
        recorder: Recorder | None = None,
        moments: AnyMoment | None = None,
        learned: Path | None = None,
        days: Path | None = None,
    ) -> None:
        self._recorder = recorder
        self._settings = settings
        self._clock = clock
        self._timeline = Timeline(clock)
        self._inbox = Inbox()
        self._listeners = Listeners()
        self._links = Links(parts, self.post)
        self._machine = fsm.start(settings, clock.now())
        self._memory = Memory(learned, clock)
        self._days = DayBook(days, clock)
        self._fusion = Fusion(settings, *self._memory.recall())
        self._sensing = Sensing(parts, moments or AnyMoment(), settings)
        self._share = parts.share(settings, self.post)
        self._link = self._links.make(settings)
        self._reports = Reports()
        self._unified_memory = "unknown"
        self._because = ""
        self._moves: list[Moved] = []
        self._pace = Pace(settings.telemetry_hz, clock.now())
        self._hz = attention.ALERT_HZ
        self._closed = False

    # ---- from any thread ---------------------------------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Put an event into the inbox; it is applied with the next tick, which comes at once if the loop rests."""
        self._inbox.put(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Let `listener` see each snapshot, on the engine's thread; return how to end that."""
        return self._listeners.add(listener)

    def stop(self) -> None:
        """Let run() end; the card is given back on the way out."""
        self._inbox.stop()

    # ---- the loop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all parts."""
        self._share.start()
        self._link.start()
        self._sensing.start()

    def run(self) -> None:
        """Tick at TELEMETRY_HZ until stop(); whatever happens, the card is given back at the end."""
        try:
            self.start()
            while not self._inbox.stopped:
                self.tick(self._clock.now())
                self._inbox.wait(self._pace.wait(self._clock.now()), early=self._pace.resting)
        finally:
            self.close()

    def tick(self, now: float) -> Snapshot:
        """Take one step at `now` (the clock's monotonic seconds) and return what everybody sees of it."""
        self._moves = []
        self._pace.count(now)
        if self._timeline.look():
            self._sensing.woke()
        now = self._timeline.at(now)
        self._take_inbox(now)
        if self._machine.paused_until is not None and now >= self._machine.paused_until:
            self._step(Resumed(), now)
        self._mind_the_moment(now)
        readings = self._sensing.read(self._fusion.habits, self._timeline)
        if self._recorder:
            self._recorder.heard(now, readings)
        tick = self._days.weigh(self._fusion.step(now, readings).as_tick(), self._settings)
        self._step(attention.with_person(tick, self._sensing.person_at(self._timeline)), now)
        self._attend(now)
        self._share.beat()
        return self._publish(now)

    def close(self) -> None:
        """Give the card back first, then stop everything; once."""
        if self._closed:
            return
        self._closed = True
        now = self._timeline.at(self._clock.now())
        self._moves = []
        try:
            self._step(Closing(), now)
        finally:
            if not self._share.close(CLOSE_TIMEOUT):
                log.error("the background job could not be given back within %g s", CLOSE_TIMEOUT)
            self._sensing.close()
            self._link.close(CLOSE_TIMEOUT)
            self._take_inbox(now, machine=False)
            self._memory.close(self._fusion.habits, self._fusion.personal)
        self._publish(now)
        self._days.close()

    def _take_inbox(self, now: float, *, machine: bool = True) -> None:
        for event in self._inbox.take():
            if isinstance(event, Report):
                self._reports.take(event)
                self._share.server_is(self._reports.server.pid)
            elif isinstance(event, ForgetRequested):
                self._fusion.forget()
                self._memory.forget()
            elif machine:
                self._step(event, now)

    def _step(self, event: MachineEvent, now: float) -> None:
        if self._recorder:
            self._recorder.happened(event, now)
        before = self._machine.false_positives
        self._machine, effects = fsm.step(self._machine, event, now, self._settings)
        if self._machine.false_positives > before:
            self._fusion.disappointed()
        for effect in effects:
            self._apply(effect)
        match event:
            case SettingsChanged():
                self._reconfigure(event.settings, now)
            case Paused():
                self._fusion.clear()
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
                self._note(effect)
            case Tuned():
                log.info("threshold %.2f → %.2f (%s)", effect.before, effect.after, effect.because)
            case _:
                assert_never(effect)

    def _note(self, move: Moved) -> None:
        self._moves.append(move)
        guessed, asked = move.target is State.SPECULATIVE_PREPARED, self._machine.asked_until is not None
        self._because = self._fusion.because(asked=asked) if guessed else ""
        why = f"{move.why.value}: {self._because}" if guessed else move.why.value
        log.info("%s → %s (%s)", move.source.value, move.target.value, why)
        if move.why is Why.FINISHED:
            self._memory.refresh(self._fusion.habits, self._fusion.personal)

    def _reconfigure(self, new: Settings, now: float) -> None:
        """Take over new settings; what cannot change in flight is given back first, then opened anew."""
        old, self._settings = self._settings, new
        self._fusion.configure(new)
        self._link.reconfigure(new)
        self._sensing.configure(new)
        changed = new.reopened_since(old)
        if "Background job" in changed:
            self._share.reopen(new)
        if "Server" in changed:
            self._step(ServerLost("another server was set"), now)
            self._link = self._links.replace(self._link, new, CLOSE_TIMEOUT)
            self._link.attend(self._hz)

    def _mind_the_moment(self, now: float) -> None:
        """Sense nothing while this is no moment to guess; what was guessed before is given back, nothing booked."""
        if self._sensing.mind(self._fusion.habits, paused=self._machine.paused):
            self._fusion.clear()
            if self._machine.state is State.SPECULATIVE_PREPARED and self._machine.asked_until is None:
                self._step(ReleaseRequested(), now)

    def _attend(self, now: float) -> None:
        """Look at the server as often as the moment asks for."""
        hz = attention.looks(self._machine, now)
        if attention.is_fresh(self._machine, now):
            self._share.expect()
        if hz != self._hz:
            self._hz = hz
            self._link.attend(hz)
        rests = self._machine.state in (State.COLD_IDLE, State.DEGRADED) and self._reports.share.share == 100
        self._pace.set(self._settings.telemetry_hz, resting=rests and self._sensing.not_guessing is not None)

    def _publish(self, now: float) -> Snapshot:
        self._days.step(now, self._moves, self._machine, self._reports)
        snapshot = self._snapshot(now)
        self._listeners.tell(snapshot)
        return snapshot

    def _snapshot(self, now: float) -> Snapshot:
        return of_decisions(
            self._machine,
            self._fusion,
            self._settings,
            now,
            self._clock.wall(),
            not_guessing=self._sensing.not_guessing,
            because=self._because,
            unified_memory=self._unified_memory,
            late_ticks=self._pace.late,
            sensors=self._sensing.states(),
            today=self._days.today,
            moves=tuple(self._moves),
            closed=self._closed,
            **self._reports.shown(),
        )
