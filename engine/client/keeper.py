"""Saves the server's context after a turn, so that it outlives a restart or sleep; and deletes what is too old."""

import logging
import os
from contextlib import suppress
from pathlib import Path

from engine.client import costs
from engine.client.answers import Kind, Saved, Slot
from engine.client.contexts import DISTRUSTED
from engine.client.costs import Expected
from engine.client.gguf import token_bytes
from engine.client.index import Cost, SavedContext
from engine.client.matching import model_key
from engine.client.slot_files import is_folder, look_at, make_private, measure, stamp_of
from engine.client.view import Facts, readable
from engine.client.workbench import Workbench
from engine.errors import ServerLoading, ServerRefused, ServerTimeout
from engine.events import ContextState

log = logging.getLogger(__name__)

SLACK = 5.0  # s more than a save should take: hanging up would not end it, and how large the file will be is a guess


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
        wall = bench.clock.wall()
        own, others = bench.contexts.cost(facts, bench.settings.server_url)
        token = token_bytes(Path(facts.model_path)) if facts.model_path else None
        expected = costs.expect(slot.n_prompt_tokens, own, others, wall, token)
        if not costs.bearable(expected, own):
            bench.say_once("saving this conversation would hold the server for too long: it is not kept")
            detail = f"saving it would hold the server for {expected.seconds:.0f} s: not kept"
            bench.tell(ContextState.WARM, slot.n_prompt_tokens, detail)
        elif bench.contexts.may_write(expected.size, wall):
            self._save(facts, slot, expected)
        else:
            bench.say_once("the day's budget for saving contexts is used up")

    def expire(self) -> None:
        """Delete the contexts that are older than CONTEXT_HOURS."""
        hours = self._bench.settings.context_hours
        gone = self._bench.contexts.expire(self._bench.clock.wall(), hours)
        if gone:
            log.info("deleted %d saved contexts older than %g hours", gone, hours)

    def _obstacle(self, facts: Facts) -> str:
        if not self._bench.settings.keep_context:
            return "KEEP_CONTEXT is off"
        if self._final is not None and self._final[0] == self._bench.view.starts:
            return self._final[1]
        if facts.unkeepable:
            return facts.unkeepable
        if self._bench.contexts.distrusts(facts, self._bench.settings.server_url):
            return DISTRUSTED
        return "" if facts.has_slots else "start the server without --no-slots to keep its context"

    def _last_used(self, facts: Facts) -> Slot | None:
        """Return the slot of the last turn; None while any slot works."""
        wanted = self._bench.settings.slot_id
        slots = self._bench.server.slots(facts.model)
        if any(slot.is_processing for slot in slots):
            return None
        mine = [slot for slot in slots if wanted in ("auto", str(slot.id))]
        return max(mine, key=lambda slot: -1 if slot.id_task is None else slot.id_task, default=None)

    def _save(self, facts: Facts, slot: Slot, expected: Expected) -> None:
        bench, folder = self._bench, facts.save_path or ""
        name = bench.contexts.next_name(facts, bench.settings.server_url)
        bench.contexts.begin(name, folder, bench.clock.wall())
        patience = 2 * expected.seconds + SLACK
        before, began = look_at(folder, name), bench.clock.now()
        try:
            answer = bench.act(slot.id, lambda: bench.server.save(slot.id, name, facts.model, timeout=patience))
        except ServerLoading:
            raise
        except ServerRefused as error:
            bench.contexts.spend(_grown(folder, name, before) or 0, bench.clock.wall())  # until the disk was full
            bench.contexts.discard(name, folder, bench.clock.wall())
            if error.status < 500 or error.status == 501:
                self._final = (bench.view.starts, f"the server refused to save it: {error.message}")
            raise
        except ServerTimeout:
            self._book_unfinished(facts, slot, expected, bench.clock.now() - began, _grown(folder, name, before))
            raise
        bench.learn_speed(answer.n_written, answer.save_ms)
        cost = Cost(answer.n_saved, answer.n_written, answer.save_ms / 1000, bench.clock.wall())
        bench.contexts.learn_cost(facts, bench.settings.server_url, cost)
        saved = self._confirmed(facts, slot, name, answer) if answer.n_saved > 0 else None
        if saved is None:  # another task emptied the slot meanwhile, or the file is not whole: the one before is good
            bench.contexts.discard(name, folder, bench.clock.wall())
            bench.contexts.spend(answer.n_written, bench.clock.wall())
            return
        bench.contexts.add(saved)
        log.info("saved %d tokens (%.1f MB)", saved.tokens, saved.size / 1e6)
        bench.tell(ContextState.WARM, saved.tokens, "saved")

    def _book_unfinished(self, facts: Facts, slot: Slot, expected: Expected, waited: float, seen: int | None) -> None:
        """Learn from a save that took too long; the server goes on with it. `seen`: bytes written, None: not seen.

        One that waited for a prompt, and was not begun, tells nothing of the disk.
        """
        bench = self._bench
        if bench.was_taken_back or seen == 0:
            return
        wall = bench.clock.wall()
        cost = costs.of_unfinished(slot.n_prompt_tokens or 0, expected, seen or 0, waited, wall)
        bench.learn_speed(seen or 0, waited * 1000)
        bench.contexts.learn_cost(facts, bench.settings.server_url, cost)
        bench.contexts.spend(cost.size, wall)

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


def _grown(folder: str, name: str, before: os.stat_result | None) -> int | None:
    """Return how many bytes of a file were written since `before`; None where nothing in its folder can be seen."""
    after = look_at(folder, name)
    if after is None:
        return 0 if is_folder(folder) else None
    return 0 if before is not None and stamp_of(before) == stamp_of(after) else after.st_size
