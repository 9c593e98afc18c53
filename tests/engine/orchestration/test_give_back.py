"""Whatever dies, Folding@home folds again: its pause outlives every program of ours, and the machine's restart."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.fake_folding import FakeFolding, folding, gpu_unit, group
from helpers.job import background_job, unique_name
from helpers.wait import wait_until

from engine import processes
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.events import ShareReport
from engine.orchestration import guardian as guardian_module
from engine.orchestration import leftovers as leftovers_module
from engine.orchestration import login, mps
from engine.orchestration.backends import folding_client
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger, Resume, UnpauseFolding
from engine.orchestration.leftovers import Leftovers, recover
from engine.orchestration.mps import BackgroundShare

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
real = pytest.mark.real
HELPERS = Path(__file__).parents[2] / "helpers"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the state folder of a user of this test's own, and the configuration folder beside it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "state" / "zat-scs"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a second last a tenth."""
    monkeypatch.setattr(folding_client, "SPACING", 0.15)


def _settings(client: FakeFolding, **changes: Value) -> Settings:
    base: dict[str, Value] = {"FOLDING_URL": client.url, "BOINC_URL": "127.0.0.1:9"}
    return Settings().replace({**base, "BACKGROUND_PROCESS_NAME": unique_name(), **changes})


@contextmanager
def _controller(folder: Path, client: FakeFolding) -> Iterator[subprocess.Popen[str]]:
    """Run a program that holds the job; wait until it is off the card."""
    command = [sys.executable, str(HELPERS / "holder.py"), str(folder / "ledger.json"), unique_name(), "10"]
    command += [f"FOLDING_URL={client.url}", "BACKGROUND_METHOD=folding"]
    environment = {**os.environ, "PYTHONPATH": str(HELPERS.parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0, env=environment
    ) as controller:
        assert controller.stdout
        while not controller.stdout.readline().startswith("10 True folding"):
            assert controller.poll() is None
        assert client.paused()
        yield controller
        with suppress(ProcessLookupError):
            controller.kill()


def _guardian_of(controller: int) -> int:
    found = [pid for pid in processes.pids() if (seen := processes.look(pid)) and seen.parent == controller]
    assert len(found) == 1
    return found[0]


# ---- Deaths ----------------------------------------------------------------------------------------------------------


@real
def test_a_killed_controller_lets_it_fold_again_within_three_seconds(folder: Path) -> None:
    """By the guardian, which speaks to the client itself; and nothing is left for the next login."""
    with folding(second=1.0) as client, _controller(folder, client) as controller:
        assert login.desktop_file().exists()
        controller.kill()
        killed = time.monotonic()
        wait_until(lambda: not client.paused(), timeout=3.0, what="the client to fold again")
        sys.stdout.write(f"kill -9 to folding again: {time.monotonic() - killed:.2f} s\n")
        wait_until(lambda: not (folder / "ledger.json").exists(), what="the cleared ledger")
        wait_until(lambda: not login.desktop_file().exists(), what="the login to be as it was")
        assert client.asked == ["pause ''", "fold ''"]


@real
def test_controller_and_guardian_killed_together_leave_it_to_the_next_start(folder: Path) -> None:
    """Before anything else is done."""
    with folding(second=1.0) as client, _controller(folder, client) as controller:
        guardian = _guardian_of(controller.pid)
        os.kill(controller.pid, signal.SIGSTOP)  # else it may see the end of the guardian, and give back by itself
        os.kill(guardian, signal.SIGKILL)
        controller.kill()
        controller.wait()
        time.sleep(0.5)
        assert client.paused()
        reports: list[ShareReport] = []
        path = folder / "ledger.json"
        share = BackgroundShare(_settings(client), reports.append, Ledger(path), Guardian(path), SystemClock())
        share.start()
        wait_until(lambda: not client.paused(), what="the client to fold again")
        assert share.close()
        assert not path.exists()
        assert not login.desktop_file().exists()


@real
def test_a_client_that_restarts_meanwhile_is_waited_for_by_the_guardian(tmp_path: Path) -> None:
    """An update may end the client and us together."""
    with folding() as client:
        port = int(client.url.split(":")[2].split("/")[0])
        path = tmp_path / "ledger.json"
        Ledger(path).record([UnpauseFolding(client.url, "", False)])
    guardian = Guardian(path)
    guardian.arm()
    guardian.stop(patient=True)
    assert path.exists()
    with folding({"": group(paused=True)}, [gpu_unit(pid=None, pause_reason="Paused")], port=port) as client:
        wait_until(lambda: not client.paused(), what="the client to fold again")
        wait_until(lambda: not path.exists(), what="the cleared ledger")
    wait_until(lambda: guardian._left[0].poll() is not None, what="the guardian's end")


def test_a_guardian_leaves_what_the_next_start_has_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would let fold what somebody else holds."""
    monkeypatch.setattr(guardian_module, "_PAUSES", (0.0, 1.1))
    ledger = Ledger(tmp_path / "ledger.json")
    entry = UnpauseFolding("ws://127.0.0.1:9/", "", False)
    ledger.record([entry])
    tries: list[object] = []
    monkeypatch.setattr(guardian_module, "undo", lambda entries: tries.append(entries) or ())
    monkeypatch.setattr(guardian_module.time, "sleep", lambda pause: ledger.record([entry]) if pause else None)
    guardian_module._give_back(ledger, ())
    assert len(tries) == 1


# ---- The machine's restart -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_after_a_restart_of_the_machine_only_what_outlives_one_is_undone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause is the client's own record; a process of the same number is another one."""
    with folding({"": group(paused=True)}, [gpu_unit(pid=None)]) as client, background_job(unique_name()) as job:
        ledger = Ledger(folder / "ledger.json")
        pause = UnpauseFolding(client.url, "", False)
        os.kill(job.pid, signal.SIGSTOP)
        with monkeypatch.context() as earlier:
            earlier.setattr(processes, "boot_id", lambda: "an earlier boot")
            ledger.record([pause, Resume(job.pid, job.workers[0].start, "job")])
        assert login.desktop_file().exists()
        assert ledger.read() == (pause,)
        assert recover(ledger.path) == ("Folding@home folds again",)
        assert not client.paused()
        assert job.stopped
        assert not ledger.path.exists()
        assert not login.desktop_file().exists()


def _nothing(client: FakeFolding) -> None:
    client.say("groups", "", "config", "paused", False)


def _gone(client: FakeFolding) -> None:
    client.state["groups"] = {"other": group(paused=True)}


def _failed(client: FakeFolding) -> None:
    client.say("groups", "", "failed", "Paused due too many failed Work Units.")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("change", [_nothing, _gone, _failed])
def test_after_a_restart_only_what_is_still_as_we_left_it_is_undone(
    folder: Path, change: Callable[[FakeFolding], None]
) -> None:
    """It folds already, the group is gone, or the client has a reason of its own."""
    with folding({"": group(paused=True)}, [gpu_unit(pid=None)]) as client:
        change(client)
        Ledger(folder / "ledger.json").record([UnpauseFolding(client.url, "", False)])
        assert recover(folder / "ledger.json")
        assert client.log == []
        assert not (folder / "ledger.json").exists()


def test_what_cannot_be_undone_at_the_start_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client may come up after us; each sentence is said once."""
    said: list[str] = []
    monkeypatch.setattr(leftovers_module._log, "warning", lambda _, sentence: said.append(sentence))
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.record([UnpauseFolding("ws://127.0.0.1:9/", "", False)])
    left = Leftovers(ledger.path)
    assert left.due_in(0.0) is None
    left.undo(0.0)
    assert left.due_in(5.0) == 10.0
    left.undo(15.0)
    assert len(said) == 1
    ledger.clear()
    left.undo(30.0)
    assert left.due_in(31.0) is None


@pytest.mark.usefixtures("quick")
def test_a_client_that_comes_up_later_is_given_back_by_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to type, or to start anything."""
    monkeypatch.setattr(leftovers_module, "_EVERY", 0.2)
    with folding() as client:
        port, settings = int(client.url.split(":")[2].split("/")[0]), _settings(client)
    path = tmp_path / "ledger.json"
    Ledger(path).record([UnpauseFolding(client.url, "", False)])
    reports: list[ShareReport] = []
    share = BackgroundShare(settings, reports.append, Ledger(path), Guardian(path), SystemClock())
    share.start()
    wait_until(lambda: reports, what="the first report")
    with folding({"": group(paused=True)}, [gpu_unit(pid=None)], port=port) as client:
        wait_until(lambda: not client.paused(), what="the client to fold again")
        wait_until(lambda: not path.exists(), what="the cleared ledger")
        assert share.close()


# ---- The worker over a costly job ------------------------------------------------------------------------------------


class Bench:
    """A BackgroundShare over a client, by a clock moved by hand, with a loop that only beats."""

    def __init__(self, folder: Path, client: FakeFolding, **changes: Value) -> None:
        self.client = client
        self.clock = FakeClock()
        self.reports: list[ShareReport] = []
        path = folder / "ledger.json"
        settings = _settings(client, BACKGROUND_METHOD="folding", **changes)
        self.share = BackgroundShare(settings, self.reports.append, Ledger(path), Guardian(path), self.clock)
        self.share.start()
        wait_until(lambda: self.reports, what="the first report")

    @property
    def last(self) -> ShareReport:
        """The newest report."""
        return self.reports[-1]

    def wait_for(self, share: int, verified: bool | None) -> None:
        """Wait until the newest report says this."""
        wait_until(
            lambda: (self.last.share, self.last.verified) == (share, verified), what=f"{share} {verified}: {self.last}"
        )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Give a bench whose guardian is patient: its clock stands still."""
    monkeypatch.setattr(folding_client, "SPACING", 0.15)
    monkeypatch.setattr(guardian_module, "LEASE", 60.0)
    monkeypatch.setattr(mps, "_LOOK_AGAIN", 0.1)
    with folding() as client:
        bench = Bench(tmp_path, client, LINGER=60.0, MAX_PAUSES_PER_HOUR=2)
        bench.share._guardian.beat = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(Guardian, "armed", property(lambda _: False))
        yield bench
        bench.share.close()


@real
def test_after_a_reply_it_lingers_and_the_seconds_are_shown(bench: Bench) -> None:
    """Then it is given back, and one pause is booked."""
    bench.share.request(0)
    bench.wait_for(0, True)
    bench.share.request(100, linger=True)
    wait_until(lambda: bench.last.linger_in == 60.0, what="the seconds")
    bench.clock.advance(25.5)
    wait_until(lambda: bench.last.linger_in == 35.0, what="the seconds that are left")
    assert (bench.last.share, bench.client.paused()) == (0, True)
    bench.clock.advance(40.0)
    bench.wait_for(100, None)
    assert not bench.client.paused()
    assert (bench.last.account.pauses, bench.last.account.guesses) == (1, 0)
    assert bench.last.account.held == pytest.approx(65.5)
    assert bench.client.asked == ["pause ''", "fold ''"]


@real
def test_a_false_positive_gives_back_at_once_and_closing_ends_a_linger(bench: Bench) -> None:
    """Only a reply is a reason to wait."""
    bench.share.request(10)
    bench.wait_for(10, True)
    bench.share.request(100)
    bench.wait_for(100, None)
    bench.clock.advance(100.0)
    bench.share.request(0)
    bench.wait_for(0, True)
    bench.share.request(100, linger=True)
    wait_until(lambda: bench.last.linger_in, what="the linger")
    assert bench.share.close()
    assert not bench.client.paused()
    assert (bench.last.share, bench.last.linger_in) == (100, None)


@real
def test_guesses_beyond_the_limit_leave_it_alone_and_a_prompt_does_not(bench: Bench) -> None:
    """What is said is what is in force, with the reason."""
    for _ in range(2):
        bench.share.request(10)
        bench.wait_for(10, True)
        bench.share.request(100)
        bench.wait_for(100, None)
        bench.clock.advance(100.0)
    bench.share.request(10)
    wait_until(lambda: "MAX_PAUSES_PER_HOUR" in bench.last.detail, what="the reason")
    assert (bench.last.share, bench.last.verified) == (100, None)
    assert not bench.client.paused()
    bench.share.request(0)
    bench.wait_for(0, True)


@real
def test_a_client_that_is_started_later_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When somebody types, and at most twice a minute."""
    monkeypatch.setattr(folding_client, "SPACING", 0.15)
    with folding() as client:
        port = int(client.url.split(":")[2].split("/")[0])
    bench = Bench(tmp_path, client)
    assert (bench.last.backend, dict(bench.last.refused).keys()) == ("null", {"folding"})
    with folding(port=port) as bench.client:
        bench.share.expect()
        time.sleep(0.2)
        assert bench.last.backend == "null"
        bench.clock.advance(31.0)
        bench.share.expect()
        wait_until(lambda: bench.last.backend == "folding", what="the client to be found")
        assert bench.last.refused == ()
        assert bench.share.close()
