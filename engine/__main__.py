"""`python -m engine` is `zat-scs engine`, for machines that have the engine alone."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from engine import daemon
from engine.errors import SettingsError
from engine.options import HELP, take_settings


def main(argv: Sequence[str]) -> int:
    """Run the engine until Ctrl+C; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m engine", epilog=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--for", dest="seconds", type=float, metavar="S", help="end after so many seconds")
    parser.add_argument("--json", action="store_true", help="write snapshots and transitions as JSON lines")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record a trace: times and kinds, never content")
    try:
        loaded, words = take_settings(argv)
    except SettingsError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return 2
    options = parser.parse_args(words)
    return daemon.run(loaded, seconds=options.seconds, as_json=options.json, record=options.record)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
