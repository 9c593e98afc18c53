"""Keeps logs down where trouble is the plan, and lets them speak again afterwards."""

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(level: int, *names: str) -> Iterator[None]:
    """Let the loggers of these names say only what is as grave as `level`, for as long as the block lasts."""
    logs = [logging.getLogger(name) for name in names]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(level)
    try:
        yield
    finally:
        for log, former in zip(logs, before, strict=True):
            log.setLevel(former)
