"""The protocol: with the real client what it is, with a fake what must not hurt."""

from collections.abc import Iterator

import pytest
from helpers.boinc_client import AUTO, NEVER, BoincClient, boinc_client
from helpers.fake_boinc import PASSWORD, FakeBoinc, fake_boinc
from helpers.wait import wait_until

from engine.orchestration.backends import boinc_rpc
from engine.orchestration.backends.boinc_rpc import BoincError, BoincGone, BoincRefused, BoincRpc, Status


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BoincClient]:
    """Give a real client without work."""
    with boinc_client(tmp_path_factory.mktemp("rpc") / "boinc", task=False) as running:
        yield running


@pytest.fixture
def fake() -> Iterator[FakeBoinc]:
    """Give a fake one with work."""
    with fake_boinc() as server:
        yield server


def _authorized(client: BoincClient) -> BoincRpc:
    rpc = BoincRpc(client.address)
    rpc.authorize(client.password_file.read_text())
    return rpc


@pytest.mark.real
def test_reading_needs_no_password(client: BoincClient) -> None:
    """A fresh client works by preferences, and nothing is suspended."""
    assert client.status == Status(AUTO, AUTO, 0.0, 0, 0)
    with BoincRpc(client.address) as rpc:
        assert rpc.gpu_tasks() == ()


@pytest.mark.real
def test_a_lease_leaves_the_permanent_mode_and_ends_by_itself(client: BoincClient) -> None:
    """Nobody has to be there at its end."""
    with _authorized(client) as rpc:
        rpc.never(10)
        status = rpc.status()
    assert (status.mode, status.permanent) == (NEVER, AUTO)
    assert 0 < status.delay <= 10
    wait_until(lambda: client.status == Status(AUTO, AUTO, 0.0, 0, 0), what="the end of the lease")


@pytest.mark.real
def test_a_lease_can_be_renewed_and_ended(client: BoincClient) -> None:
    """The newest duration counts, and the user's mode comes back."""
    with _authorized(client) as rpc:
        rpc.never(5)
        rpc.never(60)
        assert rpc.status().delay > 55
        rpc.restore()
        assert rpc.status() == Status(AUTO, AUTO, 0.0, 0, 0)


@pytest.mark.real
def test_commands_need_the_password(client: BoincClient) -> None:
    """Neither none nor a wrong one will do."""
    with BoincRpc(client.address) as rpc, pytest.raises(BoincError, match="refuses the command"):
        rpc.never(5)
    with BoincRpc(client.address) as rpc, pytest.raises(BoincRefused, match="refuses the password"):
        rpc.authorize("wrong")
    assert client.status.mode == AUTO


def test_a_lease_for_good_cannot_be_asked_for(fake: FakeBoinc) -> None:
    """Zero seconds would overwrite the user's own mode."""
    with BoincRpc(fake.address) as rpc:
        rpc.authorize(PASSWORD)
        with pytest.raises(ValueError, match="for good"):
            rpc.never(0)
    assert fake.commands == []


def test_only_tasks_on_a_card_count(fake: FakeBoinc) -> None:
    """Others go on beside the server, and one whose card was taken out does nothing."""
    fake.tasks = [(1, "1 CPU"), (9, "0.2 CPUs + 1 AMD/ATI GPU (device 0)"), (1, "0.9 CPUs + 0.5 NVIDIA GPUs")]
    with BoincRpc(fake.address) as rpc:
        assert rpc.gpu_tasks() == (9, 1)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n\x03",
        b"<boinc_gui_rpc_reply><cc_status>\x03",
        b"<boinc_gui_rpc_reply></boinc_gui_rpc_reply>\x03",
        b"<boinc_gui_rpc_reply><cc_status><gpu_mode>x</gpu_mode></cc_status></boinc_gui_rpc_reply>\x03",
        b"<?xml version='1.0' encoding='utf-99'?><boinc_gui_rpc_reply/>\x03",
        b'<!DOCTYPE a [<!ENTITY b "c">]><boinc_gui_rpc_reply>&b;</boinc_gui_rpc_reply>\x03',
        b"\x03",
    ],
)
def test_what_is_not_boinc_is_said_to_be_something_else(fake: FakeBoinc, answer: bytes) -> None:
    """Whatever it sends."""
    fake.answer = answer
    with BoincRpc(fake.address) as rpc, pytest.raises(BoincError, match="does not speak as BOINC does"):
        rpc.status()


def test_an_endless_answer_ends(fake: FakeBoinc, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its size, however fast it comes."""
    monkeypatch.setattr(boinc_rpc, "_LARGEST", 1 << 18)
    fake.endless = True
    with BoincRpc(fake.address) as rpc, pytest.raises(BoincError, match="does not come to an end"):
        rpc.status()


def test_silence_ends(fake: FakeBoinc, monkeypatch: pytest.MonkeyPatch) -> None:
    """One limit holds for the whole conversation."""
    monkeypatch.setattr(boinc_rpc, "PATIENCE", 0.2)
    fake.silent = True
    with BoincRpc(fake.address) as rpc, pytest.raises(BoincError, match="in time"):
        rpc.status()


def test_a_broken_conversation_is_an_error(fake: FakeBoinc) -> None:
    """The client may end at any moment."""
    fake.breaks_off_at = "get_cc_status"
    with BoincRpc(fake.address) as rpc, pytest.raises(BoincError, match="broke off"):
        rpc.status()


def test_nobody_there_is_told_apart() -> None:
    """Then no lease is in force any more."""
    with fake_boinc() as server:
        address = server.address
    with pytest.raises(BoincGone, match=f"no BOINC client answers at {address}"):
        BoincRpc(address)
