"""The pictures of the documents are made by scripts."""

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers import documents

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "packaging" / "window_screenshots.py"
PICTURES = ROOT / "resources" / "screenshots"


def size_of(file: Path) -> tuple[int, int]:
    """Return width and height of a PNG, in pixels."""
    head = file.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def test_a_picture_is_taken(tmp_path: Path) -> None:
    """Only the one that was asked for, as large as the one that is kept, without a screen."""
    command = [sys.executable, SCRIPT, tmp_path, "status-light"]
    subprocess.run(command, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}, check=True, timeout=120)
    assert [file.name for file in tmp_path.iterdir()] == ["status-light.png"]
    assert size_of(tmp_path / "status-light.png") == size_of(PICTURES / "status-light.png")


def test_every_picture_that_is_kept_is_taken_by_make() -> None:
    """None is left over from a window that is gone, and none of a document is missing."""
    kept = {file.stem for file in PICTURES.glob("*.png")}
    shown = {Path(link).stem for file in documents.DOCUMENTS for link in documents.links(file) if link.endswith(".png")}
    windows = set(re.search(r"window_screenshots.*?\n\t\t(.*)\n", (ROOT / "Makefile").read_text("utf-8"))[1].split())
    tray = (ROOT / "packaging" / "screenshots.py").read_text("utf-8")
    taken = {
        f"{name}-{colours}"
        for name in re.findall(r'f"([a-z-]+)-\{desktop\.name\}\.png"', tray)
        for colours in ("light", "dark")
    }
    assert kept == windows | taken
    assert shown <= kept
