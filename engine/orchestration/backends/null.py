"""The floor: leaves the background job alone. It is what is left where nothing else fits or helping is switched off."""

from engine.orchestration.backends.base import Applied


class NullBackend:
    """Does nothing and claims nothing. `reason`: why the job is left alone, fit to be shown."""

    name = "null"
    costly = False

    def __init__(self, reason: str = "") -> None:
        self._reason = reason

    def priority(self) -> int:
        """Return the lowest of all: it always fits."""
        return 0

    def apply(self, share: int) -> Applied:
        """Leave the job alone."""
        del share
        return Applied(100, None, self._reason)

    def verify(self) -> Applied:
        """Nothing is held, so there is nothing to verify."""
        return Applied(100, None, self._reason)

    def release(self) -> Applied:
        """Nothing is held, so there is nothing to give back."""
        return Applied(100, None, self._reason)

    def refresh(self) -> None:
        """Nothing can be done ahead."""
