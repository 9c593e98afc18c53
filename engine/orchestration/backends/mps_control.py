"""Lowers the share of the card's units that NVIDIA's MPS gives to programs which start from now on.

What already runs keeps what it had: NVIDIA fixes the percentage of a client when it starts. So this is the last choice,
and for a running job it is never called held.
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from engine.clock import Clock
from engine.errors import BackendUnavailable
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.mps_tool import DaemonGone, MpsTool, ServerGone, pipe_directory
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import RestoreMps, Undone
from engine.processes import ProcessId

if TYPE_CHECKING:
    from engine.config.settings import Settings  # the guardian undoes with this module and must stay small

_PERCENT = {10: 10.0, 0: 0.1}  # 0 is not legal; the daemon prints one decimal, so less could not be read back
_LOOK_AGAIN = 10.0  # seconds; a look starts the control program several times
_ONLY_LATER = "a thread percentage reaches only clients that start later"


class MpsControlBackend:
    """Sets the percentage of the MPS daemon, and of the servers through which the job computes."""

    name = "mps"
    costly = False

    def __init__(self, settings: "Settings", safeguard: Safeguard, clock: Clock, finder: ProcessFinder) -> None:
        self._job = settings.background_process_name
        self._safeguard = safeguard
        self._clock = clock
        self._finder = finder
        self._tool = MpsTool(pipe_directory())
        self._forget()

    def _forget(self) -> None:
        self._share = 100
        self._entry: RestoreMps | None = None  # what is in force by us
        self._daemon: tuple[int, int] | None = None  # in which daemon
        self._early: frozenset[ProcessId] = frozenset()  # clients which were there at the last change
        self._unlimited: frozenset[ProcessId] = frozenset()  # clients which were there at the first change
        self._left_alone = ""  # why we do nothing more until the next wish
        self._last = Applied(100, None)
        self._look_at = float("-inf")

    def priority(self) -> int:
        """Return 1: whatever reaches a job that runs goes first. Raises BackendUnavailable."""
        servers = self._tool.servers()
        if not servers:
            raise BackendUnavailable("no MPS server runs: no program computes through MPS")
        if not self._clients(servers):
            raise BackendUnavailable(f"{self._job} is not a client of the MPS server: {_ONLY_LATER}")
        return 1

    def apply(self, share: int) -> Applied:
        """Set the percentage for later clients; 100 gives it back."""
        if share == 100:
            return self.release()
        if share != self._share:
            self._share, self._left_alone, self._look_at = share, "", float("-inf")
        return self.verify()

    def verify(self) -> Applied:
        """Read back what is in force; the daemon is asked every ten seconds only."""
        if self._share < 100 and self._clock.now() >= self._look_at:
            self._look_at = self._clock.now() + _LOOK_AGAIN
            self._last = self._look()
        return self._last

    def release(self) -> Applied:
        """Give the percentage back if it is still ours. Says who keeps a low one, having started meanwhile."""
        self._share = 100
        sentences = self._safeguard.give_back()
        if self._entry:
            sentences = (*sentences, *self._born_limited(self._entry.ours))
        self._forget()
        return Applied(100, None, "; ".join(sentences[:3]))

    def refresh(self) -> None:
        """Look for the job now, so that the next look has little to do."""
        self._finder.find()

    def _clients(self, servers: tuple[int, ...]) -> frozenset[ProcessId]:
        """Return those of the job's processes that compute through MPS."""
        clients = frozenset[int]().union(*(self._tool.clients(server) for server in servers))
        return frozenset(member for member in self._finder.members() if member.pid in clients)

    def _look(self) -> Applied:
        if self._entry and self._is_changed(self._entry):
            self._drop(self._entry)
        ours = _PERCENT[self._share]
        if not self._left_alone and (self._entry is None or self._entry.ours != ours):
            self._set(ours)
        if self._left_alone:
            return Applied(100, False, f"{self._job}: {self._left_alone}")
        return self._in_force()

    def _is_changed(self, entry: RestoreMps) -> bool:
        try:
            return self._tool.daemon() != self._daemon or self._tool.percentage() != entry.ours
        except DaemonGone:
            return True

    def _drop(self, entry: RestoreMps) -> None:
        """Take back what of ours is left, and leave the rest to who changed it."""
        restarted = self._tool.daemon() not in (self._daemon, None)
        undone = undo(entry)
        if not undone.settled:
            raise BackendUnavailable(undone.sentence)
        self._entry = None
        self._safeguard.strike([entry])
        self._left_alone = undone.sentence + ("; the MPS daemon was started again" if restarted else "")

    def _set(self, ours: float) -> None:
        servers = tuple(server for server in self._tool.servers() if self._clients((server,)))
        before = self._tool.percentage()
        if self._entry is None and (not servers or before <= ours):
            self._left_alone = f"MPS was at {before:g} % already" if servers else ""
            return
        replaced = self._entry
        entry = RestoreMps(self._tool.directory, replaced.previous if replaced else before, ours)
        self._safeguard.before_acting([entry])
        self._entry, self._daemon = entry, self._tool.daemon()
        taken = self._tool.set_percentage(ours)
        if taken != ours:
            self._entry = replaced
            self._safeguard.strike([entry])
            self._left_alone = f"the MPS daemon did not take {ours:g} %: it says {taken:g} %"
            return
        self._set_servers(servers, before, ours)
        self._early = self._clients(servers)
        if replaced:
            self._safeguard.strike([replaced])
        else:
            self._unlimited = self._early

    def _set_servers(self, servers: tuple[int, ...], before: float, ours: float) -> None:
        """Set those that have what the daemon had; another percentage was somebody's choice."""
        for server in servers:
            with suppress(ServerGone):
                if self._tool.percentage(server) == before:
                    self._tool.set_percentage(ours, server)

    def _in_force(self) -> Applied:
        if self._entry is None:
            return Applied(100, None, f"no {self._job} computes through MPS")
        limit = f"MPS gives {self._entry.ours:g} %"
        servers = self._tool.servers()
        clients = self._clients(servers)
        if not clients:
            return Applied(100, None, f"no {self._job} computes through MPS; {limit} to one that starts")
        if clients & self._early:
            return Applied(100, False, f"{self._job}: runs on as before; {limit}, and {_ONLY_LATER}")
        if any(self._tool.percentage(server) != self._entry.ours for server in servers if self._clients((server,))):
            return Applied(100, False, f"{self._job}: its MPS server has a percentage of its own")
        return Applied(self._share, True, f"{self._job}: it started when {limit}")

    def _born_limited(self, ours: float) -> tuple[str, ...]:
        with suppress(BackendUnavailable):
            born = self._clients(self._tool.servers()) - self._unlimited
            pids = ", ".join(str(pid) for pid in sorted(client.pid for client in born))
            if pids:
                return (f"{self._job} ({pids}) started when MPS gave {ours:g} %, and keeps that until its next start",)
        return ()


def undo(entry: RestoreMps) -> Undone:
    """Give the percentage back wherever it is still ours: in the daemon, and in each of its servers."""
    tool = MpsTool(entry.pipe_directory)
    try:
        sentence = _restore_default(tool, entry)
        for server in tool.servers():
            with suppress(ServerGone):
                if tool.percentage(server) == entry.ours:
                    _restore(tool, entry, server)
    except DaemonGone:
        return Undone(entry, True, "the MPS daemon has ended, and the percentage with it")
    except BackendUnavailable as reason:
        return Undone(entry, False, f"the MPS percentage could not be given back: {reason}")
    return Undone(entry, True, sentence)


def _restore_default(tool: MpsTool, entry: RestoreMps) -> str:
    present = tool.percentage()
    if present == entry.previous:
        return f"MPS had its {present:g} % back"
    if present != entry.ours:
        return f"MPS was given {present:g} % by somebody else, and keeps it"
    _restore(tool, entry, None)
    return f"MPS has its {entry.previous:g} % back"


def _restore(tool: MpsTool, entry: RestoreMps, server: int | None) -> None:
    taken = tool.set_percentage(entry.previous, server)
    if taken != entry.previous:
        raise BackendUnavailable(f"the daemon did not take {entry.previous:g} %: it says {taken:g} %")
