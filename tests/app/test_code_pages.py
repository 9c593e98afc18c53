"""What is printed where the system's encoding lacks a sign, as on Windows as soon as it goes into a file."""

import os
import subprocess
import sys
from pathlib import Path

from helpers.engine_process import ROOT, user_folders


def test_a_sign_that_the_code_page_lacks_is_written_out(tmp_path: Path) -> None:
    """The command goes on; an arrow becomes its number."""
    done = subprocess.run(
        [sys.executable, "-m", "app", "doctor", "--set", "SERVER_URL=http://127.0.0.1:9"],
        cwd=ROOT,
        env={**os.environ, **user_folders(tmp_path), "PYTHONIOENCODING": "cp1252"},
        check=False,
        capture_output=True,
        encoding="cp1252",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "\\u2192 no llama-server answers" in done.stdout
