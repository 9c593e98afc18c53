"""Takes BOINC's GPU work off the card by a lease: the GPU mode "never" for a minute, renewed while it is needed.

Whatever dies, BOINC goes on by itself when the lease ends. The user's own, permanent mode is never written.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from engine.config.address import is_local
from engine.errors import LedgerError
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.boinc_rpc import NEVER, BoincError, BoincGone, BoincRefused, BoincRpc, Status
from engine.orchestration.ledger import RestoreBoinc, Undone

if TYPE_CHECKING:  # the guardian loads this module to undo, and needs neither
    from engine.clock import Clock
    from engine.config.settings import Settings

_LEASE = 60.0  # seconds
_SLACK = 2.0  # seconds by which the client's count may differ from ours
_EXECUTING, _ABORTING, _QUITTING, _SUSPENDED = 1, 5, 8, 9  # active_task_state with a process; all others have none
_HINT = "join the group boinc and log in again, or set BOINC_PASSWORD_FILE"
_OTHERS = "BOINC's GPU mode was changed by somebody else, and is left alone"


class BoincBackend:
    """Holds the tasks of the BOINC client at BOINC_URL that work on a card; its other tasks go on."""

    name = "boinc"
    costly = True
    lease: ClassVar[float] = _LEASE
    renew: ClassVar[float] = 20.0  # seconds between two renewals

    def __init__(self, settings: "Settings", safeguard: Safeguard, clock: "Clock") -> None:
        self._address = settings.boinc_url
        file = settings.boinc_password_file
        self._password_file = str(Path(file).absolute()) if file else ""  # the guardian works in another folder
        self._safeguard = safeguard
        self._clock = clock
        self._share = 100
        self._held: RestoreBoinc | None = None
        self._until = 0.0  # Unix seconds, since the client counts by the same clock
        self._confirmed = False  # the lease was seen in force
        self._alone = ""  # why BOINC is left alone until it is given back

    def priority(self) -> int:
        """Return 30: it frees the memory, too, and ends by itself. Raises BackendUnavailable."""
        with BoincRpc(self._address) as boinc:
            _authorize(boinc, self._address, self._password_file)
        return 30

    def apply(self, share: int) -> Applied:
        """Take BOINC off the card; 10 and 0 are the same here. 100 gives it back."""
        if share == 100:
            return self.release()
        self._share = share
        return self.verify()

    def verify(self) -> Applied:
        """See what is in force, renew the lease in time, and take one when BOINC begins to work."""
        if self._share == 100:
            return Applied(100, None)
        try:
            with BoincRpc(self._address) as boinc:
                _authorize(boinc, self._address, self._password_file)
                return self._look(boinc)
        except BoincGone as reason:
            self._strike()
            return Applied(100, False, str(reason))
        except BoincError as reason:
            return Applied(100, False, str(reason))

    def release(self) -> Applied:
        """End the lease unless somebody else has set another mode meanwhile."""
        self._share = 100
        try:
            sentences = self._safeguard.give_back()
        except LedgerError:
            if self._held is None or self._clock.wall() < self._until:
                raise
            self._strike()  # it has run out, whatever BOINC answers
            sentences = (*self._safeguard.give_back(), "BOINC goes on by itself")
        self._held = None
        self._alone = ""
        return Applied(100, None, "; ".join(sentences))

    def refresh(self) -> None:
        """Do nothing: a call takes a millisecond."""

    def _look(self, boinc: BoincRpc) -> Applied:
        status = boinc.status()
        if self._held:
            status = self._keep(boinc, status)
        tasks = boinc.gpu_tasks()
        if not self._held:
            if reason := _not_needed(status, tasks):
                return Applied(100, None, reason)
            if self._alone:
                return Applied(100, False, self._alone)
            self._held = RestoreBoinc(self._address, self._password_file)
            self._safeguard.before_acting([self._held])
            status = self._take(boinc)
        return self._in_force(status, tasks)

    def _keep(self, boinc: BoincRpc, status: Status) -> Status:
        """Renew the lease in time if it is still ours; strike it if it is not."""
        left = self._until - self._clock.wall()
        if _is_lease(status, left):
            self._confirmed = True
            if not self.lease - self.renew < left <= self.lease:  # more is left when the clock was set back
                status = self._take(boinc)
        else:
            self._alone = _OTHERS if self._confirmed and left > 0 else ""  # it runs out while this machine sleeps
            self._strike()
        return status

    def _take(self, boinc: BoincRpc) -> Status:
        self._until = self._clock.wall() + self.lease
        boinc.never(self.lease)
        status = boinc.status()
        self._confirmed = _is_lease(status, self.lease)
        return status

    def _in_force(self, status: Status, tasks: tuple[int, ...]) -> Applied:
        if not self._confirmed:
            return Applied(100, False, "BOINC was told to leave the card, but does not say that it will")
        leaving = sum(state in (_EXECUTING, _ABORTING, _QUITTING) for state in tasks)
        if leaving or not (status.gpu_suspended or status.suspended):
            return Applied(self._share, False, "BOINC is leaving the card")
        memory = "; memory of the card stays taken" if _SUSPENDED in tasks else ""
        return Applied(self._share, True, f"BOINC is off the card{memory}")

    def _strike(self) -> None:
        if self._held:
            self._safeguard.strike([self._held])
            self._held = None


def undo(entry: RestoreBoinc) -> Undone:
    """End the lease; a mode that is not one, or lasts longer, is somebody else's and stays."""
    try:
        with BoincRpc(entry.address) as boinc:
            sentence = _restore(boinc, entry)
    except BoincGone:
        return Undone(entry, True, "BOINC has ended, and with it what was asked of it")
    except BoincError as error:
        return Undone(entry, False, f"{error}; at the latest after {_LEASE:g} s BOINC goes on by itself")
    return Undone(entry, True, sentence)


def _restore(boinc: BoincRpc, entry: RestoreBoinc) -> str:
    before = boinc.status()
    if _is_lease(before, _LEASE):
        _authorize(boinc, entry.address, entry.password_file)
        before = boinc.status()  # as late as can be: a restore after somebody's change would undo that change
    if not _is_lease(before, _LEASE):
        return _OTHERS if before.mode == NEVER else "BOINC goes on already"
    boinc.restore()
    after = boinc.status()
    if _is_lease(after, _LEASE):
        raise BoincError("BOINC was told to go on, but does not say that it will")
    if after.permanent != before.permanent:
        return "BOINC's GPU mode was changed by somebody else at the same moment: look at it in the BOINC Manager"
    return "BOINC goes on"


def _is_lease(status: Status, left: float) -> bool:
    """Tell whether the mode can be ours: never, for no longer than `left` seconds, over another permanent one."""
    return status.mode == NEVER != status.permanent and 0 < status.delay <= left + _SLACK


def _not_needed(status: Status, tasks: tuple[int, ...]) -> str:
    """Return why nothing has to be sent, "" if BOINC works on the card."""
    if status.mode == NEVER:
        return "BOINC was told by its user not to work on the card"
    if status.suspended or status.gpu_suspended:
        return "BOINC rests by its own preferences"
    return "" if _EXECUTING in tasks else "BOINC has no GPU work"


def _authorize(boinc: BoincRpc, address: str, password_file: str) -> None:
    """Give the password of the file, or of the usual ones; the one of this machine is shown to no other."""
    if not password_file and not is_local(f"//{address}"):
        raise BoincError(f"BOINC at {address} wants a password: set BOINC_PASSWORD_FILE")
    password, trouble = _password([Path(password_file)] if password_file else _usual_files())
    try:
        boinc.authorize(password)  # the empty one, too: Debian's package comes with it
    except BoincRefused as error:
        raise BoincRefused(f"{error}{trouble}: {_HINT}") from None


def _password(files: list[Path]) -> tuple[str, str]:
    """Return the first line of the first file that can be read, and what was wrong with the others."""
    trouble = " (there is no gui_rpc_auth.cfg)"
    for file in files:
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                return lines.readline(256).strip(), f" in {file}"
        except FileNotFoundError:
            continue
        except OSError as error:
            trouble = f" ({file} cannot be read: {error.strerror})"
    return "", trouble


def _usual_files() -> list[Path]:
    if sys.platform == "win32":
        folders = [Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "BOINC"]
    elif sys.platform == "darwin":
        folders = [Path("/Library/Application Support/BOINC Data")]
    else:
        folders = [Path("/var/lib/boinc-client"), Path("/var/lib/boinc"), Path("/etc/boinc-client")]
    return [folder / "gui_rpc_auth.cfg" for folder in folders]
