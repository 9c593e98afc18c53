"""Fixtures for all tests."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers import elsewhere
from hypothesis import HealthCheck, settings

from diagnostics import tiny_model as writer

# No test depends on how fast the machine is.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

collect_ignore = elsewhere.not_for_here()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what asks for more than this system has."""
    elsewhere.skip(items)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a small model for the real server; skip where the packages for it are not installed."""
    missing = [name for name in ("gguf", "xllamacpp") if find_spec(name) is None]
    if missing:
        pytest.skip(f"the real server needs {' and '.join(missing)}: pip install -e '.[real-server]'")
    return writer.cached(tmp_path_factory.mktemp("models"))
