"""The two options that every command takes, before or after its name: `--set NAME=VALUE` and `--config FILE`."""

import os
from collections.abc import Sequence
from pathlib import Path

from engine.config.store import Loaded, load
from engine.errors import SettingsError

NO_FILE = Path(os.devnull)  # what a replay shows must not depend on who runs it

HELP = """\
options of every command:
  --set NAME=VALUE   override a setting for this run (may be given again); `zat-scs settings` lists them
  --config FILE      take settings from this file instead of the user's
"""


def take_settings(argv: Sequence[str]) -> tuple[Loaded, list[str]]:
    """Take both options out of a command line; return the settings and the rest. Raises SettingsError.

    What follows a bare `--` belongs to another program and is left alone.
    """
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    mine, foreign = words[:end], words[end:]
    sets: list[str] = []
    config: Path | None = None
    rest: list[str] = []
    while mine:
        word = mine.pop(0)
        name, equals, value = word.partition("=")
        if name not in ("--set", "--config"):
            rest.append(word)
            continue
        if not equals:
            if not mine:
                raise SettingsError(f"{name}: expected {'NAME=VALUE' if name == '--set' else 'a file'} after it")
            value = mine.pop(0)
        if name == "--set":
            sets.append(value)
        else:
            config = Path(value)
    if config is not None and not config.exists():
        raise SettingsError(f"--config {config}: there is no such file")
    if config is None and rest[:1] == ["replay"]:
        config = NO_FILE
    return load(config, sets=sets), [*rest, *foreign]
