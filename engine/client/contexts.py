"""Which contexts were saved, and which of them may be given back to this very server. Talks to no server.

A server checks almost nothing of a slot file: a short one ends it, another fine-tune's is taken silently, and a refused
one leaves the slot empty. So everything is checked here, before it is asked.
"""

import hashlib
import logging
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from engine.client.index import Cost, Index, IndexFile, SavedContext, SlotFile
from engine.client.matching import misfit, model_key
from engine.client.slot_files import Fate, delete, look_at, named_like_ours
from engine.client.view import Facts

log = logging.getLogger(__name__)

DAILY_BYTES = 10_000_000_000  # written a day at most: slot files are large, and disks wear
GROWN_TOKENS = 256
GROWN_SHARE = 1.1
ENDED_AFTER = 2  # ends of the server in a row over files of one folder: one may be chance
USELESS_AFTER = 2  # restores in a row after which the next prompt re-used nothing
AHEAD = 3600.0  # s; what was saved later than this from now was saved while the clock was wrong
RETRIED = 7 * 86400.0  # s in which a file that could not be deleted is tried again
MOST_LEFT = 100  # of those that are remembered
DISTRUSTED = (
    "restoring from its folder ended the server, and the files cannot be checked from here: see whether that disk is "
    "full, then delete all saved contexts and start ZAT-SCS anew"
)


class Contexts:
    """The index of saved contexts: one small file of this user. `path`: where it lies."""

    def __init__(self, path: Path) -> None:
        self._file = IndexFile(path)
        self._index = self._file.read()

    def take_up(self) -> None:
        """Begin to act: what went into the server when this program ended may have ended both, so it is dropped."""
        noted = self._file.noted()
        name = (noted.filename, noted.folder) if noted else None
        saved = next((one for one in self._index.contexts if (one.filename, one.folder) == name), None)
        if saved is not None:
            log.warning("the program ended while %s was restored", saved.filename)
            self.condemn(saved)
        self._file.clear_note()

    def best(self, facts: Facts, server: str) -> SavedContext | None:
        """Return the newest context of this server's model; whether it fits is another question."""
        return next(iter(self._all_of(facts, server)), None)

    def fitting(self, facts: Facts, server: str) -> tuple[SavedContext | None, str]:
        """Return the newest context that fits, or None and why not."""
        if self.distrusts(facts, server):
            return None, DISTRUSTED
        reasons = []
        for saved in self._all_of(facts, server):
            reason = misfit(saved, facts)
            if reason is None:
                return saved, ""
            reasons.append(reason)
        return None, f"the saved context does not fit: {reasons[0]}" if reasons else "nothing was saved yet"

    def next_name(self, facts: Facts, server: str) -> str:
        """Return the name to save under: never that of the newest that fits, so that a good one always remains."""
        stem = f"zat-scs-{hashlib.blake2b(f'{server} {model_key(facts)}'.encode(), digest_size=6).hexdigest()}"
        good, _ = self.fitting(facts, server)
        return f"{stem}-b.bin" if good is not None and good.filename == f"{stem}-a.bin" else f"{stem}-a.bin"

    def worth_saving(self, last: SavedContext | None, tokens: int, before: int | None) -> bool:
        """Tell whether a slot that holds `tokens` now, and held `before` a turn ago, is worth writing.

        A shorter one than the last save is another conversation, or a program's short call: it must last two turns.
        """
        if last is None:
            return tokens > 0
        if tokens < last.tokens:
            return before is not None and before < last.tokens and tokens > before
        return tokens >= last.tokens + GROWN_TOKENS or tokens >= last.tokens * GROWN_SHARE

    def may_write(self, size: int, wall: float) -> bool:
        """Tell whether `size` bytes are still within the day's budget."""
        written = self._index.written if self._index.written_on == _day(wall) else 0
        return written + size <= DAILY_BYTES

    def cost(self, facts: Facts, server: str) -> tuple[Cost | None, list[Cost]]:
        """Return what the last save of this model took, and of the other models of its server."""
        own, costs = _cost_key(facts, server), self._index.costs
        return costs.get(own), [cost for key, cost in costs.items() if key.startswith(f"{server} ") and key != own]

    def learn_cost(self, facts: Facts, server: str, cost: Cost) -> None:
        """Take note of what a save took; the next writing of the list keeps it."""
        if cost.tokens > 0 and cost.size > 0:
            self._index.costs[_cost_key(facts, server)] = cost

    def spend(self, size: int, wall: float) -> None:
        """Take so many bytes from the day's budget, whatever became of them."""
        day, index = _day(wall), self._index
        if index.written_on != day:
            index.written_on, index.written = day, 0
        index.written += size
        self._write()

    def begin(self, filename: str, folder: str, wall: float) -> None:
        """Forget a name before its file is overwritten: if that fails half-way, nobody may trust the file."""
        self._forget_name(filename, folder)
        self._index.begun.append(SlotFile(filename, folder, wall))
        self._write()

    def add(self, saved: SavedContext) -> None:
        """Take in a context that the server has written."""
        self._forget_name(saved.filename, saved.folder)
        self._index.contexts.append(saved)
        self.spend(saved.size, saved.saved_at)

    def discard(self, filename: str, folder: str, wall: float) -> None:
        """Forget what was begun and is of no use, and delete its file."""
        self._remove(SlotFile(filename, folder, wall), wall)
        self._write()

    def drop(self, saved: SavedContext) -> None:
        """Forget a context that turned out not to be usable, and delete its file."""
        self._remove(saved, saved.saved_at)
        self._write()

    def restoring(self, saved: SavedContext) -> None:
        """Note that this one goes into the server now."""
        self._file.note(saved)

    def survived(self) -> None:
        """Note that the server has outlived what was noted."""
        self._file.clear_note()

    def proven(self, saved: SavedContext) -> None:
        """Note that the server has taken this one."""
        self._file.clear_note()
        if self._index.ended.pop(f"{saved.server} {saved.folder}", 0):
            self._write()

    def condemn(self, saved: SavedContext) -> None:
        """Take note that the server ended while this one was restored.

        One that was seen to be whole right before is not to blame the first time. Others are dropped, with their like;
        after the second time none of that folder is trusted: what cut one short, such as a file system that is too
        small, cuts the next one, too.
        """
        index, key = self._index, f"{saved.server} {saved.folder}"
        often = index.ended[key] = index.ended.get(key, 0) + 1
        if saved.stamp is None or often >= ENDED_AFTER:
            self._drop_all_like(saved)
        if saved.stamp is None and often >= ENDED_AFTER and key not in index.distrusted:
            index.distrusted.append(key)
        self._write()
        self._file.clear_note()

    def distrusts(self, facts: Facts, server: str) -> bool:
        """Tell whether a file of this server's folder has ended it, and none of them can be checked from here."""
        return f"{server} {facts.save_path or ''}" in self._index.distrusted

    def expire(self, wall: float, hours: float) -> int:
        """Delete the contexts that are older than so many hours; return how many. Those of a time to come age from now.

        Whether the clock was wrong then or is now, nobody knows.
        """
        contexts = self._index.contexts
        if any(saved.saved_at > wall + AHEAD for saved in contexts):
            self._index.contexts = contexts = [
                msgspec.structs.replace(saved, saved_at=wall) if saved.saved_at > wall + AHEAD else saved
                for saved in contexts
            ]
            self._write()
        old = [saved for saved in contexts if saved.saved_at < wall - 3600 * hours]
        unfinished = [begun for begun in self._index.begun if not wall - 3600 * hours <= begun.at <= wall + AHEAD]
        left = [one for one in self._index.left if abs(wall - one.at) < RETRIED]
        gone: tuple[SavedContext | SlotFile, ...] = (*old, *unfinished)
        for one in gone:
            self._remove(one, wall)
        for again in left:
            self._remove(again, again.at)
        if gone or left:
            self._write()
        return len(old)

    def forget(self, folders: Iterable[str] = ()) -> tuple[int, tuple[str, ...]]:
        """Delete all, and whatever is named like ours in `folders`.

        Return how many files went, and those that could not be deleted from here; of them it forgets what cannot even
        be seen.
        """
        index = self._index
        seen: dict[tuple[str, str], bool | None] = {
            (one.folder, one.filename): None for one in (*index.left, *index.begun)
        }
        seen |= {(saved.folder, saved.filename): saved.stamp is not None for saved in index.contexts}
        seen |= {(folder, name): True for folder in folders for name, _ in named_like_ours(folder)}
        fates = {name: delete(name[1], name[0], seen=known) for name, known in seen.items()}
        left = [name for name, fate in fates.items() if fate is Fate.LEFT]
        visible = [SlotFile(name, folder, 0.0) for folder, name in left if look_at(folder, name)]
        self._index = Index(written_on=index.written_on, written=index.written, left=visible)
        self._write()
        return list(fates.values()).count(Fate.DELETED), tuple(str(Path(*name)) for name in left)

    def forget_everywhere(self) -> tuple[int, tuple[str, ...]]:
        """Forget as a person means it: in each folder that is known, though the list itself may be broken or lost."""
        index = self._index
        known = {saved.folder for saved in index.contexts} | {one.folder for one in (*index.begun, *index.left)}
        result = self.forget({*known, *self._file.folders_beside()})
        self._file.delete_broken()
        return result

    def judge(self, facts: Facts, *, useful: bool) -> bool:
        """Book whether the prompt after a restore re-used anything; return whether restoring has ended for it."""
        key = _useless_key(facts)
        count = 0 if useful else self._index.useless.get(key, 0) + 1
        if count != self._index.useless.get(key, 0):
            self._index.useless[key] = count
            self._write()
        return count >= USELESS_AFTER

    def useless(self, facts: Facts) -> bool:
        """Tell whether restoring has ended for this model and build, since it gained nothing."""
        return self._index.useless.get(_useless_key(facts), 0) >= USELESS_AFTER

    def _all_of(self, facts: Facts, server: str) -> list[SavedContext]:
        """Return the contexts of this server's model, newest first: by their order, since clocks are set back."""
        key = model_key(facts)
        return [saved for saved in reversed(self._index.contexts) if saved.model == key and saved.server == server]

    def _drop_all_like(self, saved: SavedContext) -> None:
        """Drop what a server has written of this model into this folder."""
        for one in list(self._index.contexts):
            if (one.server, one.folder, one.model) == (saved.server, saved.folder, saved.model):
                self._remove(one, one.saved_at)

    def _remove(self, one: SavedContext | SlotFile, at: float) -> None:
        """Forget a file and delete it; what cannot be deleted is tried again for a week from `at`, and by `forget`."""
        self._forget_name(one.filename, one.folder)
        seen = one.stamp is not None if isinstance(one, SavedContext) else None
        if delete(one.filename, one.folder, seen=seen) is Fate.LEFT:
            self._index.left = [*self._index.left, SlotFile(one.filename, one.folder, at)][-MOST_LEFT:]

    def _forget_name(self, filename: str, folder: str) -> None:
        name, index = (filename, folder), self._index
        index.contexts = [saved for saved in index.contexts if (saved.filename, saved.folder) != name]
        index.begun = [begun for begun in index.begun if (begun.filename, begun.folder) != name]
        index.left = [left for left in index.left if (left.filename, left.folder) != name]

    def _write(self) -> None:
        self._file.write(self._index)


def _cost_key(facts: Facts, server: str) -> str:
    return f"{server} {model_key(facts)} {facts.cache_types}"


def _useless_key(facts: Facts) -> str:
    return f"{model_key(facts)} {facts.build}"


def _day(wall: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(wall))
