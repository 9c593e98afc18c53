"""The prompts of one user in a game of races: sent on threads of their own, and judged by what they re-used."""

import contextlib
import http.client
import random
import statistics
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics import client
from engine.clock import Clock

PATIENCE = 60.0  # s; who waits longer was left waiting
LENGTHS = range(200, 1601, 200)  # characters, each a token: a conversation that grows, and begins anew
WORDS = "The lighthouse keeper wrote down every ship that passed, its flag, its course and the hour. "
OTHER = "Something else"
# One token, which marks the beginning, is shared by all.
SHORTFALL = 16  # tokens that a prompt may re-use less than it could before that counts
LEFT = "left waiting"
ALIKE = 4  # characters of the answer that are compared: later ones may differ by rounding


@dataclass
class Sent:
    """One prompt. `life`: how often the context was lost before it was sent, and before its answer had come.

    A life of None: it was being lost just then.
    """

    text: str
    life: tuple[int | None, int | None]
    began: float
    ended: float = float("inf")
    reply: client.Reply | None = None
    failed: str = ""

    @property
    def undisturbed(self) -> bool:
        """Tell whether it was answered, and nothing was lost meanwhile."""
        return self.reply is not None and self.life[0] is not None and self.life[0] == self.life[1]


class Prompts:
    """What was sent to one server. `one_slot`: what it holds follows from the prompts alone; `sleep_after`: seconds."""

    def __init__(self, url: str, clock: Clock, *, one_slot: bool, sleep_after: float = float("inf")) -> None:
        self.all: list[Sent] = []
        self.one_slot = one_slot
        self._rest = sleep_after / 2  # s between two prompts after which the server may have slept
        self._url = url
        self._clock = clock
        self._losses = self._turn = 0
        self._losing = False
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def send(self, chance: random.Random, after: float = 0.0) -> None:
        """Send one that goes on with the conversation, or a short one about something else."""
        with self._lock:
            self._turn += 1
            text = _said(LENGTHS[self._turn % len(LENGTHS)]) if chance.random() < 0.85 else OTHER
            thread = threading.Thread(target=self._ask, args=(text, chance.choice((4, 20, 60)), after), name="prompt")
            self._threads.append(thread)
            thread.start()

    @contextlib.contextmanager
    def losing(self) -> Iterator[None]:
        """Take note that the server loses its context, or may lose it, while the block lasts."""
        self._losing = True
        self._losses += 1
        try:
            yield
        finally:
            self._losing = False

    @property
    def _life(self) -> int | None:
        return None if self._losing else self._losses

    def settle(self) -> None:
        """Wait until every prompt has its answer, or has none."""
        while self._threads:
            with self._lock:
                thread = self._threads.pop()
            thread.join()

    def _ask(self, text: str, n_predict: int, after: float) -> None:
        if after:
            threading.Event().wait(after)
        life, began = self._life, self._clock.now()
        sent = Sent(text, (life, life), began)
        try:
            reply = client.complete(self._url, text, self._clock, n_predict=n_predict, timeout=PATIENCE)
            if reply.cache_n is None:
                sent.failed = "cut off: the last part of a reply says what was re-used"
            else:
                sent.reply = reply
        except TimeoutError as error:
            sent.failed = f"{LEFT}: {error}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            sent.failed = str(error) or type(error).__name__
        sent.ended = self._clock.now()
        sent.life = life, self._life
        with self._lock:
            self.all.append(sent)

    @staticmethod
    def judged(of_all: Sequence["Prompts"]) -> dict[str, object]:
        """Return what became of the prompts of all users."""
        sent = [one for prompts in of_all for one in prompts.all]
        answered = [(one.text, one.reply) for one in sent if one.reply is not None]
        judged = [cost for prompts in of_all if prompts.one_slot for cost in prompts.shortfalls()]
        costs = [milliseconds for kept, milliseconds in judged if milliseconds and kept > 1]
        return {
            "prompts": len(sent),
            "answered": len(answered),
            "broken_by_kills": sum(bool(one.failed) and not one.failed.startswith(LEFT) for one in sent),
            "stranded": sum(one.failed.startswith(LEFT) for one in sent),
            "reuse_compared": len(judged),
            "wiped": sum(milliseconds > 0 and kept <= 1 for kept, milliseconds in judged),
            "overtaken": len(costs),
            "overtaken_cost_median_ms": round(statistics.median(costs), 1) if costs else None,
            "overtaken_cost_max_ms": round(max(costs), 1) if costs else None,
            "wrong_answers": _wrong(of_all),
            "longest_wait_s": round(max((reply.first_token for _, reply in answered), default=0.0), 2),
        }

    def shortfalls(self) -> list[tuple[int, float]]:
        """Return what each prompt re-used, and what it cost in ms to compute anew what the slot must have held.

        What the slot held follows from the prompt before. Where several may have been that, the worst of them counts;
        where the context was lost meanwhile, or one of them failed, nothing is known.
        """
        found = []
        for one in self.all:
            reply, before = one.reply, self._just_before(one)
            known = all(other.undisturbed and other.life == one.life for other in (one, *before))
            awake = all(one.began - other.ended < self._rest for other in before)
            if before and known and awake and reply is not None and reply.cache_n is not None and reply.prompt_n:
                held = min(_common(other.text, one.text) for other in before)
                missing = max(0, min(held, len(one.text) - 1) - reply.cache_n - SHORTFALL)
                found.append((reply.cache_n, 1000 * reply.first_token * missing / reply.prompt_n))
        return found

    def _just_before(self, one: Sent) -> list[Sent]:
        """Return the prompts one of which was the last before this, as far as the client can tell; none: unknown."""
        beside = [
            other for other in self.all if other is not one and other.ended > one.began and other.began < one.ended
        ]
        over = [other for other in self.all if other.ended <= one.began]
        last = max(over, key=lambda other: other.ended, default=None)
        return [] if last is None else [*beside, *(other for other in over if other.ended > last.began)]


def _wrong(of_all: Sequence[Prompts]) -> int:
    """Return how many answers are others than most are to the same prompt. Two slots at work round differently."""
    answers: dict[str, Counter[str]] = {}
    for prompts in of_all:
        for one in prompts.all if prompts.one_slot else ():
            if one.reply is not None:
                answers.setdefault(one.text, Counter())[one.reply.text[:ALIKE]] += 1
    return sum(counts.total() - max(counts.values()) for counts in answers.values())


def _said(length: int) -> str:
    return (WORDS * (length // len(WORDS) + 1))[:length]


def _common(first: str, second: str) -> int:
    """Return how many characters both begin with."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))
