"""What Windows refuses for as long as somebody has the file open, if only to read it: to replace and to delete it.

The guardian loads this, so it must stay small.
"""

import sys
import time
from collections.abc import Callable

_PATIENCE = 0.5  # seconds; the guardian, a virus scanner or an indexer has it open for a moment only
_AGAIN = 0.01  # seconds between two tries


def once_free(action: Callable[[], object]) -> None:
    """Do it; on Windows try again for a while as long as it is refused. Raises OSError."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            action()
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() >= deadline:
                raise
            time.sleep(_AGAIN)
        else:
            return
