"""Holding BOINC by a lease on its GPU mode: the real client with a stand-in task, and a fake one for trouble."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.backend_contract import BackendContract
from helpers.boinc_client import ALWAYS, AUTO, NEVER, BoincClient, boinc_client
from helpers.clock import FakeClock
from helpers.fake_boinc import PASSWORD, FakeBoinc, fake_boinc
from helpers.wait import wait_until

from engine.clock import Clock, SystemClock
from engine.config.settings import Settings
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.backends import boinc, boinc_rpc
from engine.orchestration.backends.base import Applied, Safeguard
from engine.orchestration.backends.boinc import BoincBackend, undo
from engine.orchestration.ledger import Ledger, RestoreBoinc
from engine.orchestration.leftovers import recover

_ROOT = Path(__file__).parents[4]

# Holds as the engine does: LEDGER ADDRESS PASSWORD_FILE LEASE; says the guardian's number, then each report.
_CONTROLLER = """
import sys, time
from pathlib import Path
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.orchestration.backends.base import Safeguard
from engine.orchestration.backends.boinc import BoincBackend
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Ledger

ledger, address, password_file, lease = sys.argv[1:]
BoincBackend.lease, BoincBackend.renew = float(lease), float(lease) / 3
guardian = Guardian(Path(ledger))
guardian.start()
print(guardian.pid, flush=True)
safeguard = Safeguard(Ledger(Path(ledger)), guardian.arm, guardian.rest)
backend = BoincBackend(Settings(boinc_url=address, boinc_password_file=password_file), safeguard, SystemClock())
print(backend.apply(0), flush=True)
while True:
    guardian.beat()
    print(backend.verify(), flush=True)
    time.sleep(0.25)
"""


class Bench:
    """A backend with the record of what it told the guardian."""

    def __init__(self, folder: Path, address: str, password_file: Path, clock: Clock) -> None:
        self.ledger = Ledger(folder / "ledger.json")
        self.steps: list[str] = []
        self.entry = RestoreBoinc(address, str(password_file))
        settings = Settings(boinc_url=address, boinc_password_file=str(password_file))
        safeguard = Safeguard(self.ledger, self._arm, lambda: self.steps.append("rest"))
        self.backend = BoincBackend(settings, safeguard, clock)

    def hold(self, share: int) -> Applied:
        """Apply, and look until the card is seen to be free."""
        applied = self.backend.apply(share)
        wait_until(lambda: self.backend.verify().verified, what="BOINC to leave the card")
        assert not applied.verified
        return self.backend.verify()

    def _arm(self) -> None:
        self.steps.append("arm: written" if self.ledger.read() == (self.entry,) else "arm: not written")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[BoincClient]:
    """Give a real client at work."""
    with boinc_client(tmp_path / "boinc") as running:
        yield running


@pytest.fixture
def bench(tmp_path: Path, client: BoincClient) -> Iterator[Bench]:
    """Give a backend for the real client."""
    bench = Bench(tmp_path, client.address, client.password_file, SystemClock())
    yield bench
    bench.backend.release()


@pytest.fixture
def fake() -> Iterator[FakeBoinc]:
    """Give a fake client at work."""
    with fake_boinc() as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    """Give a clock that stands still."""
    return FakeClock()


@pytest.fixture
def fake_bench(tmp_path: Path, fake: FakeBoinc, clock: FakeClock) -> Bench:
    """Give a backend for the fake client."""
    (tmp_path / "password").write_text(PASSWORD)
    return Bench(tmp_path, fake.address, tmp_path / "password", clock)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoincClient]:
    """Give a real client without work, one for the whole contract."""
    with boinc_client(tmp_path_factory.mktemp("contract") / "boinc", task=False) as running:
        yield running


@pytest.mark.real
class TestContract(BackendContract):
    """The contract, with a real client that has no work."""

    @pytest.fixture
    def backend(self, tmp_path: Path, idle: BoincClient) -> BoincBackend:
        """Give the backend under contract."""
        return Bench(tmp_path, idle.address, idle.password_file, SystemClock()).backend


@pytest.mark.real
class TestRealClient:
    """What the real client does with its task and its modes."""

    def test_the_task_leaves_the_card_and_comes_back(self, client: BoincClient, bench: Bench) -> None:
        """10 and 0 are the same here, and the order is ledger, guardian, act."""
        assert bench.hold(10) == Applied(10, True, "BOINC is off the card")
        assert bench.backend.apply(0).share == 0
        assert not client.computing
        assert 50 < client.status.delay <= 60
        assert bench.backend.apply(100) == Applied(100, None, "BOINC goes on")
        wait_until(lambda: client.computing, what="the task to go on")
        assert bench.steps == ["arm: written", "rest"]
        assert not bench.ledger.path.exists()

    @pytest.mark.parametrize("mode", [ALWAYS, AUTO])
    def test_the_users_own_mode_is_kept(self, client: BoincClient, bench: Bench, mode: int) -> None:
        """While it is held and after."""
        client.set_mode(mode)
        bench.backend.apply(10)
        assert (client.status.mode, client.status.permanent) == (NEVER, mode)
        bench.backend.release()
        assert (client.status.mode, client.status.permanent, client.status.delay) == (mode, mode, 0)

    def test_a_user_who_wants_no_work_on_the_card_keeps_that(self, client: BoincClient, bench: Bench) -> None:
        """Then nothing is needed, and nothing sent."""
        client.set_mode(NEVER)
        applied = bench.backend.apply(0)
        assert (applied.share, applied.verified) == (100, None)
        assert "by its user" in applied.detail
        bench.backend.release()
        assert (client.status.mode, client.status.permanent) == (NEVER, NEVER)
        assert bench.steps == ["rest"]

    @pytest.mark.parametrize(("mode", "seconds"), [(ALWAYS, 0), (ALWAYS, 600), (NEVER, 600)])
    def test_a_mode_that_the_user_sets_meanwhile_is_left_alone(
        self, client: BoincClient, bench: Bench, mode: int, seconds: float
    ) -> None:
        """Neither renewed nor ended, at once or later."""
        bench.backend.apply(10)
        client.set_mode(mode, seconds)
        for _ in range(2):
            applied = bench.backend.verify()
            assert (applied.share, applied.verified) == (100, None if mode == NEVER else False)
        assert bench.ledger.read() == ()
        bench.backend.release()
        assert client.status.mode == mode
        assert client.status.delay == pytest.approx(seconds, abs=10)

    @pytest.mark.parametrize(("mode", "seconds"), [(ALWAYS, 0), (NEVER, 0), (NEVER, 600), (AUTO, 0)])
    def test_a_mode_that_the_user_sets_just_before_the_end_is_left_alone(
        self, client: BoincClient, bench: Bench, mode: int, seconds: float
    ) -> None:
        """A restore on top of it would bring back our own."""
        bench.backend.apply(10)
        client.set_mode(mode, seconds)
        assert bench.backend.release().detail
        assert client.status.mode == mode
        assert client.status.permanent == (AUTO if seconds else mode)

    def test_a_lost_lease_is_not_taken_for_the_users_wish(self, client: BoincClient, bench: Bench) -> None:
        """A client that was killed forgets it, and works again when it is back: then it is held again."""
        bench.hold(10)
        client.kill()
        assert bench.backend.verify() == Applied(100, False, f"no BOINC client answers at {client.address}")
        assert bench.ledger.read() == ()
        client.start()
        assert client.status.mode == AUTO
        wait_until(lambda: bench.backend.verify().verified, what="BOINC to be held again")
        assert client.status.mode == NEVER

    def test_a_client_that_ends_while_it_is_held_leaves_nothing_to_undo(
        self, client: BoincClient, bench: Bench
    ) -> None:
        """A lease is never saved."""
        bench.backend.apply(10)
        client.kill()
        assert bench.backend.release() == Applied(100, None, "BOINC has ended, and with it what was asked of it")
        assert not bench.ledger.path.exists()
        client.start()
        assert client.status.mode == AUTO

    def test_what_a_dead_run_left_is_undone_by_the_next(self, client: BoincClient, bench: Bench) -> None:
        """All that it needs stands in the ledger."""
        bench.backend.apply(10)
        assert recover(bench.ledger.path) == ("BOINC goes on",)
        assert client.status.mode == AUTO
        assert not bench.ledger.path.exists()

    def test_the_guardian_gives_back_when_the_controller_is_killed(self, client: BoincClient, tmp_path: Path) -> None:
        """Long before the lease runs out."""
        with _controller(tmp_path, client, lease=60) as (controller, _):
            controller.kill()
            wait_until(lambda: client.status.mode == AUTO, what="the give-back")
        wait_until(lambda: client.computing, what="the task to go on")
        wait_until(lambda: not (tmp_path / "ledger.json").exists(), what="the cleared ledger")

    def test_the_lease_alone_gives_back_when_nobody_is_left(self, client: BoincClient, tmp_path: Path) -> None:
        """Controller and guardian are killed; it was renewed before."""
        with _controller(tmp_path, client, lease=10) as (controller, guardian):
            until = time.monotonic() + 10.5
            while time.monotonic() < until:
                assert client.status.mode == NEVER
                time.sleep(0.1)
            os.kill(guardian, 9)
            controller.kill()
            assert client.status.mode == NEVER
            wait_until(lambda: client.status.mode == AUTO, what="the lease to run out")
        wait_until(lambda: client.computing, what="the task to go on")
        assert client.status.permanent == AUTO

    def test_the_right_password_decides(self, client: BoincClient, tmp_path: Path) -> None:
        """A wrong one is refused with what to do."""
        assert Bench(tmp_path, client.address, client.password_file, SystemClock()).backend.priority() == 30
        wrong = tmp_path / "wrong"
        wrong.write_text("0123456789")
        with pytest.raises(
            BackendUnavailable, match=r"refuses the password in .*/wrong: join the group boinc"
        ) as refusal:
            Bench(tmp_path, client.address, wrong, SystemClock()).backend.priority()
        assert "0123456789" not in str(refusal.value)


class TestRefusals:
    """Why this backend does not fit."""

    def test_without_a_client_it_does_not_fit(self, tmp_path: Path) -> None:
        """The address is said."""
        with fake_boinc() as server:
            address = server.address
        bench = Bench(tmp_path, address, tmp_path / "password", FakeClock())
        with pytest.raises(BackendUnavailable, match=f"no BOINC client answers at {address}"):
            bench.backend.priority()

    def test_a_password_that_cannot_be_read_is_said(self, fake_bench: Bench, tmp_path: Path) -> None:
        """Not there, or not for this user."""
        (tmp_path / "password").unlink()
        with pytest.raises(BackendUnavailable, match=r"there is no gui_rpc_auth\.cfg"):
            fake_bench.backend.priority()
        (tmp_path / "password").mkdir()  # as good as a file of another user, for root may read those
        with pytest.raises(BackendUnavailable, match=r"/password cannot be read: .*set BOINC_PASSWORD_FILE"):
            fake_bench.backend.priority()

    def test_the_usual_places_are_looked_at(
        self, fake: FakeBoinc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first that is there counts, and a line end does not."""
        assert any("boinc" in str(file).lower() for file in boinc._usual_files())
        (tmp_path / "second").write_text(f"{PASSWORD}\n")
        monkeypatch.setattr(boinc, "_usual_files", lambda: [tmp_path / "first", tmp_path / "second"])
        safeguard = Safeguard(Ledger(tmp_path / "ledger.json"), lambda: None, lambda: None)
        assert BoincBackend(Settings(boinc_url=fake.address), safeguard, FakeClock()).priority() == 30

    def test_this_machines_password_is_shown_to_no_other(self, fake: FakeBoinc) -> None:
        """Another machine needs a file of its own."""
        with (
            boinc_rpc.BoincRpc(fake.address) as rpc,
            pytest.raises(BackendUnavailable, match="set BOINC_PASSWORD_FILE"),
        ):
            boinc._authorize(rpc, "192.0.2.1:31416", "")


class TestNotNeeded:
    """BOINC does nothing on the card, so nothing is sent."""

    @pytest.mark.parametrize(
        ("attribute", "value", "detail"),
        [
            ("suspended", 1, "by its own preferences"),
            ("own_reason", 2, "by its own preferences"),
            ("tasks", [], "no GPU work"),
            ("tasks", [(1, "1 CPU")], "no GPU work"),
            ("tasks", [(0, "0.5 CPUs + 1 NVIDIA GPU")], "no GPU work"),
            ("permanent", 3, "by its user"),
        ],
    )
    def test_nothing_is_sent(
        self, fake: FakeBoinc, fake_bench: Bench, attribute: str, value: object, detail: str
    ) -> None:
        """Neither now nor at the end; and it is held as soon as it works."""
        setattr(fake, attribute, value)
        applied = fake_bench.backend.apply(0)
        assert (applied.share, applied.verified) == (100, None)
        assert detail in applied.detail
        fake_bench.backend.release()
        assert (fake.commands, fake_bench.steps) == ([], ["rest"])

    def test_work_that_begins_later_is_held(self, fake: FakeBoinc, fake_bench: Bench) -> None:
        """Each look asks anew."""
        fake.own_reason = 2
        fake_bench.backend.apply(0)
        fake.own_reason = 0
        fake_bench.backend.verify()
        assert fake.commands == ["<set_gpu_mode><never/><duration>60.000000</duration></set_gpu_mode>"]


class TestLease:
    """Renewed in time, and never for good."""

    def test_it_is_renewed_every_twenty_seconds(self, fake: FakeBoinc, fake_bench: Bench, clock: FakeClock) -> None:
        """Not at every look."""
        fake_bench.backend.apply(0)
        for seconds, renewals in ((19, 1), (1, 2), (19, 2), (1, 3)):
            clock.advance(seconds)
            fake.until = time.time() + 40
            assert fake_bench.backend.verify().verified is True
            assert len(fake.commands) == renewals
        assert all("<duration>60.000000<" in command for command in fake.commands)

    def test_a_lease_that_ran_out_unseen_is_taken_again(
        self, fake: FakeBoinc, fake_bench: Bench, clock: FakeClock
    ) -> None:
        """This machine slept, which is nobody's wish."""
        fake_bench.backend.apply(0)
        clock.advance(3600)
        fake.until = 0
        fake_bench.backend.verify()
        assert len(fake.commands) == 2

    def test_a_clock_set_back_does_not_make_it_longer(
        self, fake: FakeBoinc, fake_bench: Bench, clock: FakeClock
    ) -> None:
        """The client counts by the same clock."""
        fake_bench.backend.apply(0)
        clock.advance(-3600)
        fake.until = time.time() + 3660
        fake_bench.backend.verify()
        assert fake.until < time.time() + 61

    def test_tasks_that_stay_are_said(self, fake: FakeBoinc, fake_bench: Bench) -> None:
        """Only what is seen is claimed."""
        fake.leaves = False
        fake_bench.backend.apply(0)
        assert fake_bench.backend.verify() == Applied(0, False, "BOINC is leaving the card")
        fake.tasks = [(9, "0.5 CPUs + 1 NVIDIA GPU")]
        detail = "BOINC is off the card; memory of the card stays taken"
        assert fake_bench.backend.verify() == Applied(0, True, detail)


class TestTrouble:
    """What goes wrong is shown as not verified, with the reason, and is put right when that is possible."""

    def test_a_client_that_never_confirms_is_not_verified(self, fake: FakeBoinc, fake_bench: Bench) -> None:
        """It is told again at each look, and there is nothing to undo in the end."""
        fake.obeys = False
        for _ in range(2):
            applied = fake_bench.backend.apply(0)
            assert (applied.share, applied.verified) == (100, False)
            assert "does not say that it will" in applied.detail
        assert len(fake.commands) == 2
        assert fake_bench.backend.release().share == 100

    @pytest.mark.parametrize(
        ("trouble", "reason"),
        [
            (("breaks_off_at", "<never/>"), "broke off"),
            (("breaks_off_at", "get_results"), "broke off"),
            (("answer", b"<html/>\x03"), "does not speak as BOINC does"),
            (("silent", True), "does not answer in time"),
        ],
    )
    def test_each_failure_has_its_reason_and_the_next_look_is_free(
        self,
        fake: FakeBoinc,
        fake_bench: Bench,
        monkeypatch: pytest.MonkeyPatch,
        trouble: tuple[str, object],
        reason: str,
    ) -> None:
        """Trouble may pass."""
        monkeypatch.setattr(boinc_rpc, "PATIENCE", 0.2)
        attribute, value = trouble
        before = getattr(fake, attribute)
        setattr(fake, attribute, value)
        applied = fake_bench.backend.apply(0)
        assert (applied.share, applied.verified) == (100, False)
        assert reason in applied.detail
        setattr(fake, attribute, before)
        monkeypatch.undo()
        wait_until(lambda: fake_bench.backend.verify().verified, what="BOINC to be held")
        fake_bench.backend.release()
        assert fake.mode == AUTO

    def test_a_give_back_that_fails_is_owed_until_the_lease_is_over(
        self, fake: FakeBoinc, fake_bench: Bench, clock: FakeClock
    ) -> None:
        """Then it is over whatever the client answers."""
        fake_bench.backend.apply(0)
        fake.breaks_off_at = "get_cc_status"
        with pytest.raises(LedgerError, match="goes on by itself"):
            fake_bench.backend.release()
        assert fake_bench.ledger.read() == (fake_bench.entry,)
        clock.advance(60)
        assert fake_bench.backend.release() == Applied(100, None, "BOINC goes on by itself")
        assert not fake_bench.ledger.path.exists()

    def test_a_give_back_that_is_not_obeyed_is_not_believed(self, fake: FakeBoinc, fake_bench: Bench) -> None:
        """The mode is read again."""
        fake_bench.backend.apply(0)
        fake.obeys = False
        with pytest.raises(LedgerError, match="does not say that it will"):
            fake_bench.backend.release()
        fake.obeys = True
        assert fake_bench.backend.release().detail == "BOINC goes on"

    def test_a_permanent_never_is_not_restored(self, fake: FakeBoinc, fake_bench: Bench) -> None:
        """A restore on top of it would write the user's own mode."""
        fake_bench.backend.apply(0)
        fake.permanent = 3
        assert "somebody else" in fake_bench.backend.release().detail
        assert len(fake.commands) == 1

    def test_a_change_while_the_password_is_shown_is_left_alone(
        self, fake: FakeBoinc, fake_bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The mode is read right before the restore."""
        fake_bench.backend.apply(0)
        reply = fake.reply

        def changed_meanwhile(request: str, session: dict[str, str]) -> str:
            if "<auth2>" in request:
                fake.permanent, fake.until = ALWAYS, 0
            return reply(request, session)

        monkeypatch.setattr(fake, "reply", changed_meanwhile)
        assert fake_bench.backend.release().detail == "BOINC goes on already"
        assert len(fake.commands) == 1

    def test_without_the_password_an_ended_lease_is_seen_to_be_over(
        self, fake: FakeBoinc, fake_bench: Bench, tmp_path: Path
    ) -> None:
        """Reading needs none, so a lost file leaves no entry for ever."""
        fake_bench.backend.apply(0)
        (tmp_path / "password").write_text("another")
        assert not undo(fake_bench.entry).settled
        fake.until = 0
        assert undo(fake_bench.entry).settled


@contextmanager
def _controller(folder: Path, client: BoincClient, lease: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a program that holds the client; give it and its guardian's number once that is verified."""
    arguments = [str(folder / "ledger.json"), client.address, str(client.password_file), str(lease)]
    command = [sys.executable, "-c", _CONTROLLER, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as controller:
        try:
            assert controller.stdout
            guardian = int(controller.stdout.readline())
            assert any("verified=True" in line for line in iter(controller.stdout.readline, ""))
            yield controller, guardian
        finally:
            controller.kill()
