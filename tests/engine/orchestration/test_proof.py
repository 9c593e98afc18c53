"""Memory of the card is read while it matters, and never guessed."""

import logging
import os
import sys
from collections.abc import Callable, Iterator

import pytest
from helpers.clock import FakeClock
from helpers.fake_nvml import Card, FakeNvml, NVMLError
from helpers.wait import wait_until

from engine.clock import SystemClock
from engine.orchestration import proof
from engine.orchestration.proof import Vram, VramReader

SERVER, JOB = os.getpid(), os.getppid()  # two processes that there are
LOST = NVMLError(15, "GPU is lost")
NOT_SUPPORTED = NVMLError(3, "Not Supported")


def measured(*cards: Card, server: int | None = SERVER, job: tuple[int, ...] = (JOB,)) -> Vram:
    """Return what one look at these cards shows."""
    card = proof._Card(lambda: FakeNvml(*cards))
    return card.read(server, job)


@pytest.fixture
def reader_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., VramReader]]:
    """Give readers that look a hundred times a second and are closed at the end."""
    monkeypatch.setattr(proof, "_EVERY", 0.01)
    readers: list[VramReader] = []

    def make(nvml: object, clock: FakeClock | None = None) -> VramReader:
        readers.append(VramReader(clock or FakeClock(), lambda: nvml))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()
        assert not reader._thread or not reader._thread.is_alive()


# ---- One look --------------------------------------------------------------------------------------------------------


def test_memory_of_server_and_job_and_what_is_free() -> None:
    """A process in two lists counts once, with all it has."""
    card = Card(1000, compute={SERVER: 5000, JOB: 300}, graphics={JOB: 300})
    assert measured(card) == Vram(5000, 300, 1000)


def test_only_the_cards_concerned_count_as_free() -> None:
    """A second card with neither of them is of no help."""
    assert measured(Card(1000, {SERVER: 5000}), Card(9000)) == Vram(5000, 0, 1000)
    assert measured(Card(1000, {SERVER: 5000}), Card(50, {JOB: 7000, SERVER: 10})) == Vram(5010, 7000, 1050)
    assert measured(Card(1000), Card(9000)) == Vram(0, 0, 10000)


def test_on_windows_only_what_is_free_is_known() -> None:
    """The driver lists the processes without their memory."""
    assert measured(Card(1000, {SERVER: None, JOB: None})) == Vram(None, None, 1000)


def test_what_is_not_asked_for_or_not_told_is_unknown() -> None:
    """Unknown is not the same as nothing."""
    assert measured(Card(1000, {JOB: 5}), server=None, job=()) == Vram(None, None, 1000)
    silent = Card(1000, {SERVER: 1}, failing={"compute": NOT_SUPPORTED, "graphics": NVMLError(4, "No Permission")})
    assert measured(silent) == Vram(None, None, 1000)
    assert measured(Card(0, {SERVER: 40}, failing={"memory": NOT_SUPPORTED})) == Vram(40, 0, None)
    assert measured() == Vram()


def test_numbers_of_another_system_are_not_taken_for_ours() -> None:
    """In a container the driver speaks of the numbers outside: that the job is not listed says nothing."""
    assert measured(Card(1000, {2**30: 7000})) == Vram(None, None, 1000)


def test_a_driver_in_trouble_is_opened_anew() -> None:
    """After a reset or a suspended machine the next look works again."""
    card = Card(1000, {SERVER: 40}, failing={"memory": LOST})
    nvml = FakeNvml(card)
    door = proof._Card(lambda: nvml)
    assert door.read(SERVER, ()) == Vram()
    assert nvml.open == 0
    card.failing.clear()
    assert door.read(SERVER, ()).server == 40
    nvml.open, nvml.error = 0, LOST
    assert [door.read(SERVER, ()), door.read(SERVER, ())] == [Vram(), Vram()]
    nvml.error = None
    assert door.read(SERVER, ()).server == 40
    assert door.trouble == ""


def test_the_words_name_what_is_known() -> None:
    """Fit for the tray and the log."""
    assert str(Vram(5000, None, 20)) == "server 5000 MiB, free 20 MiB"
    assert str(Vram()) == "memory of the card unknown"


# ---- The thread ------------------------------------------------------------------------------------------------------


def test_nobody_looks_while_nothing_is_held(reader_of: Callable[..., VramReader]) -> None:
    """There is not even a thread."""
    nvml = FakeNvml(Card(1000))
    reader = reader_of(nvml)
    reader.watch(False, SERVER, [JOB])
    assert reader._thread is None
    assert reader.latest == Vram()
    assert nvml.open == 0


def test_it_looks_while_held_and_shortly_after(reader_of: Callable[..., VramReader]) -> None:
    """The memory that comes free when the job is given back is still seen; then it rests, and knows nothing."""
    clock, card = FakeClock(), Card(1000, {JOB: 300})
    nvml = FakeNvml(card)
    reader = reader_of(nvml, clock)
    reader.watch(True, SERVER, [JOB])
    wait_until(lambda: reader.latest == Vram(0, 300, 1000), what="the first look")
    reader.watch(False, SERVER, [JOB])
    card.compute.clear()
    wait_until(lambda: reader.latest == Vram(0, 0, 1000), what="a look afterwards")
    clock.advance(6)
    wait_until(lambda: reader.latest == Vram(), what="the rest")
    looks = nvml.looks
    reader.watch(False, SERVER, [JOB])
    assert nvml.looks == looks
    reader.watch(True, None, [JOB])
    wait_until(lambda: reader.latest == Vram(None, 0, 1000), what="a look at the next hold")


def test_without_nvml_it_says_so_once_and_ends(
    reader_of: Callable[..., VramReader], caplog: pytest.LogCaptureFixture
) -> None:
    """As on any machine without a card of NVIDIA's."""
    caplog.set_level(logging.INFO)
    reader = reader_of(FakeNvml(error=NVMLError(12, "NVML Shared Library Not Found")))
    for _ in range(3):
        reader.watch(True, SERVER, [JOB])
        wait_until(lambda: reader.trouble == "NVML Shared Library Not Found", what="the reason")
    assert reader._thread
    wait_until(lambda: not reader._thread.is_alive(), what="the end of the thread")
    assert reader.latest == Vram()
    assert len(caplog.records) == 1


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported when it is needed."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    reader = VramReader(SystemClock())
    reader.watch(True, SERVER, [JOB])
    wait_until(lambda: reader.trouble, what="the reason")
    assert reader.trouble == "the package nvidia-ml-py is not installed"
    reader.close()


@pytest.mark.real
def test_the_real_library_answers_or_says_why_not() -> None:
    """Whatever this machine has, no error comes through."""
    reader = VramReader(SystemClock())
    reader.watch(True, SERVER, [JOB])
    wait_until(lambda: reader.trouble or reader.latest.free is not None, what="an answer")
    reader.close()


def test_closing_is_quick_and_final(reader_of: Callable[..., VramReader]) -> None:
    """Afterwards nothing starts again."""
    nvml = FakeNvml(Card(1000))
    reader = reader_of(nvml)
    reader.watch(True, SERVER, [JOB])
    wait_until(lambda: reader.latest.free == 1000, what="the first look")
    reader.close()
    assert nvml.open == 0
    reader.watch(True, SERVER, [JOB])
    assert reader._thread
    assert not reader._thread.is_alive()
