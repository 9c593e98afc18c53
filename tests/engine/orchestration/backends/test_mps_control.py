"""NVIDIA's MPS: what was read back is what counts, only later clients are reached, and what was there comes back."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.backend_contract import BackendContract
from helpers.clock import FakeClock
from helpers.fake_mps import PROGRAM, FakeMps
from helpers.job import Job, background_job, unique_name

from engine.config.settings import Settings
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.backends import mps_tool
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.mps_control import MpsControlBackend, undo
from engine.orchestration.backends.mps_tool import MpsTool
from engine.orchestration.finder import ProcessFinder
from engine.orchestration.ledger import Ledger, RestoreMps
from engine.orchestration.leftovers import recover

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MPS is for Linux only")

SERVER = 4_000_001


class Bench:
    """The backend, the stand-in for the daemon, and a clock that the test moves."""

    def __init__(self, folder: Path, mps: FakeMps) -> None:
        self.job = unique_name()
        self.mps = mps
        self.clock = FakeClock()
        self.ledger = Ledger(folder / "ledger.json")
        self.steps: list[str] = []
        settings = Settings().replace({"BACKGROUND_PROCESS_NAME": self.job})
        safeguard = Safeguard(self.ledger, self._arm, lambda: self.steps.append("rest"))
        finder = ProcessFinder(self.job, self.clock.now)
        self.backend = MpsControlBackend(settings, safeguard, self.clock, finder)

    def _arm(self) -> None:
        self.steps.append(f"arm: {len(self.ledger.read())} written, {self.mps.default:g} % in force")

    def later(self) -> Applied:
        """Look again when it is time to."""
        self.clock.advance(20)
        return self.backend.verify()

    def refusal(self) -> str:
        """Return why the backend does not fit."""
        with pytest.raises(BackendUnavailable) as refused:
            self.backend.priority()
        return str(refused.value)


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMps:
    """Give a daemon without servers."""
    return FakeMps(tmp_path, monkeypatch)


@pytest.fixture
def bench(tmp_path: Path, mps: FakeMps) -> Bench:
    """Give a backend whose job does not run yet."""
    return Bench(tmp_path, mps)


@pytest.fixture
def job(bench: Bench) -> Iterator[Job]:
    """Give a job that computes through MPS."""
    with background_job(bench.job) as job:
        bench.mps.serve(SERVER, job.pid)
        yield job


class TestContract(BackendContract):
    """The contract; no job runs."""

    @pytest.fixture
    def backend(self, bench: Bench) -> MpsControlBackend:
        """Give the backend under contract."""
        return bench.backend

    @pytest.fixture(autouse=True)
    def job_for_the_priority(self, request: pytest.FixtureRequest) -> None:
        """Let a job run where the priority is asked for: without one this backend does not fit."""
        if request.node.originalname == "test_it_has_a_name_and_a_priority":
            request.getfixturevalue("job")


# ---- Whether it fits -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("job")
def test_it_fits_where_the_job_is_a_client(bench: Bench) -> None:
    """Anything that reaches a job that runs goes first."""
    assert bench.backend.priority() == 1
    assert not bench.backend.costly


def test_without_the_program_it_does_not_fit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the program."""
    monkeypatch.setenv("PATH", str(bench.ledger.path.parent))
    assert bench.refusal() == "the program nvidia-cuda-mps-control is not installed"


def test_without_a_daemon_it_does_not_fit(bench: Bench) -> None:
    """Exit code 1 and the sentence on standard error mean that."""
    bench.mps.stop()
    assert bench.refusal() == "the MPS control daemon is not running"


def test_without_a_server_it_does_not_fit(bench: Bench) -> None:
    """An empty list: no program has used MPS yet."""
    assert bench.refusal() == "no MPS server runs: no program computes through MPS"


def test_a_job_that_is_no_client_is_not_reached(bench: Bench) -> None:
    """The program being there, even with a server, says nothing about this job."""
    with background_job(bench.job):
        bench.mps.serve(SERVER, os.getpid())
        assert "is not a client of the MPS server: a thread percentage reaches only" in bench.refusal()


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("babble", "no MPS server runs"), ("hang", "did not answer within 0.5 s")],
)
@pytest.mark.usefixtures("job")
def test_a_daemon_that_misbehaves_is_not_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, mode: str, reason: str
) -> None:
    """Neither nonsense nor silence is taken for an answer."""
    monkeypatch.setattr(mps_tool, "_PATIENCE", 0.5)
    bench.mps.write(mode=mode)
    assert reason in bench.refusal()


# ---- Setting and giving back -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("job")
def test_a_running_client_is_never_called_held(bench: Bench) -> None:
    """The percentage is set for daemon and server, and said to reach only later clients."""
    applied = bench.backend.apply(10)
    assert (applied.share, applied.verified) == (100, False)
    assert "a thread percentage reaches only clients that start later" in applied.detail
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (10.0, 10.0)


@pytest.mark.usefixtures("job")
def test_the_order_is_ledger_guardian_act_and_back_again(bench: Bench) -> None:
    """When the guardian is armed the entry is written and nothing has changed yet."""
    bench.backend.apply(10)
    assert bench.ledger.read() == (RestoreMps(str(bench.mps.directory), 100.0, 10.0),)
    assert "100 % back" in bench.backend.release().detail
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (100.0, 100.0)
    assert bench.steps == ["arm: 1 written, 100 % in force", "rest"]
    assert not bench.ledger.path.exists()


@pytest.mark.usefixtures("job")
def test_nought_is_never_asked_for(bench: Bench) -> None:
    """Share 0 is the least that can be read back, and one entry remains with the value of the very beginning."""
    bench.backend.apply(10)
    assert bench.backend.apply(0).verified is False
    assert bench.mps.default == 0.1
    assert bench.ledger.read() == (RestoreMps(str(bench.mps.directory), 100.0, 0.1),)
    bench.backend.release()
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (100.0, 100.0)
    assert not [line for line in bench.mps.state["asked"] if line.split()[-1] == "0"]


def test_a_client_that_started_meanwhile_is_held_and_said_to_stay_so(bench: Bench, job: Job) -> None:
    """MPS fixes a client's percentage at its start, so giving back does not reach it: that is not hidden."""
    bench.backend.apply(10)
    job.kill()
    with background_job(bench.job) as second:
        bench.mps.serve(SERVER, second.pid)
        applied = bench.later()
        assert (applied.share, applied.verified) == (10, True)
        said = bench.backend.release().detail
        assert f"({second.pid}) started when MPS gave 10 %, and keeps that until its next start" in said


@pytest.mark.usefixtures("job")
def test_what_was_in_force_comes_back_exactly(bench: Bench) -> None:
    """Also a value that is no whole number."""
    bench.mps.write(default=62.5, servers={str(SERVER): 62.5})
    bench.backend.apply(10)
    assert bench.mps.default == 10.0
    bench.backend.release()
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (62.5, 62.5)


@pytest.mark.usefixtures("job")
def test_less_than_we_would_leave_is_left_alone(bench: Bench) -> None:
    """Raising it would be no help to anybody."""
    bench.mps.write(default=5.0)
    applied = bench.backend.apply(10)
    assert (applied.share, applied.verified) == (100, False)
    assert "MPS was at 5 % already" in applied.detail
    assert bench.steps == []


@pytest.mark.usefixtures("job")
def test_a_server_with_a_percentage_of_its_own_keeps_it(bench: Bench) -> None:
    """Somebody chose it for this server."""
    bench.mps.write(servers={str(SERVER): 40.0})
    bench.backend.apply(10)
    assert bench.mps.percentage(SERVER) == 40.0
    bench.backend.release()
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (100.0, 40.0)


@pytest.mark.usefixtures("job")
def test_a_value_that_was_not_taken_is_never_claimed(bench: Bench) -> None:
    """The program exits with 0 and says the old value: that is a failure, and nothing is left to undo."""
    bench.mps.write(mode="deaf")
    applied = bench.backend.apply(10)
    assert (applied.share, applied.verified) == (100, False)
    assert "did not take 10 %: it says 100 %" in applied.detail
    assert bench.ledger.read() == ()
    assert bench.later() == applied


# ---- What others do meanwhile ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("job")
def test_a_value_that_somebody_else_set_is_left_alone_and_said(bench: Bench) -> None:
    """What of ours is left in the server is taken back all the same."""
    bench.backend.apply(10)
    bench.mps.write(default=50.0)
    applied = bench.later()
    assert (applied.share, applied.verified) == (100, False)
    assert "was given 50 % by somebody else, and keeps it" in applied.detail
    assert (bench.mps.default, bench.mps.percentage(SERVER)) == (50.0, 100.0)
    assert bench.ledger.read() == ()
    assert bench.later() == applied
    bench.backend.release()
    assert bench.mps.default == 50.0


def test_a_daemon_started_again_is_noticed(bench: Bench, job: Job) -> None:
    """Its percentage is back by itself."""
    bench.backend.apply(10)
    bench.mps.start()
    bench.mps.serve(SERVER, job.pid)
    assert "the MPS daemon was started again" in bench.later().detail
    assert bench.mps.default == 100.0
    assert bench.ledger.read() == ()


@pytest.mark.usefixtures("job")
def test_a_daemon_that_ended_took_the_percentage_with_it(bench: Bench) -> None:
    """There is nothing left to undo, neither while the job is held nor at the end."""
    bench.backend.apply(10)
    bench.mps.stop()
    assert "has ended, and the percentage with it" in bench.later().detail
    assert bench.ledger.read() == ()
    assert bench.backend.release().share == 100


@pytest.mark.usefixtures("job")
def test_a_daemon_that_is_silent_when_it_counts_stays_owed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is kept until it answers again."""
    monkeypatch.setattr(mps_tool, "_PATIENCE", 0.5)
    bench.backend.apply(10)
    bench.mps.write(mode="hang")
    with pytest.raises(LedgerError, match="could not be given back: the MPS daemon did not answer"):
        bench.backend.release()
    assert len(bench.ledger.read()) == 1
    bench.mps.write(mode="")
    bench.backend.release()
    assert bench.mps.default == 100.0


@pytest.mark.usefixtures("job")
def test_the_daemon_is_not_asked_at_each_look(bench: Bench) -> None:
    """Starting a program each second would cost more than it tells."""
    bench.backend.apply(10)
    asked = len(bench.mps.state["asked"])
    for _ in range(9):
        bench.clock.advance(1)
        bench.backend.verify()
    assert len(bench.mps.state["asked"]) == asked


# ---- After a crash ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("job")
def test_the_ledger_alone_gives_it_back(bench: Bench) -> None:
    """As guardian and next start do, also for a server that was born with our percentage."""
    bench.backend.apply(10)
    bench.mps.serve(SERVER + 1, os.getpid())
    assert recover(bench.ledger.path) == ("MPS has its 100 % back",)
    assert (bench.mps.default, bench.mps.percentage(SERVER), bench.mps.percentage(SERVER + 1)) == (100.0, 100.0, 100.0)
    assert recover(bench.ledger.path) == ()


def test_undoing_twice_is_harmless(mps: FakeMps) -> None:
    """Guardian and parent may both do it."""
    mps.write(default=10.0)
    entry = RestoreMps(str(mps.directory), 75.0, 10.0)
    assert undo(entry).sentence == "MPS has its 75 % back"
    assert undo(entry).sentence == "MPS had its 75 % back"
    assert mps.default == 75.0


def test_the_guardian_undoes_without_reading_settings() -> None:
    """It must stay small."""
    code = "import sys, engine.orchestration.backends.mps_control; print('engine.config.settings' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "False\n"


# ---- The real program ------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_the_real_daemon_answers_as_the_stand_in_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon of our own, without a card: no server, a percentage that is set, read back, and refused."""
    program = shutil.which(PROGRAM)
    if program is None:
        pytest.skip(f"{PROGRAM} is not installed")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("CUDA_MPS_LOG_DIRECTORY", str(tmp_path))
    tool = MpsTool(str(tmp_path))
    with pytest.raises(mps_tool.DaemonGone):
        tool.servers()
    subprocess.run([program, "-d"], check=True)
    try:
        _see_what_was_recorded(tool)
    finally:
        subprocess.run([program], input="quit\n", text=True, check=True)


def test_the_stand_in_answers_as_recorded(mps: FakeMps) -> None:
    """The same for the stand-in."""
    _see_what_was_recorded(MpsTool(str(mps.directory)))


def _see_what_was_recorded(tool: MpsTool) -> None:
    assert tool.daemon()
    assert tool.servers() == ()
    assert tool.percentage() == 100.0
    assert tool.clients(99999) == frozenset()
    with pytest.raises(mps_tool.ServerGone):
        tool.set_percentage(10, 99999)
    taken = [tool.set_percentage(value) for value in (10, 12.5, 0, -1, 100.1, float("nan"), 0.5, 0.1, 0.001)]
    assert taken == [10.0, 12.5, 12.5, 12.5, 12.5, 12.5, 0.5, 0.1, 0.0]
    assert tool.set_percentage(100) == 100.0
