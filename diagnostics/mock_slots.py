"""The slots of the stand-in server: what they hold, who waits for them, their files and counters. Knows no HTTP.

One character counts as one token. Waiting is as in llama-server, its stranded prompts included; but a client that
hangs up is noticed at once, where llama-server takes a second or more.
"""

import re
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_BEGIN = "\x02"  # the token that every prompt begins with
_HEADER = struct.Struct("<8sI24x")  # 36 bytes, as an empty slot's file has with llama-server
_MAGIC = b"STAND-IN"
_BAD_NAME = re.compile(r"^$|^ |[. ]$|\.\.|[\x00-\x1f\x7f/\\:*?\"<>|]")
_UNUSABLE = "Unable to restore slot: No available space in KV cache or invalid slot save file"
Gone = Callable[[], bool]


class Refused(Exception):  # noqa: N818 - an answer, not a defect
    """The stand-in says no, as llama-server would."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class ClientGone(Exception):  # noqa: N818 - what happened, not a defect
    """The client hung up while its call was waiting."""


class Died(Exception):  # noqa: N818 - what happened, not a defect
    """Something happened at which llama-server aborts."""


def invalid(message: str) -> Refused:
    """Return the refusal of a request that makes no sense."""
    return Refused(400, "invalid_request_error", message)


@dataclass(eq=False)
class SlotState:
    """One slot: `text` is the context it holds."""

    id: int
    text: str = ""
    busy: bool = False
    task: int | None = None
    prompt: int = 0  # tokens of the prompt at work
    processed: int = 0
    reused: int = 0
    decoded: int = 0


@dataclass(eq=False)
class Turn:
    """One prompt at work in its slot. `cold`: the slot held next to nothing of it."""

    slot: SlotState
    prompt: str
    reused: int
    cold: bool
    reply: str = ""
    prompt_ms: float = 0.0
    predicted_ms: float = 0.0
    finished: bool = False


class Slots:
    """All slots, behind one lock; `folder` None: contexts cannot be saved."""

    def __init__(self, count: int, context: int, folder: Path | None) -> None:
        self.context = context
        self.folder = folder
        self.asleep = False
        self._count = count
        self._deferred: deque[object] = deque()
        self._turn = threading.Condition()
        self.reset()

    def reset(self) -> None:
        """Start afresh: nothing held, nothing counted. What is at work goes on unseen until it notices."""
        with self._turn:
            self.asleep = False
            self.all = [SlotState(number) for number in range(self._count)]
            self.prompt_tokens = self.cached_tokens = self.predicted_tokens = 0
            self._tasks = 0

    @property
    def processing(self) -> int:
        """How many prompts are at work."""
        return sum(slot.busy for slot in self.all)

    @property
    def deferred(self) -> int:
        """How many calls wait for a slot."""
        return len(self._deferred)

    def wake(self) -> None:
        """Wake up; the contexts stay lost."""
        self.asleep = False

    def forget(self) -> None:
        """Lose every context, as by a restart."""
        with self._turn:
            for slot in self.all:
                slot.text = ""

    def sleep(self) -> None:
        """Fall asleep: every context is lost, and the next call but for a few wakes the server."""
        self.forget()
        self.asleep = True

    def begin(self, text: str, wanted: int | None, gone: Gone) -> Turn:
        """Take a slot for a prompt, waiting for one if need be; Refused, or ClientGone."""
        prompt = _BEGIN + text
        with self._turn:
            slot = self._take(lambda: self._choose(prompt, wanted), gone)
            if len(prompt) >= self.context:
                self._call_next()
                raise Refused(
                    400,
                    "exceed_context_size_error",
                    f"request ({len(prompt)} tokens) exceeds the available context size ({self.context} tokens), "
                    "try increasing it",
                )
            reused = min(_shared(slot.text, prompt), len(prompt) - 1)
            slot.busy, slot.task = True, self._tasks
            slot.prompt, slot.processed, slot.reused, slot.decoded = len(prompt), 0, reused, 0
            return Turn(slot, prompt, reused, cold=reused * 10 < len(prompt))

    def prefilled(self, turn: Turn) -> None:
        """Book the prompt as computed."""
        with self._turn:
            computed = len(turn.prompt) - turn.reused
            turn.slot.text, turn.slot.processed = turn.prompt, computed
            self.prompt_tokens += computed
            self.cached_tokens += turn.reused

    def say(self, turn: Turn, character: str) -> None:
        """Add one token to the reply."""
        with self._turn:
            turn.reply += character
            turn.slot.decoded += 1

    def finish(self, turn: Turn) -> None:
        """Give the slot back and call the next who waits; harmless when done before."""
        with self._turn:
            if turn.finished:
                return
            turn.finished = True
            if turn.slot.text:  # else: forgotten meanwhile, or the client left before the prompt was computed
                turn.slot.text = turn.prompt + turn.reply[:-1]  # the last token was never fed back
            if turn.slot in self.all:  # else it belongs to a life before the last reset
                self.predicted_tokens += len(turn.reply)
            turn.slot.busy, turn.slot.decoded, turn.slot.processed, turn.slot.reused = False, 0, 0, 0
            self._call_next()

    def save(self, number: int, name: object, gone: Gone) -> tuple[int, int]:
        """Write a slot's context to a file; return its tokens and bytes."""
        path = self._path(name)
        with self._turn:
            slot = self._take_idle(number, gone)
            path.write_bytes(_HEADER.pack(_MAGIC, len(slot.text)) + slot.text.encode("utf-32-le"))
            return len(slot.text), path.stat().st_size

    def restore(self, number: int, name: object, gone: Gone) -> tuple[int, int]:
        """Replace a slot's context by a file's; return its tokens and bytes. A refusal empties the slot."""
        path = self._path(name)
        with self._turn:
            slot = self._take_idle(number, gone)
            slot.text = ""
            data = path.read_bytes() if path.is_file() else b""
            if len(data) < _HEADER.size:
                raise invalid(_UNUSABLE)
            magic, count = _HEADER.unpack_from(data)
            if magic != _MAGIC or count > self.context:
                raise invalid(_UNUSABLE)
            if len(data) < _HEADER.size + 4 * count:
                raise Died(f"{path.name} is cut short")
            slot.text = data[_HEADER.size :][: 4 * count].decode("utf-32-le")
            return count, len(data)

    def erase(self, number: int, gone: Gone) -> int:
        """Empty a slot; return the tokens it held."""
        with self._turn:
            slot = self._take_idle(number, gone)
            held, slot.text = len(slot.text), ""
            return held

    def _path(self, name: object) -> Path:
        if self.folder is None or not isinstance(name, str) or _BAD_NAME.search(name):
            raise invalid("Invalid filename")
        return self.folder / name

    def _choose(self, prompt: str, wanted: int | None) -> SlotState | None:
        """Return the slot for a prompt, None while there is none: the wanted one, else the most alike, else any."""
        if wanted is not None and wanted >= 0:
            slot = self.all[wanted % len(self.all)]
            return None if slot.busy else slot
        idle = [slot for slot in self.all if not slot.busy]
        return max(idle, key=lambda slot: _shared(slot.text, prompt), default=None)

    def _take_idle(self, number: int, gone: Gone) -> SlotState:
        slot = self.all[number % len(self.all)]
        return self._take(lambda: None if slot.busy else slot, gone)

    def _take(self, choose: Callable[[], SlotState | None], gone: Gone) -> SlotState:
        """Wait, holding the lock, until there is a slot; whoever waits must be called, a free slot is not enough."""
        self.wake()
        self._tasks += 1
        while (slot := choose()) is None:
            ticket = object()
            self._deferred.append(ticket)
            while ticket in self._deferred:
                self._turn.wait(0.02)
                if ticket in self._deferred and gone():
                    self._deferred.remove(ticket)
                    raise ClientGone
        return slot

    def _call_next(self) -> None:
        """Call one who waits. Only prompts do so when they end: a slot action does not, and strands what is behind."""
        if self._deferred:
            self._deferred.popleft()
            self._turn.notify_all()


def _shared(first: str, second: str) -> int:
    """Return the length of the common beginning."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))
