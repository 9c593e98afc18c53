"""What the user agreed to at the first start. Until then nothing is sensed, learned or saved."""

from pathlib import Path

from engine.config.settings import Settings
from engine.config.spec import Value
from engine.config.store import data_folder, write_private

GATED = ("KEYBOARD", "MICROPHONE", "WINDOW_FILTER", "LEARNED", "KEEP_CONTEXT")  # what needs an answer
_MARKER = "consent-answered"


def answered() -> bool:
    """Tell whether the questions of the first start were answered."""
    return (data_folder() / _MARKER).is_file()


def remember() -> Path:
    """Note that they were. Raises OSError."""
    path = data_folder() / _MARKER
    write_private(path, b"The questions of the first start were answered. Delete this file to be asked again.\n")
    return path


def gated(settings: Settings) -> Settings:
    """Return settings under which nothing is sensed, learned or saved."""
    off: dict[str, Value] = dict.fromkeys(GATED, False)
    return settings.replace(off)
