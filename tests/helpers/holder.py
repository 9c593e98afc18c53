"""A small program that holds a job as the engine does: `python holder.py LEDGER JOB SHARE NAME=VALUE...`.

It prints each report as a line, beats like the loop, and gives back when its standard input ends. With `--long-lease`
among the values its guardian acts at the end of the pipe, or else not for minutes.
"""

import select
import sys
from pathlib import Path

from engine.clock import SystemClock
from engine.config.settings import Settings, spec
from engine.events import ShareReport
from engine.orchestration import guardian
from engine.orchestration.ledger import Ledger
from engine.orchestration.mps import BackgroundShare

LONG_LEASE = "--long-lease"
_PATIENT = """
import sys
from engine.orchestration import guardian

guardian.LEASE = 600.0
sys.exit(guardian.main(sys.argv[1:]))
"""


def say(report: ShareReport) -> None:
    """Print one report for the test that waits for it."""
    sys.stdout.write(f"{report.share} {report.verified} {report.backend} {report.detail}\n")
    sys.stdout.flush()


def main(ledger: str, job: str, share: str, *sets: str) -> None:
    """Hold the job until standard input ends."""
    if LONG_LEASE in sets:
        guardian.command = lambda ledger: [sys.executable, "-P", "-c", _PATIENT, str(ledger)]
    pairs = (item.partition("=") for item in sets if item != LONG_LEASE)
    changes = {name: spec(name).parse(value) for name, _, value in pairs}
    ours = {"BACKGROUND_METHOD": "process", "BACKGROUND_PROCESS_NAME": job, "FALLBACK_TO_SUSPEND": True}
    settings = Settings().replace({**ours, **changes})
    held = BackgroundShare(settings, say, Ledger(Path(ledger)), guardian.Guardian(Path(ledger)), SystemClock())
    held.start()
    held.request(int(share))
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        held.beat()
    held.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
