"""What people do by hand: give the background job back, delete saved contexts, forget what was learned."""

import sys
import threading

from engine import daemon
from engine.client.contexts import Contexts
from engine.clock import SystemClock
from engine.config.store import state_folder
from engine.errors import LedgerError
from engine.orchestration.ledger import Ledger
from engine.orchestration.leftovers import recover
from engine.parts import RealParts

_LOOK = 0.05  # s between two looks whether a file is gone


def held() -> bool:
    """Tell whether anything is written down to be undone, or nobody can tell."""
    try:
        return bool(Ledger(RealParts.of_user(SystemClock()).ledger).read())
    except LedgerError:
        return True


def release() -> int:
    """Undo whatever the ledger says is held; 0 when nothing is held any more."""
    parts = RealParts.of_user(SystemClock())
    pid = daemon.running(state_folder())
    try:
        sentences = recover(parts.ledger)
    except (LedgerError, OSError) as error:
        print(f"zat-scs: {error}", file=sys.stderr)  # noqa: T201 - a command's answer
        return 1
    for sentence in sentences or ("Nothing is held.",):
        print(sentence)  # noqa: T201
    if pid is not None and sentences:
        print(f"The engine (process {pid}) goes on; it may hold the job back again for the next prompt.")  # noqa: T201
    return 1 if held() else 0


def forget_habits() -> int:
    """Delete what was learned of the user, where no engine runs; 1 if it cannot be deleted."""
    path = RealParts.of_user(SystemClock()).learned
    there = path.exists()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        print(f"zat-scs: {path}: cannot be deleted: {error.strerror}", file=sys.stderr)  # noqa: T201 - a command's answer
        return 1
    print("Forgotten. The next engine learns anew." if there else "Nothing was learned yet.")  # noqa: T201
    return 0


def habits_gone(within: float) -> bool:
    """Wait for a running engine to delete what it learned, so many seconds at most; tell whether it did."""
    clock = SystemClock()
    path, deadline = RealParts.of_user(clock).learned, clock.now() + within
    while path.exists() and clock.now() < deadline:
        threading.Event().wait(_LOOK)
    return not path.exists()


def forget() -> int:
    """Delete all saved contexts; 1 if some lie where this user cannot delete them."""
    count, left = Contexts(RealParts.of_user(SystemClock()).contexts).forget_everywhere()
    print(f"Deleted {count} saved contexts." if count != 1 else "Deleted 1 saved context.")  # noqa: T201
    for path in left:
        print(f"zat-scs: not deleted, do it where the server runs: {path}", file=sys.stderr)  # noqa: T201
    return 1 if left else 0
