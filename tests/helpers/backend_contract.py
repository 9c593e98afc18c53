"""What holds for every backend, whatever it holds the job by: subclasses give `backend`, and `held` where it can hold.

Each backend starts with no job running.
"""

import pytest

from engine.orchestration.backends.base import Applied, Backend


class BackendContract:
    """The shared suite."""

    @pytest.fixture
    def backend(self) -> Backend:
        """Give the backend under contract."""
        raise NotImplementedError

    def test_it_has_a_name_and_a_priority(self, backend: Backend) -> None:
        """Both decide which backend is taken and shown."""
        assert backend.name
        assert backend.priority() >= 0

    @pytest.mark.parametrize("share", [100, 10, 0])
    def test_without_a_job_nothing_is_in_force(self, backend: Backend, share: int) -> None:
        """What is in force is reported, never the wish."""
        applied = backend.apply(share)
        assert (applied.share, applied.verified) == (100, None)
        backend.release()

    def test_verify_without_a_wish_says_that_nothing_is_in_force(self, backend: Backend) -> None:
        """Looking holds nothing."""
        assert backend.verify().share == 100

    def test_giving_back_what_is_not_held_is_harmless(self, backend: Backend) -> None:
        """It is done at every end, needed or not."""
        backend.release()
        assert backend.release().share == 100

    def test_after_giving_back_nothing_is_in_force(self, backend: Backend) -> None:
        """A look afterwards holds nothing again."""
        backend.apply(10)
        assert backend.release() == Applied(100, None, backend.release().detail)
        assert backend.verify().share == 100

    def test_the_same_wish_twice_has_the_same_answer(self, backend: Backend) -> None:
        """Nothing is done twice."""
        assert backend.apply(0) == backend.apply(0)
        backend.release()

    def test_getting_ready_changes_nothing(self, backend: Backend) -> None:
        """It may happen at any time."""
        backend.refresh()
        assert backend.verify().share == 100
