"""Books what each preparation brought and cost, and weighs whether the next one pays. Pure: time is an argument."""

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, timedelta

from engine.account import Day, PromptReport
from engine.config.settings import Settings
from engine.events import Moved, ShareReport, State, Why
from engine.orchestration.machine import Machine

SAMPLE = 256  # tokens computed at least: with fewer, what a prompt costs at any length spoils the rate
SAMPLES = 9  # the last of each server; their median is its rate
SERVERS = 16  # whose rates are kept, those seen last
GAP = 5.0  # s; whoever slept for longer has held nothing meanwhile: the guardian gave it back
RECENT = 14  # days by which a preparation is weighed
ENOUGH = 3  # measured prompts, and guesses, from which on their mean is believed


@dataclass(frozen=True, slots=True)
class Means:
    """What a prompt saved and what a guess cost lately, in seconds; None: not known yet, by so many of each."""

    saving: float | None
    measured: int
    holding: float | None
    guesses: int

    def pays_from(self, settings: Settings) -> float | None:
        """Return the P from which a preparation saves at least what it costs; None: that is not weighed."""
        if settings.job_worth == 0 or self.saving is None:
            return None
        cost = settings.job_worth * self.expected_holding(settings)
        return cost / self.saving if self.saving > 0 else float("inf" if cost > 0 else 0)

    def expected_holding(self, settings: Settings) -> float:
        """Return for how many seconds of the job a guess is expected to hold it."""
        # While nothing is known: to the end of its patience, with the share that a guess leaves to the job.
        return settings.inactivity_timer * 0.9 if self.holding is None else self.holding


def means(days: Iterable[Day], today: str) -> Means:
    """Return the means of the last RECENT days up to `today` (2026-11-30)."""
    since = (date.fromisoformat(today) - timedelta(RECENT - 1)).isoformat()
    lately = [day for day in days if since <= day.date <= today]
    measured = sum(day.measured for day in lately)
    guesses = sum(day.preparations - day.asked for day in lately)
    saved, held = sum(day.saved for day in lately), sum(day.held_guessing for day in lately)
    return Means(
        saved / measured if measured >= ENOUGH else None,
        measured,
        held / guesses if guesses >= ENOUGH else None,
        guesses,
    )


class Benefit:
    """The books. Belongs to one thread.

    `days`: those of earlier runs. `rates`: tokens a second that each server computed lately, by its name.
    """

    def __init__(self, days: Iterable[Day] = (), rates: Mapping[str, Sequence[float]] | None = None) -> None:
        self.days: dict[str, Day] = {day.date: day for day in days}
        self._rates = {name: deque(samples, SAMPLES) for name, samples in (rates or {}).items()}
        self._today = ""
        self._means: Means | None = None
        self._seen_at: float | None = None
        self._share = 100
        self._lost = 0.0
        self._false_alarms = 0
        self._guessing = False  # what is held is held for a guess
        self._prepared_at = 0.0

    @property
    def today(self) -> Day | None:
        """Return the day's sums so far; None before the first step."""
        return self.days.get(self._today) or (Day(self._today) if self._today else None)

    @property
    def rates(self) -> dict[str, list[float]]:
        """Return what to give to the next run."""
        return {name: list(samples) for name, samples in self._rates.items()}

    def step(self, now: float, today: str, moves: Sequence[Moved], machine: Machine, share: ShareReport) -> None:
        """Book what was held until now (monotonic s), and what has happened since the last step."""
        if today != self._today:
            self._today, self._means = today, None
        self._hold(now)
        for move in moves:
            self._moved(move, now, asked=machine.asked_until is not None)
        self._book(
            false_alarms=max(0, machine.false_positives - self._false_alarms),
            lost=max(0.0, share.account.lost - self._lost),
        )
        self._share, self._false_alarms, self._lost = share.share, machine.false_positives, share.account.lost
        if machine.state is State.ACTIVE_INFERENCE or machine.asked_until is not None:
            self._guessing = False

    def prompted(self, report: PromptReport) -> None:
        """Book what prompts took of what was prepared for them. Its rate not being known, the saving is not either."""
        self._learn(report)
        if report.restored is None and report.woken is None:
            return
        reused = max(0, min(report.reused, report.restored or 0))
        rate = self.rate(report.server)
        self._book(reused=reused)
        if reused == 0 or rate is not None:
            saved = (reused / rate if rate else 0.0) + (report.woken or 0.0)
            self._book(measured=1, saved=saved)
        self._means = None

    def rate(self, server: str) -> float | None:
        """Return the tokens a second that this server computes, as it was measured there; None: not yet."""
        return rate_of(self._rates.get(server, ()))

    def pays(self, probability: float, settings: Settings) -> bool:
        """Tell whether a preparation at this P may save what it costs; True while that is not weighed.

        The first guess of a day always may: without any, what a prompt saves by now would never be known.
        """
        today = self.today
        if settings.job_worth == 0 or today is None or today.preparations == today.asked:
            return True
        if self._means is None:
            self._means = means(self.days.values(), self._today)
        least = self._means.pays_from(settings)
        return least is None or probability >= least

    def _hold(self, now: float) -> None:
        passed = 0.0 if self._seen_at is None else max(0.0, now - self._seen_at)
        self._seen_at = now
        if self._share < 100 and passed <= GAP:
            held = passed * (100 - self._share) / 100
            self._book(**{"held_guessing" if self._guessing else "held_serving": held})

    def _moved(self, move: Moved, now: float, *, asked: bool) -> None:
        self._means = None
        if move.target is State.SPECULATIVE_PREPARED:
            self._prepared_at, self._guessing = now, True
            self._book(preparations=1, asked=int(asked))
        elif move.source is State.SPECULATIVE_PREPARED and move.why is Why.PROMPT:
            self._guessing = False
            self._book(hits=1, lead=max(0.0, now - self._prepared_at))

    def _learn(self, report: PromptReport) -> None:
        if report.seconds is None or report.seconds <= 0 or report.computed < SAMPLE:
            return
        samples = self._rates.pop(report.server, deque(maxlen=SAMPLES))
        samples.append(report.computed / report.seconds)
        self._rates[report.server] = samples  # last: those longest not seen are dropped first
        while len(self._rates) > SERVERS:
            del self._rates[next(iter(self._rates))]

    def _book(self, **amounts: float) -> None:
        if any(amounts.values()):
            day = self.days.get(self._today) or Day(self._today)
            more = {name: getattr(day, name) + amount for name, amount in amounts.items()}
            self.days[self._today] = replace(day, **more)


def rate_of(samples: Iterable[float]) -> float | None:
    """Return the rate that these samples stand for: their median, so that one odd prompt moves little."""
    known = list(samples)
    return statistics.median(known) if known else None


def total(days: Iterable[Day]) -> Day:
    """Return the sums over several days; its date is empty."""
    numbers = fields(Day)[1:]
    known = list(days)
    return Day("", **{field.name: sum(getattr(day, field.name) for day in known) for field in numbers})


def saved_per_minute(day: Day) -> float | None:
    """Return the seconds saved for each minute that the job was held; None: not known, or it was never held."""
    held = (day.held_guessing + day.held_serving) / 60
    return day.saved / held if day.measured and held else None
