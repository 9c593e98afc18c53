"""The floor does nothing and claims nothing."""

import pytest
from helpers.backend_contract import BackendContract

from engine.orchestration.backends.base import Applied
from engine.orchestration.backends.null import NullBackend


class TestNullBackend(BackendContract):
    """The contract, and what is the floor's own."""

    @pytest.fixture
    def backend(self) -> NullBackend:
        """Give a floor with a reason."""
        return NullBackend("switched off")

    def test_it_says_why_the_job_is_left_alone(self, backend: NullBackend) -> None:
        """The reason is what people see in place of a backend."""
        assert backend.apply(0) == Applied(100, None, "switched off")

    def test_everything_else_comes_before_it(self, backend: NullBackend) -> None:
        """It is taken only where nothing else fits."""
        assert backend.priority() == 0
