"""Decides whether a saved context goes back into the server now, and sends it: never on hope, never on a busy slot."""

import hashlib
import logging

from engine.account import PromptReport
from engine.client.answers import Kind, Model, Slot
from engine.client.index import SavedContext
from engine.client.matching import model_key
from engine.client.view import Facts, Reuse
from engine.client.workbench import Workbench
from engine.errors import ServerError, ServerHungUp, ServerLoading, ServerRefused, ServerTimeout, ServerUnreachable
from engine.events import ContextState
from engine.processes import ProcessId, alive

log = logging.getLogger(__name__)

GATEWAY = 502  # the server behind whoever says so has hung up
WAKE_TIMEOUT = 300.0  # s to load a model and restore
FEW = 64  # tokens in a slot that are no conversation yet: a check of its health, or the like
SAME = 0.9  # a prompt this long, compared with what was restored, may be its continuation; a shorter one is not


class Restorer:
    """Belongs to the prefetcher's thread."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._final: tuple[int, str] | None = None  # this start of the server is asked no more, and why
        self._facts: Facts | None = None  # the last ones known: while it is away they tell what was saved
        # Sent, not answered; in which start of the server; its process, where that is known.
        self._unsure: tuple[SavedContext, int, ProcessId | None] | None = None
        self._in_slot: SavedContext | None = None  # put there by us; a fresh server does not show it
        self._proving = False  # the next prompt tells whether the restore was of use
        self._woken: float | None = None  # s that waking the server took, until a prompt has had the good of it
        self._turn = 0  # of the view, when the server was last restored or woken

    def prepare(self, facts: Facts) -> None:
        """Wake and restore once. Raises ServerError; ServerUnreachable and ServerLoading may be tried again."""
        if not facts.is_llama:
            return
        if facts.kind is Kind.ROUTER and facts.model is None:
            self._bench.tell(ContextState.NONE, None, "no model is loaded, and none is loaded unasked")
        elif self._asleep(facts):
            self._wake(facts)
        else:
            self._restore_if_lost(facts)

    def stay_awake(self, facts: Facts) -> None:
        """Ask an awake server for its slots, which counts as work, so that it does not fall asleep before the prompt.

        Never wakes one: that would be without its context. Raises ServerError.
        """
        bench = self._bench
        if not facts.is_llama or not facts.can_sleep or not facts.has_slots or bench.view.busy or self._asleep(facts):
            return
        if facts.kind is Kind.ROUTER and Model(id=facts.model or "", status="loaded") not in bench.server.models():
            return
        bench.server.slots(facts.model)

    def judge(self, reuse: Reuse | None) -> None:
        """Take in what the watcher saw: a loss, or what the last prompts re-used."""
        view, facts = self._bench.view, self._bench.view.facts
        self._facts = facts or self._facts
        if view.loss is not None:
            self._in_slot, self._proving, self._woken = None, False, None
            self._tell_lost(self._facts, view.loss)
        if reuse is None or facts is None:
            return
        first = view.turns <= self._turn + 1  # of prompts before this one it is not known what they re-used
        saved = self._in_slot if self._proving and first else None
        self._book(facts, saved, reuse, self._woken if first else None)
        if saved is not None:
            self._prove(facts, saved, reuse)
        self._proving, self._woken = False, None

    def settle(self) -> None:
        """Find out what became of a restore whose answer was not waited for; to be asked often."""
        view = self._bench.view
        if self._unsure is None:
            return
        saved, starts, process = self._unsure
        if view.starts != starts and (process is None or not alive(process)):
            self._ended(saved)
        elif view.starts != starts or not view.in_doubt:  # it was out of reach for a while
            self._unsure = None
            self._bench.contexts.survived()

    def candidate(self, facts: Facts) -> tuple[SavedContext | None, str]:
        """Return the context to give back; None and the reason if there is none."""
        bench = self._bench
        if not bench.settings.keep_context:
            return None, "KEEP_CONTEXT is off"
        if facts.unkeepable:
            return None, facts.unkeepable
        if self._final is not None and self._final[0] == bench.view.starts:
            return None, self._final[1]
        if bench.contexts.useless(facts):
            return None, "this model re-uses nothing after a restore, so none is tried"
        return bench.contexts.fitting(facts, bench.settings.server_url)

    def _asleep(self, facts: Facts) -> bool:
        """Tell whether it sleeps at this moment: the watcher asks for this only now and then."""
        if facts.kind is Kind.ROUTER or not facts.can_sleep:
            return self._bench.view.sleeping
        return self._bench.server.props().is_sleeping

    def _wake(self, facts: Facts) -> None:
        """Wake a sleeping server. The restore itself does it; asking for its slots first would only take longer."""
        bench = self._bench
        saved, reason = self.candidate(facts)
        bench.view.waking = True
        began, turn = bench.clock.now(), bench.view.turns
        restoring: float | None = 0.0
        try:
            if saved is not None:
                restoring = self._restore(facts, saved, self._slot_for(facts, saved), WAKE_TIMEOUT, waking=True)
            else:
                bench.tell(ContextState.NONE, None, f"woken without a context: {reason}")
                bench.server.slots(facts.model, timeout=WAKE_TIMEOUT)
        except ServerError:
            bench.view.waking = False  # it may sleep on, and be woken by a prompt
            raise
        waited_for = bench.view.busy or bench.view.turns != turn
        self._turn = bench.view.turns
        if restoring is not None and not waited_for:
            self._woken = max(0.0, bench.clock.now() - began - restoring)

    def _restore_if_lost(self, facts: Facts) -> None:
        bench = self._bench
        saved, reason = self.candidate(facts)
        if saved is None:
            if bench.view.loss is not None:
                bench.tell(ContextState.USELESS if bench.contexts.useless(facts) else ContextState.NONE, None, reason)
            return
        number = self._slot_for(facts, saved)
        slots = bench.server.slots(facts.model) if facts.has_slots else ()
        held = [slot.n_prompt_tokens or 0 for slot in slots]
        if any(tokens >= saved.tokens for tokens in held):
            bench.view.loss = None
            bench.tell(ContextState.WARM, max(held))
        elif self._lost(saved, slots, number) and self._rests(facts, slots):
            self._restore(facts, saved, number, bench.patience(saved.size))

    def _lost(self, saved: SavedContext, slots: tuple[Slot, ...], number: int) -> bool:
        """Tell whether the context was seen to be gone, and not only that another conversation has begun.

        An empty slot beside others means nothing: the server may have moved what it held into its memory.
        """
        slot = next((slot for slot in slots if slot.id == number), None)
        if saved == self._in_slot and (slot is None or slot.n_prompt_tokens is None):
            return False  # a slot does not show what it was given before its first prompt
        if slot is not None and (slot.n_prompt_tokens or 0) > FEW:
            return False  # prompts that nobody saw: what has just begun is worth more than what was lost before
        return self._bench.view.loss is not None or (len(slots) == 1 and not slots[0].n_prompt_tokens)

    def _rests(self, facts: Facts, slots: tuple[Slot, ...]) -> bool:
        """Tell whether the server does nothing at this very moment, as far as it can be asked; if not, no."""
        if self._bench.view.busy:
            return False
        if slots:
            return not any(slot.is_processing for slot in slots)
        if not facts.has_metrics:
            return False
        metrics = self._bench.server.metrics(facts.model)
        return metrics.processing == 0 and not metrics.deferred

    def _slot_for(self, facts: Facts, saved: SavedContext) -> int:
        """Return the slot to fill; ids wrap on the server, so one beyond its count is never sent."""
        setting = self._bench.settings.slot_id
        wanted = saved.slot if setting == "auto" else int(setting)
        return wanted if facts.total_slots is None or wanted < facts.total_slots else 0

    def _restore(
        self, facts: Facts, saved: SavedContext, slot: int, timeout: float, *, waking: bool = False
    ) -> float | None:
        """Send it; return the seconds that the server needed for the restore alone, None if it did not succeed."""
        bench, loss = self._bench, self._bench.view.loss
        bench.tell(ContextState.RESTORING, saved.tokens)
        bench.contexts.restoring(saved)
        try:
            answer = bench.act(
                slot,
                lambda: bench.server.restore(slot, saved.filename, facts.model, timeout=timeout),
            )
        except ServerHungUp:
            self._hung_up(saved, waking=waking)
            raise
        except (ServerLoading, ServerUnreachable):
            bench.contexts.survived()
            raise
        except ServerRefused as error:
            self._refused(saved, error, waking=waking)
        except ServerTimeout as error:
            if bench.was_taken_back:
                bench.contexts.survived()
            else:
                self._unsure = saved, bench.view.starts, facts.process if facts.is_own else None
            log.warning("what became of restoring %d tokens is unknown: %s", saved.tokens, error)
            bench.tell(ContextState.SAVED, saved.tokens, "no answer to the restore: what the slot holds is unknown")
        else:
            bench.contexts.proven(saved)
            bench.learn_speed(answer.n_read, answer.restore_ms)
            if bench.view.loss is loss:  # else it was lost again meanwhile
                bench.view.loss = None
            # Not before: it may have waited for a prompt, which took nothing of it.
            self._in_slot, self._proving, self._turn = saved, True, bench.view.turns
            log.info("restored %d tokens in %.0f ms", answer.n_restored, answer.restore_ms)
            bench.tell(ContextState.RESTORED, answer.n_restored)
            return answer.restore_ms / 1000
        return None

    def _hung_up(self, saved: SavedContext, *, waking: bool) -> None:
        """Blame the file, but not one that is seen to be whole where the server may have failed to load its model."""
        if waking and saved.stamp is not None:
            self._bench.contexts.survived()
        else:
            self._ended(saved)

    def _ended(self, saved: SavedContext) -> None:
        """Take note that the server may have ended over this one, as it does over a file that is cut short."""
        log.warning("the server ended while %d tokens were restored", saved.tokens)
        self._unsure = None
        self._bench.contexts.condemn(saved)

    def _refused(self, saved: SavedContext, error: ServerRefused, *, waking: bool) -> None:
        """Ask this start of the server no more, if it is final: a refused restore leaves the slot empty."""
        if error.status == GATEWAY or error.message.startswith("proxy error"):
            self._hung_up(saved, waking=waking)  # said by whoever stands before it
        else:
            self._bench.contexts.survived()
        reason = f"the server refused to restore it: {error.message}"
        if error.status < 500 or error.status == 501:
            self._final = (self._bench.view.starts, reason)
        if error.status == 400:
            self._bench.contexts.drop(saved)
        log.warning("restoring %d tokens was refused: %s", saved.tokens, error)
        self._bench.tell(ContextState.NONE, None, reason)

    def _tell_lost(self, facts: Facts | None, loss: str) -> None:
        saved = self.candidate(facts)[0] if facts else None
        if saved is not None:
            self._bench.tell(ContextState.SAVED, saved.tokens, loss)
        else:
            self._bench.tell(ContextState.NONE, None, loss)

    def _book(self, facts: Facts, saved: SavedContext | None, reuse: Reuse, woken: float | None) -> None:
        url, ours = self._bench.settings.server_url, None if saved is None else saved.tokens
        name = server_name(facts, url)
        self._bench.book(PromptReport(reuse.cached, reuse.computed, reuse.seconds, ours, woken, name))

    def _prove(self, facts: Facts, saved: SavedContext, reuse: Reuse) -> None:
        """Book what the first prompt after a restore re-used: that alone proves it."""
        log.info("the prompt re-used %d tokens and computed %d", reuse.cached, reuse.computed)
        useful = reuse.cached > 0
        if not useful and reuse.computed < SAME * saved.tokens:
            return  # another conversation: it says nothing about this one
        if self._bench.contexts.judge(facts, useful=useful):
            self._bench.say_once("restoring has ended for this model and build: its prompts re-use nothing after it")
        if not useful:
            detail = f"none of the {saved.tokens} restored tokens were re-used"
            self._bench.tell(ContextState.USELESS, saved.tokens, detail)


def server_name(facts: Facts, url: str) -> str:
    """Return a name for this server with this model and build, which tells nothing of them."""
    return hashlib.blake2b(f"{url} {model_key(facts)} {facts.build}".encode(), digest_size=6).hexdigest()
