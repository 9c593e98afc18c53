"""The thread on which contexts are restored and kept: what is due when, what is tried again and what dropped."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from engine.client.contexts import Contexts
from engine.client.keeper import Keeper
from engine.client.restorer import Restorer
from engine.client.view import Reuse, View
from engine.client.workbench import Workbench
from engine.clock import Clock
from engine.config.settings import Settings
from engine.errors import ServerError, ServerLoading, ServerUnreachable
from engine.events import Event

log = logging.getLogger(__name__)

RETRIES = (1.0, 2.0, 4.0, 8.0, 16.0)  # s after which a server that was not there is asked again, while prepared
REST = 2.0  # s a slot must be idle after a turn before it is saved
EXPIRE_EVERY = 600.0  # s
AWAKE_EVERY = 1.0, 10.0  # s between requests that keep a prepared server awake, where it does not tell; at most


class Prefetcher:
    """What the loop talks to. `post` takes reports of what became of the context."""

    def __init__(
        self, settings: Settings, view: View, contexts: Contexts, clock: Clock, post: Callable[[Event], None]
    ) -> None:
        self._view = view
        self._clock = clock
        self._ended = threading.Event()
        self._bench = Workbench(settings, view, contexts, clock, post)
        self._restorer = Restorer(self._bench)
        self._keeper = Keeper(self._bench)
        self._wake = threading.Condition()
        self._noticed: deque[Reuse | None] = deque()
        self._prepare_at: float | None = None
        self._keep_at: float | None = None
        self._awake_at: float | None = None  # while prepared
        self._put_off = False  # a save that waits until the preparation is over
        self._stranded = False
        self._expire_at = clock.now()
        self._tries = 0
        self._thread = threading.Thread(target=self._run, name="context", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def prepare(self) -> None:
        """Wake the server, restore its context, if that is needed and safe, and keep it awake until cancelled."""
        with self._wake:
            self._prepare_at = self._awake_at = self._clock.now()
            self._tries = 0
            self._put_off = self._put_off or self._keep_at is not None
            self._keep_at = None  # a prompt may come any moment, and must not wait for a save
            self._wake.notify()

    def cancel(self) -> None:
        """Drop what is queued, and retries; a call already sent is left alone."""
        with self._wake:
            self._prepare_at = self._awake_at = None
            self._tries = len(RETRIES)
            if self._put_off:
                self._keep_at, self._put_off = self._clock.now() + REST, False
                self._wake.notify()

    def keep(self) -> None:
        """Save the context once its slot has rested."""
        with self._wake:
            self._keep_at, self._put_off = self._clock.now() + REST, False
            self._wake.notify()

    def take_back(self) -> None:
        """Hang up on a slot action that stands in a prompt's way."""
        self._bench.take_back()

    def free(self) -> None:
        """Start a prompt that waits beside idle slots behind an action of ours."""
        with self._wake:
            self._stranded = True
            self._wake.notify()

    def noticed(self, reuse: Reuse | None) -> None:
        """Take note that the watcher saw a loss, or what prompts re-used."""
        with self._wake:
            self._noticed.append(reuse)
            self._wake.notify()

    def reconfigure(self, settings: Settings) -> None:
        """Take over the settings that apply live; the address of the server stays."""
        now = self._bench.settings
        self._bench.settings = replace(now, keep_context=settings.keep_context, context_hours=settings.context_hours)

    def close(self, timeout: float) -> None:
        """Stop; a call in flight is broken off."""
        with self._wake:
            self._ended.set()
            self._wake.notify()
        until = self._clock.now() + timeout
        while self._thread.is_alive() and self._clock.now() < until:
            self._bench.server.abort()  # again and again: one job may ask more than once
            self._thread.join(0.02)

    def _run(self) -> None:
        self._do(self._bench.contexts.take_up)
        while not self._ended.is_set():
            job = self._next()
            if job is not None:
                self._do(job)
        self._bench.server.close()

    def _next(self) -> Callable[[], None] | None:
        """Wait for the next thing that is due; None when there is none after all."""
        with self._wake:
            now = self._clock.now()
            due = min(at for at in (self._prepare_at, self._keep_at, self._awake_at, self._expire_at) if at is not None)
            if not (self._noticed or self._stranded or self._ended.is_set()) and due > now:
                self._wake.wait(due - now)
                return None
            if self._stranded:
                self._stranded = False
                return self._bench.free_stranded
            if self._noticed:
                reuse = self._noticed.popleft()
                return lambda: self._restorer.judge(reuse)
            return self._due(now)

    def _due(self, now: float) -> Callable[[], None]:
        """Return what is due at its time."""
        if self._prepare_at is not None and self._prepare_at <= now:
            self._prepare_at = None
            return self._prepare
        if self._keep_at is not None and self._keep_at <= now:
            self._keep_at = None
            return self._keeper.keep
        if self._awake_at is not None and self._awake_at <= now:
            self._awake_at = now + self._awake_pause()
            return self._stay_awake
        self._expire_at = now + EXPIRE_EVERY
        return self._keeper.expire

    def _do(self, job: Callable[[], None]) -> None:
        """Do one thing; whatever goes wrong in it, the thread goes on."""
        try:
            self._restorer.settle()
            job()
        except ServerError as error:
            if not self._ended.is_set():
                self._bench.say_once(f"the context could not be looked after: {error}")
        except Exception:
            log.exception("work on the context failed")

    def _prepare(self) -> None:
        facts = self._view.facts
        try:
            if facts is not None and self._view.reachable:
                self._restorer.prepare(facts)
            else:
                self._retry()
        except (ServerUnreachable, ServerLoading) as error:
            if not self._retry():
                raise
            log.info("preparing the context waits: %s", error)

    def _stay_awake(self) -> None:
        facts = self._view.facts
        if facts is not None and self._view.reachable:
            self._restorer.stay_awake(facts)

    def _awake_pause(self) -> float:
        """Return a third of the time after which it would sleep."""
        unknown, most = AWAKE_EVERY
        limit = self._view.facts.sleeps_after if self._view.facts else None
        return min(most, limit / 3) if limit is not None and limit > 0 else unknown

    def _retry(self) -> bool:
        with self._wake:
            if self._tries >= len(RETRIES):
                return False
            self._prepare_at = self._clock.now() + RETRIES[self._tries]
            self._tries += 1
            return True
