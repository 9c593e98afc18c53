"""What restoring and keeping share: the server, what is known of it, and the care that each slot action needs."""

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.account import PromptReport
from engine.client.api import LlamaServer
from engine.client.contexts import Contexts
from engine.client.view import View
from engine.clock import Clock
from engine.config.settings import Settings
from engine.errors import ServerRefused, ServerTimeout, ServerUnreachable
from engine.events import ContextReport, ContextState, Event

log = logging.getLogger(__name__)

SLACK = 1.0  # s over what an action should take: a deferred one is dropped soon
SLOWEST_DISK = 100e6  # bytes/s assumed before the first own measurement
QUIET = 1.5  # s; the server looks for clients that hung up only after a second without results for anybody
UNSTRAND_TIMEOUT = 5.0  # s

_T = TypeVar("_T")


class Workbench:
    """Belongs to the prefetcher's thread, but for take_back()."""

    def __init__(
        self, settings: Settings, view: View, contexts: Contexts, clock: Clock, post: Callable[[Event], None]
    ) -> None:
        self.settings = settings
        self.server = LlamaServer(settings.server_url, settings.api_key)
        self.view = view
        self.contexts = contexts
        self.clock = clock
        self._post = post
        self._report: ContextReport | None = None
        self._said: set[str] = set()
        self._speed = SLOWEST_DISK
        self._taken_back = False
        self._slot = 0  # the one acted on last

    def patience(self, size: int) -> float:
        """Return how long an action on so many bytes may take before it is dropped, in seconds."""
        return 2 * size / self._speed + SLACK

    def act(self, slot: int, action: Callable[[], _T]) -> _T:
        """Do a slot action; a server that got busy meanwhile makes it wait, with the user's prompts behind it.

        llama.cpp takes one waiting task from its queue per slot that comes free, and a slot action frees none: the
        prompt behind it is stranded until any other request ends. That takes but a moment, so each action leaves a
        doubt, on which the watcher looks for such a prompt. Raises ServerTimeout, outcome unknown, when taken back.
        """
        view, answered = self.view, False
        self._slot, self._taken_back = slot, False
        view.own_actions += 1
        try:
            answer = action()
            answered = True
        except ServerRefused:
            answered = True
            raise
        except ServerUnreachable as error:
            if self._taken_back:
                raise ServerTimeout("taken back, since a prompt came first") from error
            raise
        finally:
            if not answered:
                view.quiet_until = self.clock.now() + QUIET
            view.in_doubt = True
            view.own_actions -= 1
        return answer

    @property
    def was_taken_back(self) -> bool:
        """Tell whether the last action was, so that nothing is known of it."""
        return self._taken_back

    def take_back(self) -> None:
        """Hang up on the action in flight, from another thread: it waits behind a prompt, or stands before one."""
        if self.view.own_actions and not self._taken_back:
            self._taken_back = True
            self.server.abort()

    def free_stranded(self) -> None:
        """Start the prompt that waits behind our last action though its slot is idle. Raises ServerError."""
        facts = self.view.facts
        if facts is None or facts.n_ctx is None:
            return
        log.info("a prompt may wait beside an idle slot; it is started now")
        self.view.own_requests += 1
        self.server.unstrand(facts.n_ctx, self._slot, facts.model, timeout=UNSTRAND_TIMEOUT)

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

    def book(self, report: PromptReport) -> None:
        """Report what prompts took from the server."""
        self._post(report)

    def say_once(self, sentence: str) -> None:
        """Log a warning once."""
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)
