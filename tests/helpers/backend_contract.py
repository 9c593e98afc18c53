"""What holds for every backend, whatever it holds the job by: subclasses give `backend`, and `held` where it can hold.

Each backend starts with no job running.
"""

import pytest

from engine.orchestration.backends.base import Applied, Backend


class BackendContract:
    """The shared suite."""

    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    def test_it_has_a_name_and_a_priority(self, backend: Backend) -> None:
        assert backend.name
        assert backend.priority() >= 0

    @pytest.mark.parametrize("share", [100, 10, 0])
    def test_without_a_job_nothing_is_in_force(self, backend: Backend, share: int) -> None:
        applied = backend.apply(share)
        assert (applied.share, applied.verified) == (100, None)
        backend.release()

    def test_verify_without_a_wish_says_that_nothing_is_in_force(self, backend: Backend) -> None:
        assert backend.verify().share == 100

    def test_giving_back_what_is_not_held_is_harmless(self, backend: Backend) -> None:
        backend.release()
        assert backend.release().share == 100

    def test_after_giving_back_nothing_is_in_force(self, backend: Backend) -> None:
        backend.apply(10)
        assert backend.release() == Applied(100, None, backend.release().detail)
        assert backend.verify().share == 100

    def test_the_same_wish_twice_has_the_same_answer(self, backend: Backend) -> None:
        assert backend.apply(0) == backend.apply(0)
        backend.release()

    def test_getting_ready_changes_nothing(self, backend: Backend) -> None:
        backend.refresh()
        assert backend.verify().share == 100
