"""Measures what ZAT-SCS costs on this machine: engine and tray, beside programs of their kind that do nothing.

    python -m diagnostics.overhead [--seconds 60] [--json | --markdown]

Quiet, while somebody types, while somebody speaks: each for so long, on a screen and a sound server of its own.
"""

import argparse
import signal
import sys

import msgspec

from diagnostics import overhead_run, overhead_table


def main(argv: list[str] | None = None) -> int:
    """Measure and print; return the exit code, 1 where not even the engine could be measured."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=_seconds, default=60.0, help="length of each measurement (default: 60)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print all figures as one JSON object")
    shape.add_argument("--markdown", action="store_true", help="print the table of the README")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything it started is ended
    try:
        found = overhead_run.run(options.seconds)
    except KeyboardInterrupt:
        print("broken off", file=sys.stderr)
        return 1
    if options.json:
        print(msgspec.json.encode(found).decode())
    else:
        print(overhead_table.markdown(found) if options.markdown else overhead_table.text(found))
    return 0 if any(found.costs[overhead_run.ENGINE].values()) else 1


def _seconds(text: str) -> float:
    value = float(text)
    if not 1.0 <= value <= 3600.0:
        raise argparse.ArgumentTypeError(f"{text} is not allowed: expected 1 to 3600 s")
    return value


if __name__ == "__main__":
    sys.exit(main())
