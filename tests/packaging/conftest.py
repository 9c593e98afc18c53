"""Fixtures for tests of what is built: the bundle, made once for all of them, and only where something has changed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def bundle() -> Path:
    """Return the folder of the bundle, as `make bundle` leaves it; BUNDLE names another one."""
    given = os.environ.get("BUNDLE")
    if given:
        return Path(given)
    answer = subprocess.run(
        [sys.executable, ROOT / "packaging" / "bundle.py"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return ROOT / "dist" / "zat-scs"


@pytest.fixture(scope="session")
def program(bundle: Path) -> Path:
    """Return the bundled program."""
    return bundle / ("zat-scs.exe" if sys.platform == "win32" else "zat-scs")
