"""Waiting for a condition instead of for a time: a test must not depend on how fast its machine is."""

import time
from collections.abc import Callable


def wait_until(predicate: Callable[[], object], timeout: float = 20.0, what: str = "the condition") -> None:
    """Return as soon as `predicate` is true; fail the test after `timeout` seconds, naming `what` was awaited."""
    deadline = time.monotonic() + timeout
    while not predicate():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s for {what}")
        time.sleep(0.01)
