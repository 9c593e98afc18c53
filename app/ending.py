"""`zat-scs quit`: asks tray and engine to end, waits until both are gone, and undoes what is held even then."""

import sys
from pathlib import Path

import filelock

from engine.channel import ControlError, NotRunning, control_path
from engine.clock import SystemClock
from engine.config.store import state_folder
from engine.control_client import ControlClient

WITHIN = 30.0  # s for both to give everything back and end
_AGAIN = 0.5  # s after which they are asked anew: one that is just starting does not listen yet


def quit_all() -> int:
    """End whatever runs of this user; 1 where something still runs after 30 s, or a job cannot be given back."""
    from app import by_hand  # noqa: PLC0415 - brings parts of the engine that other commands can spare

    clock = SystemClock()
    deadline = clock.now() + WITHIN
    while trouble := _ask():
        if clock.now() >= deadline:
            print(f"zat-scs: {trouble}", file=sys.stderr)  # noqa: T201 - a command's answer
            return 1
    if by_hand.held() and by_hand.release() != 0:  # nobody is left to give it back
        return 1
    print("Nothing of yours runs any more; everything was given back.")  # noqa: T201
    return 0


def _ask() -> str:
    """Ask both to end and wait a moment; return what still runs, in a sentence, empty: nothing."""
    from app.host import tray_path  # noqa: PLC0415 - brings Qt, which other commands can spare

    # A tray that shows an engine of another process comes first: it would start one of its own in its place.
    silent = [reason for path in (tray_path(), control_path()) if (reason := _refusal(path))]
    busy = [f"the {what}" for what in ("tray", "engine") if not _free(state_folder() / f"{what}.lock")]
    return "; ".join([" and ".join(busy) + " did not end", *silent]) if busy else ""


def _refusal(path: Path) -> str:
    """Ask who listens there to end; return why that was not taken, empty: it was, or nobody listens."""
    try:
        with ControlClient(path) as client:
            client.request("quit")
    except NotRunning:
        pass
    except ControlError as error:
        return str(error)
    return ""


def _free(path: Path) -> bool:
    """Tell whether nobody holds this lock, or gives it up within a moment."""
    if not path.exists():
        return True
    try:
        with filelock.FileLock(path, timeout=_AGAIN):
            return True
    except filelock.Timeout:
        return False
