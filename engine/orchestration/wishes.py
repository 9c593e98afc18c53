"""What is asked of the worker that holds the background job."""

from dataclasses import dataclass

from engine.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for: percent to the job; `linger`: only a reply has ended, so a costly job may wait."""

    percent: int = 100
    linger: bool = False


@dataclass(frozen=True, slots=True)
class Todo:
    """What the worker found to do when it woke."""

    wish: Wish
    settings: Settings | None
    guardian_lost: bool
    expected: bool
    closing: bool
