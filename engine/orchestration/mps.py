"""The background job's share of the card: chooses the backend, keeps the newest wish, and works on a thread of its own.

Whatever goes wrong in a backend stays in here, is said, and ends with the job given back.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from engine.clock import Clock
from engine.config.settings import Settings
from engine.errors import BackendUnavailable
from engine.events import ShareReport
from engine.orchestration.backends.base import Applied, Backend, Safeguard
from engine.orchestration.backends.null import NullBackend
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.guardian import LEASE, Guardian
from engine.orchestration.ledger import Ledger, recover

_log = logging.getLogger(__name__)

_LOOK_AGAIN = 1.0  # seconds between two looks at a job that is to be held
_TRY_AGAIN = 0.2  # seconds between two tries to give back
_BEAT_EVERY = 0.25  # seconds; the guardian waits for 2
_EXPECT_EVERY = 2.0  # seconds
_WITHOUT_BEATS = "given back, since the guardian is gone or this program stood still"
_NOT_YET = dict.fromkeys(("mps", "folding", "boinc"), "not part of this version")


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the worker found to do when it woke."""

    target: int
    settings: Settings | None
    guardian_lost: bool
    expected: bool
    closing: bool


class BackgroundShare:
    """Takes the share that the job is to have; what is in force comes back through `post` as ShareReport.

    All methods but `close` return at once and may be called from any thread. `post` is called on the worker thread.
    """

    def __init__(
        self, settings: Settings, post: Callable[[ShareReport], None], ledger: Ledger, guardian: Guardian, clock: Clock
    ) -> None:
        self._post = post
        self._ledger = ledger
        self._guardian = guardian
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._last_beat = self._last_expected = float("-inf")

        self._wake = threading.Condition()  # guards the wishes
        self._target = 100
        self._asked_back: float | None = None  # since when the job should have been given back
        self._settings: Settings | None = settings
        self._guardian_lost = False
        self._expected = False
        self._closing = False
        self._tries_at_close = 1

        self._backend: Backend = NullBackend("not yet looked for")  # from here on: the worker's own
        self._refused: tuple[tuple[str, str], ...] = ()
        self._applied = 100
        self._owed = False  # giving back has failed and is tried again
        self._trouble = ""  # why holding has failed; it is not tried again before the next wish
        self._to_open: Settings | None = None
        self._unguarded = False  # the guardian was lost; read by `beat`
        self._last: ShareReport | None = None
        self._logged: set[str] = set()

    def start(self) -> None:
        """Recover what an earlier run left, choose a backend, and report: all on the worker thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="background-share", daemon=True)
            self._thread.start()

    def request(self, percent: int) -> None:
        """Wish for 100, 10 or 0 percent; only the newest wish counts."""
        with self._wake:
            if percent != self._target:
                self._asked_back = self._clock.now() if percent == 100 else None
            self._target = percent
            self._wake.notify()

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
        in_time = asked_back is None or now - asked_back < LEASE
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
        while not (wish := self._next_wish()).closing:
            try:
                self._report(self._fulfil(wish))
            except Exception as error:  # noqa: BLE001 - the part boundary: no backend may end the worker
                self._fail(error)
        self._end()

    def _end(self) -> None:
        """Give back, more than once if need be; what is owed even then the guardian tries once more."""
        for _ in range(self._tries_at_close):
            try:
                self._let_go()
                self._report(Applied(100, None))
                break
            except Exception as error:  # noqa: BLE001 - as above
                self._log_once(error)
                threading.Event().wait(_TRY_AGAIN)
        self._guardian.stop()

    def _next_wish(self) -> _Wish:
        period = _TRY_AGAIN if self._owed else _LOOK_AGAIN if self._applied < 100 and not self._trouble else None
        with self._wake:
            self._wake.wait_for(self._has_wish, period)
            wish = _Wish(self._target, self._settings, self._guardian_lost, self._expected, self._closing)
            self._settings = None
            self._guardian_lost = self._expected = False
            return wish

    def _has_wish(self) -> bool:
        changed = self._target != self._applied
        return changed or self._settings is not None or self._guardian_lost or self._expected or self._closing

    def _fulfil(self, wish: _Wish) -> Applied:
        self._to_open = wish.settings or self._to_open
        anew = wish.target != self._applied or self._to_open is not None or wish.guardian_lost
        self._applied = wish.target
        if self._guardian_is_lost() or self._owed or self._to_open:
            self._let_go()
        if anew:
            self._trouble = ""
            self._unguarded = False
        if self._to_open:
            self._choose(self._to_open)
            self._to_open = None
        if wish.expected:
            self._get_ready()
        if not self._trouble and not self._unguarded:
            applied = self._backend.apply(wish.target) if anew else self._backend.verify()
            if wish.target == 100:
                self._asked_back = None
            if not self._guardian_is_lost():
                return applied
            self._let_go()  # it may have given back just when the backend looked
        return Applied(100, False, self._trouble or _WITHOUT_BEATS)

    def _guardian_is_lost(self) -> bool:
        """Tell whether it died or gave back; the job is held again only when the loop shows that it lives."""
        if not self._guardian.armed or self._guardian.alive:
            return False
        _log.warning("The guardian is gone; the job is given back before it may be held under a new one")
        self._guardian.stop()  # now, lest it undoes what is done next
        self._unguarded = True
        return True

    def _get_ready(self) -> None:
        if self._backend.name != "null":
            self._guardian.start()
            self._backend.refresh()

    def _let_go(self) -> None:
        """Give everything back, by what the backend knows and by what the ledger says."""
        self._owed = True
        try:
            self._backend.release()
        finally:
            for sentence in recover(self._ledger.path):
                if sentence not in self._logged:
                    self._logged.add(sentence)
                    _log.warning("Left over: %s", sentence)
        self._owed = False

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
        kind = f"{self._backend.name}: {type(error).__name__}"
        if kind not in self._logged:
            self._logged.add(kind)
            _log.error("Holding the background job failed in %s", kind, exc_info=error)

    def _choose(self, settings: Settings) -> None:
        """Take the best backend that fits, and keep the reasons of the others."""
        method = settings.background_method
        refused = {name: reason for name, reason in _NOT_YET.items() if method in ("auto", name)}
        fitting: list[tuple[int, Backend]] = []
        for backend in [self._by_processes(settings)] if method in ("auto", "process") else []:
            try:
                fitting.append((backend.priority(), backend))
            except BackendUnavailable as reason:
                refused[backend.name] = str(reason)
        why = "switched off" if method == "off" else "; ".join(f"{name}: {reason}" for name, reason in refused.items())
        fitting.append((0, NullBackend(why)))
        self._backend = max(fitting, key=lambda pair: pair[0])[1]
        self._refused = tuple(refused.items())
        self._get_ready()

    def _by_processes(self, settings: Settings) -> Backend:
        job = settings.background_process_name
        finder = ProcessFinder(job, self._clock.now, lambda: [pid for pid in [self._guardian.pid] if pid])
        safeguard = Safeguard(self._ledger, self._guardian.arm, self._guardian.rest)
        return ProcessBackend(job, settings.fallback_to_suspend, finder, safeguard)

    def _report(self, applied: Applied) -> None:
        report = ShareReport(applied.share, applied.verified, self._backend.name, applied.detail, self._refused)
        if report != self._last:
            self._last = report
            self._post(report)
