"""Chooses how the background job is held, and keeps the reasons of what does not fit."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.clock import Clock
from engine.config.settings import Settings
from engine.errors import BackendUnavailable
from engine.orchestration.backends.base import Backend, Safeguard
from engine.orchestration.backends.boinc import BoincBackend
from engine.orchestration.backends.folding import FoldingBackend
from engine.orchestration.backends.grips import Grip
from engine.orchestration.backends.mps_control import MpsControlBackend
from engine.orchestration.backends.null import NullBackend
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.backends.several import SeveralBackends
from engine.orchestration.finder import ProcessFinder, normalised
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger, RestoreGpuClass
from engine.orchestration.windows_gpu import GpuClassGrip

_FOLDING, _BOINC = re.compile(r"fah|folding"), re.compile(r"boinc")  # names of jobs with an interface of their own
_MPS_LASTS = (
    "a thread percentage reaches only programs that start later, and those keep it for life, the server too: "
    "it is used with BACKGROUND_METHOD=mps only"
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen; `refused`: name → why it does not fit."""

    backend: Backend
    refused: tuple[tuple[str, str], ...] = ()


@dataclass
class Chooser:
    """Makes the backends. They share one ledger and one guardian, which rests when none of them holds anything."""

    ledger: Ledger
    guardian: Guardian
    clock: Clock
    _safeguards: list[Safeguard] = field(default_factory=list)
    _finder: ProcessFinder | None = None

    def choose(self, settings: Settings, known: Backend | None = None) -> Choice:
        """Take what fits best; under `auto` that is every job that can be spoken to, since each of them fills the card.

        A job's own interface frees the memory of the card, too, so it goes over all that is done from outside. Of
        that, what has the highest priority is taken where no job can be spoken to, or where BACKGROUND_PROCESS_NAME
        names another program than those. `known`: stays if it would be chosen again, as it knows its job already.
        """
        method = settings.background_method
        self._safeguards = [one for one in self._safeguards if one.holds]
        fitting: list[tuple[int, Backend]] = []
        refused: dict[str, str] = {}
        for name, make in self._candidates(settings):
            if method not in ("auto", name):
                continue
            if method == "auto" and name == "mps":
                refused[name] = _MPS_LASTS
                continue
            try:
                backend = make()
                fitting.append((backend.priority(), backend))
            except BackendUnavailable as reason:
                refused[name] = str(reason)
        best = _best(fitting, settings.background_process_name) or NullBackend(_why(method, refused))
        return Choice(known if known and known.name == best.name != "null" else best, tuple(refused.items()))

    def members(self) -> tuple[int, ...]:
        """Return the process numbers of the program that the settings name; belongs to the worker's thread."""
        return tuple(member.pid for member in self._finder.members()) if self._finder else ()

    def _candidates(self, settings: Settings) -> Iterator[tuple[str, Callable[[], Backend]]]:
        job = settings.background_process_name
        finder = ProcessFinder(job, self.clock.now, lambda: [pid for pid in [self.guardian.pid] if pid])
        self._finder = finder
        yield "folding", lambda: FoldingBackend(settings, self._safeguard(), self.clock)
        yield "boinc", lambda: BoincBackend(settings, self._safeguard(), self.clock)
        yield "mps", lambda: MpsControlBackend(settings, self._safeguard(), self.clock, finder)
        yield (
            "process",
            lambda: ProcessBackend(job, settings.fallback_to_suspend, finder, self._safeguard(), besides=_besides()),
        )

    def _safeguard(self) -> Safeguard:
        made = Safeguard(self.ledger, self.guardian.arm, self._rest)
        self._safeguards.append(made)
        return made

    def _rest(self) -> None:
        if not any(safeguard.holds for safeguard in self._safeguards):
            self.guardian.rest()


def _besides() -> tuple[Grip, ...]:
    """Return what is done on Windows beside a lowered priority, where its driver knows it."""
    if sys.platform != "win32":
        return ()
    try:
        return (GpuClassGrip(RestoreGpuClass),)
    except BackendUnavailable:
        return ()


def _best(fitting: Sequence[tuple[int, Backend]], job: str) -> Backend | None:
    chosen = [backend for _, backend in fitting if backend.costly]
    others = [pair for pair in fitting if not pair[1].costly]
    if others and not any(_is_named(backend, job) for backend in chosen):
        chosen.append(max(others, key=lambda pair: pair[0])[1])
    return SeveralBackends(chosen) if len(chosen) > 1 else chosen[0] if chosen else None


def _is_named(backend: Backend, job: str) -> bool:
    """Tell whether this interface is that of the program that the settings name."""
    own = {"folding": _FOLDING, "boinc": _BOINC}.get(backend.name)
    return own is not None and own.match(normalised(job)) is not None


def _why(method: str, refused: dict[str, str]) -> str:
    if method == "off":
        return "switched off"
    return "; ".join(f"{name}: {reason}" for name, reason in refused.items())
