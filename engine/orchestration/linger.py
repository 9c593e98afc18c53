"""Cheap when guessing, strong when sure: what may be done to a job that loses work by each pause. Pure.

A prompt always gets the card at once. A guess may not pause the job too often, and a reply does not give it back at
once, so that a conversation costs one pause and not one a turn.
"""

from collections import deque
from dataclasses import replace

from engine.account import Account
from engine.config.settings import Settings
from engine.orchestration.wishes import Wish

HOUR = 3600.0  # seconds
REST = 15.0  # seconds for which guesses leave a job alone that was just given back: it is still finding its feet


class Thrift:
    """Turns wishes into what is to be in force. Times are monotonic seconds."""

    def __init__(self, settings: Settings) -> None:
        self.account = Account()
        self._wish = Wish()
        self._until: float | None = None  # lingering
        self._held_since: float | None = None
        self._back_at = float("-inf")
        self._guesses: deque[float] = deque()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Take over new settings; what was counted stays counted."""
        self._linger = settings.linger
        self._limit = settings.max_pauses_per_hour

    def take(self, wish: Wish, now: float) -> None:
        """Note a new wish."""
        if wish != self._wish:
            lingers = wish.percent == 100 and wish.linger and self._held_since is not None
            self._until = now + self._linger if lingers else None
        self._wish = wish

    def target(self, now: float, in_force: int, costly: bool) -> int:
        """Return the percent that is to be in force; `in_force`: what is now."""
        if not costly:
            return self._wish.percent
        if self._wish.percent == 100:
            return 100 if self.linger_in(now) is None else in_force
        guess_comes_too_soon = self._wish.percent == 10 and in_force == 100 and self._wait(now) > 0
        return 100 if guess_comes_too_soon else self._wish.percent

    def linger_in(self, now: float) -> float | None:
        """Return the seconds until the job is given back, None if it does not linger."""
        return self._until - now if self._until is not None and now < self._until else None

    def look_in(self, now: float, in_force: int, costly: bool) -> float | None:
        """Return the seconds after which `target` may say something else by itself; None: it will not."""
        lingering = self.linger_in(now)
        if lingering is not None:
            return lingering
        if costly and self._wish.percent == 10 and in_force == 100:
            return max(self._wait(now), 0.1)
        return None

    def reason(self, now: float) -> str:
        """Say why a guess leaves the job alone, "" if it does not."""
        wait = self._wait(now) if self._wish.percent == 10 and self._held_since is None else 0.0
        if wait <= 0:
            return ""
        if len(self._guesses) >= self._limit:
            return f"left alone: guesses may pause it {self._limit} times an hour (MAX_PAUSES_PER_HOUR); a prompt may"
        return "left alone: it was given back only just now; a prompt may pause it"

    def booked(self, held: bool, now: float, lost: float = 0.0) -> None:
        """Note whether a costly job is held now, and what work is known to be lost."""
        account = replace(self.account, lost=self.account.lost + lost)
        if held and self._held_since is None:
            guess = self._wish.percent == 10
            if guess:
                self._guesses.append(now)
            self._held_since = now
            account = replace(account, pauses=account.pauses + 1, guesses=account.guesses + guess)
        elif not held and self._held_since is not None:
            account = replace(account, held=account.held + now - self._held_since)
            self._held_since, self._until, self._back_at = None, None, now
        self.account = account

    def _wait(self, now: float) -> float:
        """Return how long a guess has to wait until it may pause the job."""
        while self._guesses and now - self._guesses[0] >= HOUR:
            self._guesses.popleft()
        full = len(self._guesses) >= self._limit
        oldest = self._guesses[0] + HOUR if self._guesses else now + HOUR  # a limit of 0 is never over
        return max(self._back_at + REST - now, oldest - now if full else 0.0)
