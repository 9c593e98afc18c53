"""What an ordinary user can do: run by a test that is root. With a name: tries to hold somebody else's job."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers import holder
from helpers.job import Job, background_job, unique_name
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.events import ShareReport
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger
from engine.orchestration.mps import BackgroundShare


def say(word: str) -> None:
    """Tell the test how far we are."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def first_report_when_held(folder: Path, job: str, suspend: bool) -> ShareReport:
    """Ask for 0 percent; return what came of it, after it was given back."""
    reports: list[ShareReport] = []
    path = folder / "ledger.json"
    ours = {"BACKGROUND_METHOD": "process", "BACKGROUND_PROCESS_NAME": job, "FALLBACK_TO_SUSPEND": suspend}
    settings = Settings().replace(ours)
    share = BackgroundShare(settings, reports.append, Ledger(path), Guardian(path), SystemClock())
    share.start()
    wait_until(lambda: reports, what="the first report")
    if reports[-1].backend != "null":
        share.request(0)
        wait_until(lambda: reports[-1].detail, what="the second report")
    answer = reports[-1]
    assert share.close()
    return answer


def hold_and_be_killed(folder: Path, job: Job, name: str) -> None:
    """Let a controller hold the job, and kill it."""
    command = [sys.executable, "-B", holder.__file__, str(folder / "ledger.json"), name, "10", holder.LONG_LEASE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as controller:
        assert controller.stdout
        while not controller.stdout.readline().startswith("10 True"):
            assert controller.poll() is None
        assert job.stopped
        os.kill(controller.pid, signal.SIGKILL)
        say("killed")
    wait_until(lambda: job.running, what="the give-back")
    say("back")


def main(folder: Path) -> None:
    """Go through it all with a job of our own."""
    say("ordinary" if os.geteuid() else "root")
    name = unique_name()
    with background_job(name) as job:
        refusal = first_report_when_held(folder, name, suspend=False)
        assert refusal.backend == "null", refusal
        assert "FALLBACK_TO_SUSPEND" in dict(refusal.refused)["process"]
        say("refused")
        report = first_report_when_held(folder, name, suspend=True)
        assert (report.share, report.verified) == (0, True), report
        say("held")
        wait_until(lambda: job.running, what="the give-back")
        say("back")
        hold_and_be_killed(folder, job, name)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        if len(sys.argv) > 1:
            answer = first_report_when_held(Path(temporary), sys.argv[1], suspend=True)
            say(f"{answer.share} {answer.verified} {answer.detail}")
        else:
            main(Path(temporary))
