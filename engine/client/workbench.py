"""What restoring and keeping share: the server, what is known of it, and the care that each slot action needs."""

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.client.api import LlamaServer
from engine.client.contexts import Contexts
from engine.client.view import Facts, View
from engine.clock import Clock
from engine.config.settings import Settings
from engine.errors import ServerError, ServerRefused
from engine.events import ContextReport, ContextState, Event

log = logging.getLogger(__name__)

SLACK = 1.0  # s over what an action should take: a deferred one is dropped soon
SLOWEST_DISK = 100e6  # bytes/s assumed before the first own measurement
STRANDED_LOOKS = 3  # looks in a row that show a prompt waiting beside idle slots
LOOK_EVERY = 0.1  # s

_T = TypeVar("_T")


class Workbench:
    """Belongs to the prefetcher's thread. `wait(seconds)` returns early when the program ends."""

    def __init__(
        self,
        settings: Settings,
        view: View,
        contexts: Contexts,
        clock: Clock,
        post: Callable[[Event], None],
        *,
        wait: Callable[[float], object],
    ) -> None:
        self.settings = settings
        self.server = LlamaServer(settings.server_url, settings.api_key)
        self.view = view
        self.contexts = contexts
        self.clock = clock
        self._post = post
        self._wait = wait
        self._report: ContextReport | None = None
        self._said: set[str] = set()
        self._speed = SLOWEST_DISK

    def patience(self, size: int) -> float:
        """Return how long an action on so many bytes may take before it is dropped, in seconds."""
        return 2 * size / self._speed + SLACK

    def act(self, facts: Facts, size: int, action: Callable[[], _T]) -> _T:
        """Do a slot action. One that took long may have been deferred, with a prompt stranded behind it: look."""
        started = self.clock.now()
        self.view.own_actions += 1
        try:
            return action()
        finally:
            took = self.clock.now() - started
            self.view.own_actions -= 1
            if took > SLACK / 2 + size / self._speed:
                self._free_stranded(facts)

    def learn_speed(self, size: int, milliseconds: float) -> None:
        """Take note of how fast the server's disk is; small files say nothing."""
        if size > 1_000_000 and milliseconds > 0:
            self._speed = max(10e6, min(size / (milliseconds / 1000), 2e9))

    def tell(self, context: ContextState, tokens: int | None, detail: str = "") -> None:
        """Report what became of the context, if that is news."""
        report = ContextReport(context, tokens, detail)
        if report != self._report:
            self._report = report
            self._post(report)

    def say_once(self, sentence: str) -> None:
        """Log a warning once."""
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)

    def _free_stranded(self, facts: Facts) -> None:
        """Start a prompt that the server forgot behind a slot action.

        llama.cpp takes one waiting task from its queue per slot that comes free, and a slot action frees none: the
        prompt behind it waits until any other request ends. So one token is asked for.
        """
        if not facts.has_metrics:
            return
        try:
            for _ in range(STRANDED_LOOKS):
                metrics = self.server.metrics(facts.model)
                if metrics.processing != 0 or not metrics.deferred:
                    return
                self._wait(LOOK_EVERY)
            log.warning("a prompt was left waiting beside an idle slot; it is started now")
            self.view.own_requests += 1
            self.server.complete(" ", 1, model=facts.model, timeout=60.0)
        except ServerRefused as error:
            self.say_once(f"a waiting prompt could not be started: {error}")
        except ServerError as error:
            log.info("a waiting prompt could not be looked after: %s", error)
