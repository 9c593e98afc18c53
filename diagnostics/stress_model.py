"""A model of llama-server in virtual time: its slots, who waits for them, their files, its sleep and its death.

Waiting is as measured on the real one: a slot action waits for a busy slot, one waiting call is taken up for each
prompt that ends, none for an action that ends, and a hang-up shows only after a second without any answer.
"""

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HEADER = 36  # bytes of a slot file without tokens
WINDOW = 0.01  # s; what changed more recently, nobody who asked before acting could have known
SEEN = 2.0  # s after which a new conversation, shorter than the saved one, must have been noticed
UNHEARD = 1.0  # s without any answer, after which it looks who hung up


@dataclass(eq=False)
class Task:
    """A call that needs a slot. `slot` None: any. `tokens`, `lasts`: of a prompt; `filename`: of an action."""

    kind: str  # "prompt", "save", "restore" or "unstrand"
    slot: int | None = None
    tokens: int = 0
    lasts: float = 0.0
    streamed: bool = False
    filename: str = ""
    status: int | None = None  # of its answer
    size: int = 0
    gone: bool = False  # its client hung up
    broken: bool = False  # its connection was cut by the server's end
    idle_since: float | None = None  # waits since then though a slot is free

    @property
    def over(self) -> bool:
        """Nobody waits for it any more."""
        return self.status is not None or self.gone or self.broken


@dataclass(eq=False)
class Slot:
    """One slot.

    `lived`: what it holds was made or used by a prompt; `since`: when that began, or when it got busy. `noticeable`:
    that prompt came after a look at this life of the server, so that the next look shows it.
    """

    tokens: int = 0
    lived: bool = False
    noticeable: bool = False
    since: float = 0.0
    busy: Task | None = None
    used: int | None = None  # the last task's number


class Agenda:
    """Virtual time and what is due in it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._due, (self.now + seconds, next(self._numbers), action))

    def step(self, until: float) -> bool:
        """Do the next thing that is due by then; if there is none, let the time pass and return False."""
        if not self._due or self._due[0][0] > until:
            self.now = max(self.now, until)
            return False
        at, _, action = heapq.heappop(self._due)
        self.now = max(self.now, at)
        action()
        return True


@dataclass
class ModelServer:
    """The server. `folder` holds its slot files; `wrongs` says what was done to it that must never be done."""

    agenda: Agenda
    folder: Path
    count: int = 1
    n_ctx: int = 8192
    alive: bool = True
    loading: bool = False
    asleep: bool = False
    life: int = 0
    tasks: int = 0
    computed: int = 0
    cached: int = 0
    predicted: int = 0
    blocked_until: float = 0.0
    wrongs: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)  # how many of each kind
    overtaken: int = 0  # restores that came a moment before a prompt, and were carried out after it
    looked_at: bool = False  # since it was started, or woke
    longest_wait: float = 0.0  # s that a prompt stood beside a free slot
    queue: deque[Task] = field(default_factory=deque)
    slots: list[Slot] = field(default_factory=list)
    _answered: float = 0.0  # when it last answered anybody

    def __post_init__(self) -> None:
        self.slots = [Slot() for _ in range(self.count)]

    @property
    def processing(self) -> int:
        """How many prompts are in work."""
        return sum(slot.busy is not None for slot in self.slots)

    # ---- What befalls it ---------------------------------------------------------------------------------------------

    def die(self) -> None:
        """End: every context and every connection is lost."""
        for task in (*self.queue, *(slot.busy for slot in self.slots)):
            if task is not None:
                task.broken = True
        self.alive = self.loading = self.asleep = self.looked_at = False
        self.queue.clear()
        self.slots = [Slot() for _ in range(self.count)]
        self.life += 1
        self.tasks = self.computed = self.cached = self.predicted = 0
        self.blocked_until = 0.0

    def rise(self, loads: float) -> None:
        """Start again; its model takes a while to load."""
        life, self.alive, self.loading = self.life, True, loads > 0

        def loaded() -> None:
            if self.life == life:
                self.loading = False

        self.agenda.after(loads, loaded)

    def sleep(self) -> None:
        """Fall asleep, unless something is to be done."""
        if self.alive and not self.loading and not self.processing and not self.queue:
            self.asleep, self.looked_at = True, False
            self.slots = [Slot() for _ in range(self.count)]

    def wake(self) -> None:
        """Wake up; what it held stays lost."""
        self.asleep = False

    def looked(self) -> None:
        """Note that somebody was told how it fares, by the loop that also looks for hang-ups."""
        self.looked_at, self._answered = True, self.agenda.now

    # ---- Calls -------------------------------------------------------------------------------------------------------

    def submit(self, task: Task) -> None:
        """Take a call in; it may have to wait for the loop, or for a slot."""
        if not self.alive or self.loading:
            task.broken = True
        elif self.agenda.now < self.blocked_until:
            life = self.life
            later = self.blocked_until - self.agenda.now
            self.agenda.after(later, lambda: self.submit(task) if self.life == life else _break(task))
        elif not task.gone:
            self.wake()
            self._judge(task)
            self.tasks += 1
            self._start(task)

    def hang_up(self, task: Task) -> None:
        """Let the client of a call leave; the server does not know yet."""
        task.gone = True
        self._listen(task)

    def _listen(self, task: Task) -> None:
        """Look whether a client has gone, once nobody was answered for a while."""
        streaming = any(slot.busy is not None and slot.busy.streamed for slot in self.slots)
        heard = self.agenda.now if streaming else self._answered
        wait = heard + UNHEARD - self.agenda.now
        if wait > 0 and (task in self.queue or any(slot.busy is task for slot in self.slots)):
            self.agenda.after(wait, lambda: self._listen(task))
        elif task in self.queue:
            self.queue.remove(task)
        else:
            self._finish(task, self.life)

    def _start(self, task: Task) -> None:
        slot = self._slot_for(task)
        if slot is None:
            self.queue.append(task)
        elif task.kind == "prompt":
            self._begin(task, slot)
        elif task.kind == "unstrand":
            self._say(task, 400)
            self._call_next()
        else:
            self._act(task, slot)

    def _slot_for(self, task: Task) -> Slot | None:
        if task.slot is not None:
            slot = self.slots[task.slot % self.count]
            return None if slot.busy else slot
        idle = [slot for slot in self.slots if slot.busy is None]
        return max(idle, key=lambda slot: slot.tokens, default=None)

    def _begin(self, task: Task, slot: Slot) -> None:
        reused = min(slot.tokens, task.tokens - 1)
        slot.busy, slot.used, slot.since, slot.noticeable = task, self.tasks, self.agenda.now, self.looked_at
        self.cached += reused
        self.computed += task.tokens - reused
        slot.tokens = task.tokens
        life = self.life
        self.agenda.after(task.lasts, lambda: self._finish(task, life))

    def _finish(self, task: Task, life: int) -> None:
        slot = next((slot for slot in self.slots if slot.busy is task), None)
        if slot is None or life != self.life:
            return
        slot.busy, slot.lived, slot.since = None, True, self.agenda.now
        self.predicted += 8
        slot.tokens += 8
        self._say(task, 200)
        self._call_next()

    def _call_next(self) -> None:
        if self.queue:
            self._start(self.queue.popleft())

    def _act(self, task: Task, slot: Slot) -> None:
        """Save or restore; whoever waits behind it is not called."""
        path = self.folder / task.filename
        if task.kind == "save":
            path.write_bytes(b"%036d" % slot.tokens + b"." * slot.tokens)
            task.tokens, task.size = slot.tokens, HEADER + slot.tokens
            self._say(task, 200)
            return
        data = path.read_bytes() if path.is_file() else b""
        wanted = int(data[:HEADER]) if len(data) >= HEADER else None
        if wanted is not None and len(data) < HEADER + wanted:
            self.die()
            task.broken = True
            return
        if slot.lived and slot.tokens:
            self.overtaken += 1
        slot.tokens, slot.lived = wanted or 0, False
        task.tokens, task.size = slot.tokens, len(data)
        self.blocked_until = self.agenda.now + 0.02
        self._say(task, 200 if wanted is not None else 400)

    def _say(self, task: Task, status: int) -> None:
        task.status = status
        self.done[task.kind] += 1
        self._answered = self.agenda.now

    # ---- Judgement ---------------------------------------------------------------------------------------------------

    def _judge(self, task: Task) -> None:
        """Note a restore that was sent though anybody who looked had seen better."""
        if task.kind != "restore":
            return
        slot, path = self.slots[(task.slot or 0) % self.count], self.folder / task.filename
        data = path.read_bytes() if path.is_file() else b""
        saved = int(data[:HEADER]) if len(data) >= HEADER else 0  # a refusal would wipe whatever it holds
        known_for = self.agenda.now - slot.since
        if len(data) < HEADER + saved:
            self.wrongs.append("a restore of a missing or short file was sent")
        if known_for <= WINDOW:
            return
        if slot.busy:
            self.wrongs.append("a restore was sent to a busy slot")
        elif slot.lived and (slot.tokens >= saved or (slot.noticeable and known_for > SEEN)):
            self.wrongs.append("a restore was sent to a warm slot")

    def watch_waiting(self) -> None:
        """Note how long prompts wait beside a free slot."""
        for task in self.queue:
            free = task.kind == "prompt" and not task.gone and self._slot_for(task) is not None
            task.idle_since = (task.idle_since or self.agenda.now) if free else None
            if task.idle_since is not None:
                self.longest_wait = max(self.longest_wait, self.agenda.now - task.idle_since)


def _break(task: Task) -> None:
    task.broken = True
