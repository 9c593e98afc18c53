"""Progress of a long measurement on the standard error: a bar for people, `progress K N` lines for programs."""

import sys
from typing import TextIO

_WIDTH = 30


class Progress:
    """Counts to `total`."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._done = 0
        self._stream = sys.stderr if stream is None else stream
        self._show()

    def step(self) -> None:
        """Count one more."""
        self._done += 1
        self._show()

    def end(self) -> None:
        """Take the bar away."""
        if self._stream.isatty():
            print("\r\x1b[K", end="", file=self._stream, flush=True)

    def _show(self) -> None:
        if self._stream.isatty():
            full = _WIDTH * self._done // max(1, self._total)
            bar = "#" * full + "." * (_WIDTH - full)
            print(f"\r[{bar}] {self._done} of {self._total} prompts", end="", file=self._stream, flush=True)
        else:
            print(f"progress {self._done} {self._total}", file=self._stream, flush=True)
