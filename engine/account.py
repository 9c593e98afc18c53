"""What helping has cost and what it has brought: frozen values that travel with reports and snapshots."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Account:
    """Sums since the start. Only jobs that lose work by a pause are counted.

    `guesses`: pauses that no prompt had asked for when they began. `held`: seconds. `lost`: work done twice, in units
    of work (0.02: a fiftieth of one unit), as far as the job tells.
    """

    pauses: int = 0
    guesses: int = 0
    held: float = 0.0
    lost: float = 0.0


NOTHING = Account()


@dataclass(frozen=True, slots=True)
class PromptReport:
    """What the prompts since the last rest took from the server: the proof of what a preparation was good for.

    `reused`, `computed`: tokens. `seconds`: that computing those took, None where the server does not say.
    `restored`: tokens that we had put into its slot before, None: nothing of ours lay there. `woken`: seconds that
    waking the server took us before, None: we did not, or a prompt came meanwhile. `server`: name of server and model.
    """

    reused: int
    computed: int
    seconds: float | None
    restored: int | None
    woken: float | None
    server: str


@dataclass(frozen=True, slots=True)
class Day:
    """Sums of one local day; counts and seconds only.

    `preparations`: begun, `asked` of them by hand. `hits`: those that a prompt ended, `lead`: seconds from their begin
    to it. `false_alarms`: guesses that no prompt followed. `measured`: prompts whose saving is known; `reused`: tokens
    of ours that they took, `saved`: seconds for which nobody had to wait. `held_guessing`, `held_serving`: seconds of
    the job (half a card for 10 s counts 5) before a prompt that was guessed, and for one that came or was announced.
    `lost`: see Account.
    """

    date: str  # 2026-11-30
    preparations: int = 0
    asked: int = 0
    hits: int = 0
    lead: float = 0.0
    false_alarms: int = 0
    measured: int = 0
    reused: int = 0
    saved: float = 0.0
    held_guessing: float = 0.0
    held_serving: float = 0.0
    lost: float = 0.0
