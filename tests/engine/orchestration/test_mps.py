"""The background job is held when asked and given back whatever happens; with real processes and real kills."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from helpers.holder import LONG_LEASE
from helpers.job import Job, background_job, unique_name
from helpers.ordinary_user import run_as_ordinary_user
from helpers.wait import wait_until

from engine import processes
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.events import ShareReport
from engine.orchestration.backends.base import Applied
from engine.orchestration.backends.process import ProcessBackend
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger, Resume
from engine.orchestration.mps import BackgroundShare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
real = pytest.mark.real
HELPERS = Path(__file__).parents[2] / "helpers"


class Bench:
    """A BackgroundShare with a loop that only beats, and all its reports."""

    def __init__(self, folder: Path, job: str) -> None:
        self.job = job
        self.ledger = Ledger(folder / "ledger.json")
        self.guardian = Guardian(self.ledger.path)
        self.reports: list[ShareReport] = []
        self.share = BackgroundShare(self.settings(), self.reports.append, self.ledger, self.guardian, SystemClock())
        self._over = threading.Event()
        self._loop = threading.Thread(target=self._beat)

    def settings(self, **changes: Value) -> Settings:
        """Return settings that suspend this bench's job, and find no other one."""
        nowhere: dict[str, Value] = {"FOLDING_URL": "ws://127.0.0.1:9/", "BOINC_URL": "127.0.0.1:9"}
        ours: dict[str, Value] = {"BACKGROUND_PROCESS_NAME": self.job, "FALLBACK_TO_SUSPEND": True}
        return Settings().replace({**nowhere, **ours, **changes})

    def _beat(self) -> None:
        while not self._over.wait(0.1):
            self.share.beat()

    def start(self) -> None:
        """Begin, and wait for the first report."""
        self.share.start()
        self._loop.start()
        wait_until(lambda: self.reports, what="the first report")

    def stop(self) -> None:
        """End everything."""
        self.share.close()
        self._over.set()
        if self._loop.ident:
            self._loop.join()

    @property
    def last(self) -> ShareReport:
        """The newest report."""
        return self.reports[-1]

    def wait_for(self, share: int, verified: bool | None) -> None:
        """Wait until the newest report says this."""
        wait_until(
            lambda: (self.last.share, self.last.verified) == (share, verified),
            what=f"{share} {verified}, not {self.last}",
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Give a bench for a job that does not run yet."""
    bench = Bench(tmp_path, unique_name())
    yield bench
    bench.stop()


@pytest.fixture
def held(bench: Bench) -> Iterator[tuple[Bench, Job]]:
    """Give a job that is held."""
    with background_job(bench.job) as job:
        bench.start()
        bench.share.request(10)
        bench.wait_for(10, True)
        yield bench, job
        bench.stop()


# ---- Asking ----------------------------------------------------------------------------------------------------------


@real
def test_the_job_is_held_and_given_back(held: tuple[Bench, Job]) -> None:
    """10 and 0 percent both stop it; at 100 it runs, and no ledger is left."""
    bench, job = held
    assert job.stopped
    assert bench.last.backend == "process"
    bench.share.request(0)
    bench.wait_for(0, True)
    assert job.stopped
    bench.share.request(100)
    bench.wait_for(100, None)
    assert job.running
    assert not bench.ledger.path.exists()
    assert bench.guardian.alive


def test_nothing_is_held_where_no_job_runs_and_a_job_that_comes_is_held(bench: Bench) -> None:
    """The report says what is in force, not what is wished."""
    bench.start()
    bench.share.request(10)
    wait_until(lambda: bench.last.detail == f"no {bench.job} is running", what="the report")
    assert (bench.last.share, bench.last.verified) == (100, None)
    with background_job(bench.job) as job:
        bench.wait_for(10, True)
        assert job.stopped
        bench.share.request(100)
        bench.wait_for(100, None)


@real
def test_only_the_newest_wish_counts_and_the_same_wish_is_not_repeated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wishes made while the worker is busy are passed over but for the last."""
    bench.start()
    began, go_on = threading.Event(), threading.Event()
    wishes: list[int] = []

    def slow(_: ProcessBackend, share: int) -> Applied:
        wishes.append(share)
        began.set()
        assert go_on.wait(10)
        return Applied(share, None)

    monkeypatch.setattr(ProcessBackend, "apply", slow)
    bench.share.request(10)
    assert began.wait(10)
    for percent in (0, 100, 10, 0):
        bench.share.request(percent)
    go_on.set()
    wait_until(lambda: len(wishes) == 2, what="the second wish")
    bench.share.request(0)
    bench.share.request(0)
    wait_until(lambda: bench.share._applied == 0, what="the worker")
    assert wishes == [10, 0]


def test_only_changes_are_posted(held: tuple[Bench, Job]) -> None:
    """Looking again each second fills no inbox."""
    bench, _ = held
    count = len(bench.reports)
    time.sleep(1.3)
    assert len(bench.reports) == count


def test_expected_evidence_lets_the_worker_get_ready_at_most_once_in_two_seconds(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typing is not to cost a look at all processes per key."""
    looked: list[float] = []
    bench.start()
    monkeypatch.setattr(ProcessBackend, "refresh", lambda _: looked.append(time.monotonic()))
    for _ in range(50):
        bench.share.expect()
        time.sleep(0.005)
    wait_until(lambda: looked, what="the look")
    assert len(looked) == 1


# ---- Choosing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "backend", "refused", "detail"),
    [
        ("auto", "process", {"mps", "folding", "boinc"}, ""),
        ("process", "process", set(), ""),
        ("off", "null", set(), "switched off"),
        ("mps", "null", {"mps"}, "mps: "),
        ("folding", "null", {"folding"}, "folding: no Folding@home client at 127.0.0.1:9: nobody listens"),
        ("boinc", "null", {"boinc"}, "boinc: "),
    ],
)
def test_the_method_chooses_the_backend(
    bench: Bench, method: str, backend: str, refused: set[str], detail: str
) -> None:
    """What does not fit is refused with a reason, and the floor is always there."""
    bench.start()
    bench.share.reopen(bench.settings(BACKGROUND_METHOD=method))
    wait_until(lambda: {name for name, _ in bench.last.refused} == refused, what="the choice")
    assert bench.last.backend == backend
    assert (bench.last.share, bench.last.verified) == (100, None)
    assert bench.last.detail.startswith(detail)


@real
def test_other_settings_give_back_first(held: tuple[Bench, Job]) -> None:
    """The wish outlives the change, and is fulfilled under the new settings."""
    bench, job = held
    bench.share.reopen(bench.settings(BACKGROUND_METHOD="off"))
    wait_until(lambda: bench.last.backend == "null", what="the other backend")
    wait_until(lambda: job.running, what="the job to go on")
    assert bench.last.share == 100
    bench.share.reopen(bench.settings())
    bench.wait_for(10, True)
    assert job.stopped


# ---- Dying and failing -----------------------------------------------------------------------------------------------


@real
def test_a_job_that_starts_again_is_held_again(held: tuple[Bench, Job]) -> None:
    """A service manager may restart the job at any time."""
    bench, job = held
    job.kill()
    bench.wait_for(100, None)
    with background_job(bench.job) as again:
        bench.wait_for(10, True)
        assert again.stopped
        bench.share.close()
        assert again.running


@real
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_guardian_is_replaced_and_the_job_held_again(
    held: tuple[Bench, Job], number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    """The job is never held without a guardian for longer than a beat."""
    bench, job = held
    first = bench.guardian.pid
    assert first
    os.kill(first, number)
    wait_until(lambda: bench.guardian.pid not in (None, first), what="the new guardian")
    bench.wait_for(10, True)
    wait_until(lambda: job.stopped, what="the job to be held again")
    assert "guardian is gone" in caplog.text
    assert bench.ledger.read()


@real
def test_a_loop_that_hangs_loses_the_job_until_it_beats_again(held: tuple[Bench, Job]) -> None:
    """The worker must not take the job back for a loop that does not live."""
    bench, job = held
    bench._over.set()
    bench._loop.join()
    wait_until(lambda: job.running, what="the give-back")
    bench.wait_for(100, False)
    assert "this program stood still" in bench.last.detail
    time.sleep(1.2)
    assert job.running
    bench.share.beat()
    bench.wait_for(10, True)
    assert job.stopped


@real
def test_a_guardian_killed_beside_a_loop_that_hangs_loses_the_job_too(held: tuple[Bench, Job]) -> None:
    """Two faults at once: the worker sees both and gives back by itself."""
    bench, job = held
    bench._over.set()
    bench._loop.join()
    assert bench.guardian.pid
    os.kill(bench.guardian.pid, signal.SIGKILL)
    wait_until(lambda: job.running, what="the give-back")
    time.sleep(1.2)
    assert job.running


@real
def test_a_worker_that_hangs_when_it_should_give_back_loses_the_job(
    held: tuple[Bench, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live loop alone is no proof that all is well."""
    bench, job = held
    go_on = threading.Event()
    with monkeypatch.context() as hanging:
        hanging.setattr(ProcessBackend, "apply", lambda *_: go_on.wait(60))
        bench.share.request(100)
        try:
            wait_until(lambda: job.running, what="the give-back")
        finally:
            go_on.set()


@real
def test_a_backend_that_fails_is_said_once_and_gives_back_until_it_worked(
    held: tuple[Bench, Job], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first reason is shown, and the next wish is tried anew."""
    bench, job = held
    release = ProcessBackend.release
    tries = []

    def broken(*_: object) -> Applied:
        raise RuntimeError("the disk is on fire")

    def broken_twice(backend: ProcessBackend) -> Applied:
        tries.append(backend)
        if len(tries) < 3:
            raise RuntimeError("still on fire")
        return release(backend)

    with monkeypatch.context() as trouble:
        trouble.setattr(ProcessBackend, "verify", broken)
        trouble.setattr(ProcessBackend, "release", broken_twice)
        bench.wait_for(100, False)
        assert bench.last.detail == "the disk is on fire"
        wait_until(lambda: job.running, what="the give-back")
        assert len(tries) == 3
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    bench.share.request(0)
    bench.wait_for(0, True)
    assert job.stopped


@real
def test_a_forged_ledger_does_not_keep_the_job(held: tuple[Bench, Job], caplog: pytest.LogCaptureFixture) -> None:
    """What we know ourselves is given back whatever the file says."""
    bench, job = held
    bench.ledger.path.chmod(0o666)
    bench.share.request(100)
    wait_until(lambda: job.running, what="the give-back")
    wait_until(lambda: "ledger.json.refused" in caplog.text, what="the sentence")
    bench.share.request(10)
    bench.wait_for(10, True)


def test_without_a_guardian_nothing_is_held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written down, not armed, so not done."""
    monkeypatch.setattr("engine.orchestration.guardian.command", lambda _: ["/nowhere/python"])
    with background_job(bench.job) as job:
        bench.start()
        bench.share.request(10)
        bench.wait_for(100, False)
        assert "guardian cannot be started" in bench.last.detail
        assert job.running
        assert not bench.ledger.path.exists()


@real
def test_the_next_start_gives_back_what_was_left(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It happens before anything else and is logged."""
    with background_job(bench.job) as job:
        bench.ledger.record([Resume(job.pid, job.workers[0].start, bench.job)])
        os.kill(job.pid, signal.SIGSTOP)
        bench.start()
        wait_until(lambda: job.running, what="the give-back")
        assert f"{bench.job} ({job.pid}) goes on" in caplog.text


# ---- Closing ---------------------------------------------------------------------------------------------------------


@real
def test_closing_gives_back_and_may_be_repeated(held: tuple[Bench, Job]) -> None:
    """Worker and guardian are gone afterwards."""
    bench, job = held
    assert bench.share.close()
    assert job.running
    assert bench.share.close()
    assert bench.last.share == 100
    assert not bench.ledger.path.exists()
    assert not bench.guardian.alive


def test_what_was_never_started_is_closed(bench: Bench) -> None:
    """There is nothing to give back."""
    assert bench.share.close()


@real
def test_what_cannot_be_given_back_in_time_is_said_and_left_to_the_guardian(
    held: tuple[Bench, Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing is bounded, and its answer is honest."""
    bench, job = held

    def broken(_: object) -> Applied:
        raise RuntimeError("no")

    monkeypatch.setattr(ProcessBackend, "release", broken)
    monkeypatch.setattr("engine.orchestration.leftovers.recover", broken)
    assert not bench.share.close(timeout=0.5)
    wait_until(lambda: job.running, what="the guardian")


# ---- A controller that dies ------------------------------------------------------------------------------------------


@contextmanager
def _controller(folder: Path, job: Job, name: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that holds the job, in a process group of its own."""
    command = [sys.executable, str(HELPERS / "holder.py"), str(folder / "ledger.json"), name, "10", *more]
    root = HELPERS.parents[1]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as controller:
        assert controller.stdout
        while not controller.stdout.readline().startswith("10 True"):
            assert controller.poll() is None
        assert job.stopped
        yield controller
        with suppress(ProcessLookupError):
            controller.kill()


@real
@pytest.mark.parametrize("whom", ["itself", "its group"])
def test_a_killed_controller_loses_the_job_at_once(tmp_path: Path, whom: str) -> None:
    """The end of the pipe, not the lease, tells the guardian."""
    name = unique_name()
    with background_job(name, children=2) as job, _controller(tmp_path, job, name, LONG_LEASE) as controller:
        if whom == "itself":
            controller.kill()
        else:
            os.killpg(controller.pid, signal.SIGKILL)
        wait_until(lambda: job.running, what="the give-back")  # sooner than the lease would run out
        wait_until(lambda: not (tmp_path / "ledger.json").exists(), what="the cleared ledger")


@real
def test_a_stopped_controller_loses_the_job_within_the_lease_and_holds_it_again(tmp_path: Path) -> None:
    """Once it goes on it sees that the guardian acted, and starts over."""
    name = unique_name()
    with background_job(name) as job, _controller(tmp_path, job, name) as controller:
        os.kill(controller.pid, signal.SIGSTOP)
        wait_until(lambda: job.running, what="the give-back")
        os.kill(controller.pid, signal.SIGCONT)
        wait_until(lambda: job.stopped, what="the job to be held again")
        assert controller.stdin
        controller.stdin.close()
        assert controller.wait(10) == 0
        assert job.running


@real
def test_an_ordinary_user_can_stop_but_not_lower_and_is_never_left_with_a_stopped_job() -> None:
    """Most people run this without any rights."""
    done = run_as_ordinary_user(HELPERS / "as_ordinary_user.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ordinary", "refused", "held", "back", "killed", "back"]


@real
def test_nobody_elses_job_is_touched_by_an_ordinary_user() -> None:
    """The refusal is said before anything is written or done."""
    name = unique_name()
    with background_job(name) as job:
        done = run_as_ordinary_user(HELPERS / "as_ordinary_user.py", name)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == f"100 False {name}: it belongs to another user"
        assert job.running
        assert processes.nice(job.pid) == os.nice(0)
