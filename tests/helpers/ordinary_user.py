"""Runs a Python script as a user without any rights, from a test that runs as root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_NOBODY = 65534


def run_as_ordinary_user(script: Path, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run the script; skip the test where that cannot be done. The interpreter may lie in a folder closed to others."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can become another user")
    command = [*_entry(), sys.executable, "-B", str(script), *arguments]
    root = Path(__file__).parents[2]
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": os.pathsep.join((str(root), str(root / "tests"))),
    }
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, cwd="/", check=False
    )


def _entry() -> list[str]:
    """Return what goes before the interpreter; the one right that may be left is to pass through closed folders."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("setpriv is not installed")
    common = [setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--bounding-set=-sys_nice,-kill"]
    plain = [*common, "--inh-caps=-all"]
    passing = [*common, "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]
    starts_again = "import msgspec, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    for entry in (plain, passing):
        trial = [*entry, sys.executable, "-B", "-c", starts_again]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return entry
    pytest.skip("an ordinary user cannot run this interpreter")
