"""Several jobs at once, each held in its own way: the card is needed whole."""

from collections.abc import Callable, Sequence

from engine.errors import ZatError
from engine.orchestration.backends.base import Applied, Backend


class SeveralBackends:
    """Passes each call on to all of its `backends`; one that fails does not keep the others from theirs."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)
        self.name = "+".join(backend.name for backend in backends)
        self.costly = any(backend.costly for backend in backends)

    def priority(self) -> int:
        """Return the highest of all."""
        return max(backend.priority() for backend in self._backends)

    def apply(self, share: int) -> Applied:
        """Leave so much to every job."""
        return self.release() if share == 100 else self._each(lambda backend: backend.apply(share))

    def verify(self) -> Applied:
        """Look at every job."""
        return self._each(lambda backend: backend.verify())

    def release(self) -> Applied:
        """Give every job back; what one could not give back is raised once all were asked."""
        answers: list[Applied] = []
        first: Exception | None = None
        for backend in self._backends:
            try:
                answers.append(_named(backend, backend.release()))
            except Exception as error:  # noqa: BLE001 - raised below: the next job is to be given back first
                first = first or error
        if first:
            raise first
        return _together(answers)

    def refresh(self) -> None:
        """Get all of them ready."""
        for backend in self._backends:
            backend.refresh()

    def _each(self, call: Callable[[Backend], Applied]) -> Applied:
        answers = []
        for backend in self._backends:
            try:
                answers.append(_named(backend, call(backend)))
            except ZatError as error:
                answers.append(Applied(100, False, f"{backend.name}: {error}"))
        return _together(answers)


def _named(backend: Backend, applied: Applied) -> Applied:
    detail = f"{backend.name}: {applied.detail}" if applied.detail else ""
    return Applied(applied.share, applied.verified, detail, applied.look_in, applied.lost)


def _together(answers: Sequence[Applied]) -> Applied:
    """Say what is in force for all: the card is yielded only when every job that works on it has left."""
    needed = [one for one in answers if one.verified is not None] or answers
    verdicts = {one.verified for one in needed}
    looks = [one.look_in for one in answers if one.look_in is not None]
    return Applied(
        max(one.share for one in needed),
        False if False in verdicts else True if True in verdicts else None,
        "; ".join(one.detail for one in answers if one.detail),
        min(looks) if looks else None,
        sum(one.lost for one in answers),
    )
