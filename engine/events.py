"""The seam: what happened (events), what to do (effects), and what everybody sees (Snapshot).

All is frozen, so it crosses threads without a lock. Times are monotonic seconds unless a name says otherwise.
"""

import enum
from dataclasses import dataclass, field

from engine.account import NOTHING, Account, Day, PromptReport
from engine.config.settings import Settings


class State(enum.Enum):
    """The four states of the founding text."""

    COLD_IDLE = "COLD_IDLE"
    SPECULATIVE_PREPARED = "SPECULATIVE_PREPARED"
    ACTIVE_INFERENCE = "ACTIVE_INFERENCE"
    DEGRADED = "DEGRADED"


class Why(enum.Enum):
    """Why the machine moved from one state to another."""

    THRESHOLD = "threshold"
    PROMPT = "prompt"
    TIMEOUT = "timeout"
    FINISHED = "finished"
    SERVER_LOST = "server_lost"
    SERVER_BACK = "server_back"
    PAUSED = "paused"
    CLOSING = "closing"


class ServerState(enum.Enum):
    """What is known of the language-model server."""

    UNKNOWN = "unknown"
    UP = "up"
    LOADING = "loading"
    ASLEEP = "asleep"
    BUSY = "busy"
    DOWN = "down"


class ContextState(enum.Enum):
    """What is known of the conversation that the server should hold.

    `saved`: a copy lies on disk and the server has lost or may lose its own; `warm`: the server holds it itself;
    `useless`: this model re-used nothing after a restore, so restoring has ended for it.
    """

    NONE = "none"
    SAVED = "saved"
    RESTORING = "restoring"
    RESTORED = "restored"
    WARM = "warm"
    USELESS = "useless"


# ---- Events for the machine -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tick:
    """One step of time: the fused probability and what stands behind it."""

    probability: float
    evidence_at: float | None = None  # when what the user did last spoke for a prompt; None: not since the start
    touched_at: float | None = None  # when the user last wrote or spoke; None: as evidence_at
    sensing: bool = True  # at least one sensor works
    known_window: bool = False  # a window that prompts come from is in front
    pays: bool = True  # a preparation may save what it costs the job, or that is not weighed


@dataclass(frozen=True, slots=True)
class PromptArrived:
    """The server began to work on a prompt, or queued it."""


@dataclass(frozen=True, slots=True)
class PromptFinished:
    """The server finished one prompt."""


@dataclass(frozen=True, slots=True)
class ServerLost:
    """The server does not answer any more, or is loading its model."""

    reason: str


@dataclass(frozen=True, slots=True)
class ServerBack:
    """The server answers again; `busy` prompts were already in work at that first look."""

    busy: int = 0


@dataclass(frozen=True, slots=True)
class ServerSlept:
    """The server put itself to sleep: its model and context are out of memory."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The user asked for no help for so many `seconds`, None: until further notice."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Resumed:
    """The user asked for help again."""


@dataclass(frozen=True, slots=True)
class PrepareRequested:
    """The user asked to prepare now, for so many `seconds`; None: INACTIVITY_TIMER. It teaches nothing."""

    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """The user asked for the card to be given back now; the next guess waits for quiet, as after a false positive."""


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """The user asked that what was learned of them be forgotten. It concerns the loop; the machine does not see it."""


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """A whole new set of settings is in force."""

    settings: Settings


@dataclass(frozen=True, slots=True)
class Closing:
    """The engine ends: everything is to be given back."""


MachineEvent = (
    Tick
    | PromptArrived
    | PromptFinished
    | ServerLost
    | ServerBack
    | ServerSlept
    | Paused
    | Resumed
    | PrepareRequested
    | ReleaseRequested
    | SettingsChanged
    | Closing
)


# ---- Reports from slow work: the loop shows them, the machine does not see them --------------------------------------


@dataclass(frozen=True, slots=True)
class ShareReport:
    """What is in force for the background job."""

    share: int  # percent left to the job, 100: it is not held
    verified: bool | None  # True: seen to hold, False: seen not to hold, None: nothing to verify
    backend: str
    detail: str = ""  # one sentence for people
    refused: tuple[tuple[str, str], ...] = ()  # names of other backends, each with why it does not fit
    linger_in: float | None = None  # seconds until a job that is held on after a reply is given back, None: it is not
    account: Account = NOTHING
    vram: str = ""  # memory of the card: server, job, free; "" where it cannot be known


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What the last look at the server showed. `pid`: of its process, where it runs here and may be looked at."""

    server: ServerState
    detail: str = ""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What became of the conversation. `tokens` in it, None unknown."""

    context: ContextState
    tokens: int | None = None
    detail: str = ""


Report = ShareReport | ServerReport | ContextReport | PromptReport
Event = MachineEvent | Report | ForgetRequested


# ---- Effects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetShare:
    """Leave `percent` of the card to the job: 100, 10 or 0. `linger`: a job that loses work by a pause may wait."""

    percent: int
    linger: bool = False


@dataclass(frozen=True, slots=True)
class FlagUnifiedMemory:
    """See to it that the server may use unified memory, as far as that can be done from outside."""


@dataclass(frozen=True, slots=True)
class PrepareContext:
    """Wake the server and restore its context if it was lost."""


@dataclass(frozen=True, slots=True)
class CancelPreparation:
    """Drop queued restores and their retries; one already sent is left alone."""


@dataclass(frozen=True, slots=True)
class KeepContext:
    """Save the context once the slot has come to rest."""


@dataclass(frozen=True, slots=True)
class ResetProbability:
    """P = 0."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The machine changed its state: for logs and listeners."""

    source: State
    target: State
    why: Why


@dataclass(frozen=True, slots=True)
class Tuned:
    """The threshold was moved by experience: for logs and listeners."""

    before: float
    after: float
    because: str


Effect = (
    SetShare | FlagUnifiedMemory | PrepareContext | CancelPreparation | KeepContext | ResetProbability | Moved | Tuned
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that shells, logs and recordings ever see of the engine, once a tick."""

    at: float  # Unix seconds
    state: State
    paused: bool = False
    paused_for: float | None = None  # seconds until it resumes by itself, None: not paused, or until resumed
    not_guessing: str | None = None  # why this is no moment to guess, such as "full-screen program"
    because: str = ""  # why it is prepared, for people; "" while it is not
    probability: float = 0.0
    threshold: float = 0.65
    f_c: float | None = None  # evidence of keys in [0, 1], None while their sensor is not there
    g_a: float | None = None  # the same of sound
    background_share: int = 100  # percent in force, never the wish
    background_verified: bool | None = None  # see ShareReport
    backend: str = "null"
    background_detail: str = ""
    linger_in: float | None = None  # seconds until a job that is held on after a reply is given back
    vram: str = ""  # memory of the card: server, job, free; "" where it cannot be known
    refused: tuple[tuple[str, str], ...] = ()  # other ways to hold the job, each with why it does not fit
    server: ServerState = ServerState.UNKNOWN
    server_detail: str = ""
    unified_memory: str = "unknown"
    context: ContextState = ContextState.NONE
    context_tokens: int | None = None
    context_detail: str = ""
    hits: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    holding: bool = False  # after a false positive: waiting for quiet before the next guess
    deadline_in: float | None = None  # seconds until a preparation without a prompt is given back
    late_ticks: int = 0
    sensors: dict[str, str] = field(default_factory=dict)  # name → "on", "off" or "unavailable: reason"
    today: Day | None = None  # what helping has brought and cost since midnight
    moves: tuple[Moved, ...] = ()  # transitions of this very tick
    closed: bool = False  # the last one: everything was given back
