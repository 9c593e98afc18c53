"""The background job's share of the card: chooses the backend, keeps the newest wish, and works on a thread of its own.

Whatever goes wrong in a backend stays in here, is said, and ends with the job given back.
"""

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import replace

from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import ShareReport
from engine.orchestration.backends.base import Applied, Backend
from engine.orchestration.backends.null import NullBackend
from engine.orchestration.choice import Choice, Chooser
from engine.orchestration.guardian import LEASE, Guardian
from engine.orchestration.ledger import Ledger
from engine.orchestration.leftovers import Leftovers
from engine.orchestration.linger import Thrift
from engine.orchestration.proof import VramReader
from engine.orchestration.wishes import Todo, Wish

_log = logging.getLogger(__name__)

_LOOK_AGAIN = 1.0  # seconds between two looks at a job that is to be held
_TRY_AGAIN = 0.2  # seconds between two tries to give back
_BEAT_EVERY = 0.25  # seconds; the guardian waits for 2
_EXPECT_EVERY = 2.0  # seconds
_CHOOSE_EVERY = 30.0  # seconds; so a job that is started later is found
_SLOW = 10.0  # seconds that giving back may take where a job is spoken to: it answers when it likes
_WITHOUT_BEATS = "given back, since the guardian is gone or this program stood still"


class BackgroundShare:
    """Takes the share that the job is to have; what is in force comes back through `post` as ShareReport.

    All methods but `close` return at once and may be called from any thread. `post` is called on the worker thread.
    """

    def __init__(
        self, settings: Settings, post: Callable[[ShareReport], None], ledger: Ledger, guardian: Guardian, clock: Clock
    ) -> None:
        self._post = post
        self._guardian = guardian
        self._clock = clock
        self._chooser = Chooser(ledger, guardian, clock)
        self._vram = VramReader(clock)
        self._server: int | None = None
        self._thread: threading.Thread | None = None
        self._last_beat = self._last_expected = float("-inf")

        self._wake = threading.Condition()  # guards the wishes
        self._wish = Wish()
        self._asked_back: float | None = None  # since when the job should have been given back
        self._settings: Settings | None = settings
        self._guardian_lost = False
        self._expected = False
        self._closing = False
        self._tries_at_close = 1

        self._choice = Choice(NullBackend("not yet looked for"))  # from here on: the worker's own
        self._chosen_at = float("-inf")
        self._in_use = settings
        self._thrift = Thrift(settings)
        self._taken = Wish()
        self._applied = 100  # what the backend was asked for last
        self._look_in: float | None = None
        self._owed = False  # giving back has failed and is tried again
        self._trouble = ""  # why holding has failed; it is not tried again before the next wish
        self._to_open: Settings | None = None
        self._unguarded = False  # the guardian was lost; `beat` reads it
        self._leftovers = Leftovers(ledger.path)
        self._last: ShareReport | None = None
        self._logged: set[str] = set()

    def start(self) -> None:
        """Recover what an earlier run left, choose a backend, and report: all on the worker thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="background-share", daemon=True)
            self._thread.start()

    def request(self, percent: int, *, linger: bool = False) -> None:
        """Wish for 100, 10 or 0 percent; only the newest wish counts.

        `linger`: only a reply has ended, so a job that loses work by each pause is given back LINGER later.
        """
        with self._wake:
            wish = Wish(percent, linger)
            if wish != self._wish:
                wait = self._in_use.linger if linger and self._choice.backend.costly else 0.0
                self._asked_back = self._clock.now() + wait if percent == 100 else None
            self._wish = wish
            self._wake.notify()

    def server_is(self, pid: int | None) -> None:
        """Take note of the server's process: its memory of the card counts as the server's."""
        self._server = pid

    def expect(self) -> None:
        """Evidence was sensed: get ready, so that the next request is quick."""
        now = self._clock.now()
        if now - self._last_expected >= _EXPECT_EVERY:
            self._last_expected = now
            with self._wake:
                self._expected = True
                self._wake.notify()

    def beat(self) -> None:
        """Tell the guardian that all is well; to be called each tick.

        A worker that died, or hangs while the job should be given back, is not well: then the guardian gives back.
        """
        now = self._clock.now()
        if now - self._last_beat < _BEAT_EVERY or not self._working(now):
            return
        self._last_beat = now
        if self._unguarded or not self._guardian.beat():
            with self._wake:
                self._guardian_lost = True
                self._wake.notify()

    def _working(self, now: float) -> bool:
        asked_back = self._asked_back
        patience = _SLOW if self._choice.backend.costly else LEASE
        in_time = asked_back is None or now - asked_back < patience
        return in_time and self._thread is not None and self._thread.is_alive()

    def reopen(self, settings: Settings) -> None:
        """Give back, then choose anew under these settings."""
        with self._wake:
            self._settings = settings
            self._wake.notify()

    def close(self, timeout: float = 5.0) -> bool:
        """Give back and end worker and guardian; True once that is done. May be called again."""
        with self._wake:
            self._closing = True
            self._tries_at_close = max(1, int(timeout / _TRY_AGAIN))
            self._wake.notify()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._owed

    # ---- The worker --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not (todo := self._next()).closing:
            try:
                self._report(self._fulfil(todo))
            except Exception as error:  # noqa: BLE001 - the part boundary: no backend may end the worker
                self._fail(error)
        self._end()

    def _end(self) -> None:
        """Give back, more than once if need be; what is owed even then is left to the guardian, which is patient."""
        for _ in range(self._tries_at_close):
            try:
                self._report(self._let_go())
                break
            except Exception as error:  # noqa: BLE001 - as above
                self._log_once(error)
                threading.Event().wait(_TRY_AGAIN)
        self._vram.close()
        self._guardian.stop(patient=True)

    def _next(self) -> Todo:
        with self._wake:
            self._wake.wait_for(self._has_something, self._period())
            todo = Todo(self._wish, self._settings, self._guardian_lost, self._expected, self._closing)
            self._settings = None
            self._guardian_lost = self._expected = False
            return todo

    def _period(self) -> float | None:
        """Return after how many seconds to look again without being asked."""
        if self._owed:
            return _TRY_AGAIN
        now, tries = self._clock.now(), not self._trouble and not self._unguarded
        usual = _LOOK_AGAIN if self._applied < 100 and tries else None
        by_itself = self._thrift.look_in(now, self._applied, self._choice.backend.costly) if tries else None
        left_over = self._leftovers.due_in(now) if self._applied == 100 else None
        return min((wait for wait in (self._look_in or usual, by_itself, left_over) if wait is not None), default=None)

    def _has_something(self) -> bool:
        news = self._wish != self._taken or self._settings is not None
        return news or self._guardian_lost or self._expected or self._closing

    def _fulfil(self, todo: Todo) -> Applied:
        self._to_open = todo.settings or self._to_open
        news = todo.wish != self._taken or self._to_open is not None or todo.guardian_lost
        self._taken = todo.wish
        self._thrift.take(todo.wish, self._clock.now())
        left_over = self._applied == 100 and self._leftovers.due_in(self._clock.now()) == 0
        if self._guardian_is_lost() or self._owed or self._to_open or left_over:
            self._let_go()
        if news:
            self._trouble = ""
            self._unguarded = False
        self._see_to_choice(todo)
        if not self._trouble and not self._unguarded:
            applied = self._ask(news)
            if not self._guardian_is_lost():
                return applied
            self._let_go()  # it may have given back just when the backend looked
        return Applied(100, False, self._trouble or _WITHOUT_BEATS)

    def _ask(self, news: bool) -> Applied:
        """Let the backend do what is to be done now, and note what it cost."""
        backend, before, now = self._choice.backend, self._applied, self._clock.now()
        target = self._applied = self._thrift.target(now, before, backend.costly)
        anew = target != before or (news and target == self._taken.percent < 100)
        applied = backend.apply(target) if anew else backend.verify()
        if target == 100:
            self._asked_back = None
        if backend.costly:
            self._thrift.booked(applied.share < 100, self._clock.now(), applied.lost)
        if target == 100 and self._taken.percent < 100:
            return replace(applied, detail=self._thrift.reason(now) or applied.detail)
        return applied

    def _guardian_is_lost(self) -> bool:
        """Tell whether it died or gave back; the job is held again only when the loop shows that it lives."""
        if not self._guardian.armed or self._guardian.alive:
            return False
        _log.warning("The guardian is gone; the job is given back before it may be held under a new one")
        self._guardian.stop()  # now, lest it undoes what is done next
        self._unguarded = True
        return True

    def _let_go(self) -> Applied:
        """Give everything back, by what the backend knows and by what the ledger says."""
        self._owed = True
        self._applied = 100
        try:
            applied = self._choice.backend.release()
        finally:
            self._leftovers.undo(self._clock.now())
        self._owed = False
        self._thrift.booked(False, self._clock.now())
        return applied

    def _fail(self, error: Exception) -> None:
        """Say what went wrong and give back; what cannot be given back stays owed."""
        self._log_once(error)
        self._trouble = self._trouble or str(error) or type(error).__name__
        try:
            self._let_go()
        except Exception as further:  # noqa: BLE001 - as above
            self._log_once(further)
        share = self._last.share if self._owed and self._last else 100
        self._report(Applied(share, False, self._trouble))

    def _log_once(self, error: Exception) -> None:
        kind = f"{self._choice.backend.name}: {type(error).__name__}"
        if kind not in self._logged:
            self._logged.add(kind)
            _log.error("Holding the background job failed in %s", kind, exc_info=error)

    def _see_to_choice(self, todo: Todo) -> None:
        """Choose under new settings; also, from time to time, when a job may have been started that was not there."""
        at_rest = self._applied == 100 and self._look_in is None
        waits = todo.expected or (todo.wish.percent < 100 and self._choice.backend.name == "null")
        if self._to_open:
            self._in_use, self._to_open = self._to_open, None
            self._thrift.configure(self._in_use)
            self._choose()
        elif waits and self._choice.refused and at_rest and self._clock.now() - self._chosen_at >= _CHOOSE_EVERY:
            self._choose(self._choice.backend)
        elif todo.expected:
            self._get_ready()

    def _choose(self, known: Backend | None = None) -> None:
        self._choice = self._chooser.choose(self._in_use, known)
        self._chosen_at = self._clock.now()
        self._get_ready()

    def _get_ready(self) -> None:
        if self._choice.backend.name != "null":
            self._guardian.start()
            self._choice.backend.refresh()

    def _report(self, applied: Applied) -> None:
        self._look_in = applied.look_in
        left = self._thrift.linger_in(self._clock.now()) if applied.share < 100 else None
        report = ShareReport(
            applied.share,
            applied.verified,
            self._choice.backend.name,
            applied.detail,
            self._choice.refused,
            None if left is None else float(math.ceil(left)),
            self._thrift.account,
            self._vram.tell(applied.share < 100, self._server, self._chooser.members),
        )
        if report != self._last:
            self._last = report
            self._post(report)
