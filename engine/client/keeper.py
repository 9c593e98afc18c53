"""Saves the server's context after a turn, so that it outlives a restart or sleep; and deletes what is too old."""

import logging
from contextlib import suppress

from engine.client.answers import Kind, Saved, Slot
from engine.client.contexts import SavedContext, make_private, measure, model_key
from engine.client.view import Facts, readable
from engine.client.workbench import Workbench
from engine.errors import ServerLoading, ServerRefused
from engine.events import ContextState

log = logging.getLogger(__name__)

UNKNOWN_SIZE = 4.0  # s more for a save, since how large the file will be is a guess


class Keeper:
    """Belongs to the prefetcher's thread."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._turn_before: int | None = None  # tokens in the slot a turn ago
        self._final: tuple[int, str] | None = None  # this start of the server is asked no more, and why

    def keep(self) -> None:
        """Save the slot of the last turn, if it rests, grew, and the day's budget allows it. Raises ServerError."""
        bench, facts = self._bench, self._bench.view.facts
        if facts is None or not facts.is_llama or bench.view.busy or bench.view.sleeping or not bench.view.reachable:
            return
        reason = self._obstacle(facts)
        if reason:
            bench.tell(ContextState.WARM, None, reason)
            return
        if facts.kind is Kind.LLAMA_SERVER and facts.can_sleep and bench.server.props().is_sleeping:
            return  # asking for its slots would wake it, and they are empty
        slot = self._last_used(facts)
        if slot is None or not slot.n_prompt_tokens:
            return
        before, self._turn_before = self._turn_before, slot.n_prompt_tokens
        last, _ = bench.contexts.fitting(facts, bench.settings.server_url)
        bench.tell(ContextState.WARM, slot.n_prompt_tokens)
        if not bench.contexts.worth_saving(last, slot.n_prompt_tokens, before):
            return
        size = int(last.size / last.tokens * slot.n_prompt_tokens) if last else 0
        if bench.contexts.may_write(size, bench.clock.wall()):
            self._save(facts, slot, size)
        else:
            bench.say_once("the day's budget for saving contexts is used up")

    def expire(self) -> None:
        """Delete the contexts that are older than CONTEXT_HOURS."""
        hours = self._bench.settings.context_hours
        gone = self._bench.contexts.expire(self._bench.clock.wall() - 3600 * hours)
        if gone:
            log.info("deleted %d saved contexts older than %g hours", gone, hours)

    def _obstacle(self, facts: Facts) -> str:
        if not self._bench.settings.keep_context:
            return "KEEP_CONTEXT is off"
        if self._final is not None and self._final[0] == self._bench.view.starts:
            return self._final[1]
        if not facts.save_path:
            return "start the server with --slot-save-path FOLDER to keep its context"
        return "" if facts.has_slots else "start the server without --no-slots to keep its context"

    def _last_used(self, facts: Facts) -> Slot | None:
        """Return the slot of the last turn; None while any slot works."""
        wanted = self._bench.settings.slot_id
        slots = self._bench.server.slots(facts.model)
        if any(slot.is_processing for slot in slots):
            return None
        mine = [slot for slot in slots if wanted in ("auto", str(slot.id))]
        return max(mine, key=lambda slot: -1 if slot.id_task is None else slot.id_task, default=None)

    def _save(self, facts: Facts, slot: Slot, size: int) -> None:
        bench, folder = self._bench, facts.save_path or ""
        name = bench.contexts.next_name(facts, bench.settings.server_url)
        bench.contexts.begin(name, folder, bench.clock.wall())
        patience = bench.patience(size) + UNKNOWN_SIZE
        try:
            answer = bench.act(slot.id, lambda: bench.server.save(slot.id, name, facts.model, timeout=patience))
        except ServerLoading:
            raise
        except ServerRefused as error:
            bench.contexts.discard(name, folder)
            self._final = (bench.view.starts, f"the server refused to save it: {error.message}")
            raise
        bench.learn_speed(answer.n_written, answer.save_ms)
        saved = self._confirmed(facts, slot, name, answer) if answer.n_saved > 0 else None
        if saved is None:  # another task emptied the slot meanwhile, or the file is not whole: the one before is good
            bench.contexts.discard(name, folder)
            return
        bench.contexts.add(saved)
        log.info("saved %d tokens (%.1f MB)", saved.tokens, saved.size / 1e6)
        bench.tell(ContextState.WARM, saved.tokens, "saved")

    def _confirmed(self, facts: Facts, slot: Slot, name: str, answer: Saved) -> SavedContext | None:
        """Return the record of a save whose file, as far as it can be read, is what the server said."""
        bench, path = self._bench, readable(facts.save_path or "", name)
        written = None
        if path is not None:
            warning = make_private(path)
            if warning:
                bench.say_once(warning)
            with suppress(OSError):  # on another machine, or in a folder we may not read: the answer is all there is
                written = measure(path)
        if written is not None and written.size != answer.n_written:
            log.warning("a saved context has %d bytes, not %d: it is not used", written.size, answer.n_written)
            return None
        return SavedContext(
            filename=name,
            folder=facts.save_path or "",
            slot=slot.id,
            tokens=answer.n_saved,
            size=answer.n_written,
            stamp=written.stamp if written else None,
            digest=written.digest if written else None,
            server=bench.settings.server_url,
            model=model_key(facts),
            build=facts.build,
            n_ctx=facts.n_ctx,
            total_slots=facts.total_slots,
            cache_types=facts.cache_types,
            saved_at=bench.clock.wall(),
        )
