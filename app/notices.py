"""Notifications: once for each cause, and again only after it went away for a while."""

from PySide6.QtCore import QObject, Signal

from engine.config.store import Loaded
from engine.events import ServerState, Snapshot, State
from engine.telemetry.moments import IN_CALL
from engine.telemetry.supervisor import STARTING

QUIET = 600.0  # s without the cause before it is news again
_WORKING = (State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE)
_SENSORS = ("keyboard", "microphone")
_ANSWERS = (ServerState.UP, ServerState.ASLEEP, ServerState.BUSY)


class Notices(QObject):
    """Watches snapshots for what a user should know though no window is open.

    `said` carries title and text. A server that was never there is not lost, and a job that nobody wants to hold is
    no failure: neither is told.
    """

    said = Signal(str, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._last_seen: dict[tuple[str, str], float] = {}  # cause → when it was last so, in Unix seconds
        self._told: set[tuple[str, str]] = set()
        self._server_was_there = False
        self._job_since: float | None = None

    def check(self, loaded: Loaded) -> None:
        """Tell what is wrong with the settings: each mistake once."""
        for problem in loaded.problems:
            self._tell_once(self.tr("The settings have a mistake"), problem)
        if loaded.settings.key_in_clear:
            text = self.tr("SERVER_URL is plain http to another machine; https would keep the key secret.")
            self._tell_once(self.tr("The API key leaves this machine unencrypted"), text)

    def watch(self, snapshot: Snapshot) -> None:
        """Take one snapshot."""
        if snapshot.closed or snapshot.not_guessing:
            return
        self._watch_server(snapshot)
        self._watch_job(snapshot)
        if not snapshot.paused:
            for name in _SENSORS:
                state = snapshot.sensors.get(name, "off")
                if state.startswith("unavailable") and state not in (STARTING, IN_CALL):
                    titles = {
                        "keyboard": self.tr("The keyboard cannot be sensed"),
                        "microphone": self.tr("The microphone cannot be sensed"),
                    }
                    self._tell(snapshot.at, name, titles[name], state.partition(": ")[2])

    def _watch_server(self, snapshot: Snapshot) -> None:
        if snapshot.server in _ANSWERS:
            self._server_was_there = True
        elif self._server_was_there and snapshot.server is ServerState.DOWN and snapshot.state is State.DEGRADED:
            text = self.tr("Nothing is held back until the server answers again.")
            self._tell(snapshot.at, "server", self.tr("The server does not answer any more"), text)

    def _watch_job(self, snapshot: Snapshot) -> None:
        """Tell after a second in which the card was wanted, but nothing holds the job: then it is no mere delay."""
        reason = _why_not_held(snapshot)
        if snapshot.state not in _WORKING or not reason:
            self._job_since = None
            return
        if self._job_since is None:
            self._job_since = snapshot.at
        if snapshot.at - self._job_since >= 1.0:
            self._tell(snapshot.at, "job", self.tr("The background job cannot be held back"), reason)

    def _tell_once(self, title: str, text: str) -> None:
        if (title, text) not in self._told:
            self._told.add((title, text))
            self.said.emit(title, text)

    def _tell(self, at: float, cause: str, title: str, text: str) -> None:
        key = (cause, text)
        last = self._last_seen.get(key)
        self._last_seen[key] = at
        if last is None or at - last > QUIET:
            self.said.emit(title, text)


def _why_not_held(snapshot: Snapshot) -> str:
    """Return why a job that should be held is not; empty where it is, or where there is none."""
    if snapshot.background_verified is False:
        return snapshot.background_detail or "it was told to yield, but is not seen to"
    if snapshot.background_share == 100 and snapshot.backend == "null":
        reasons = [f"{name}: {why}" for name, why in snapshot.refused if "not part of" not in why]
        return "; ".join(reasons)
    return ""
