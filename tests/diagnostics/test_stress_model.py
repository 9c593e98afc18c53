"""The model of the server waits, strands, sleeps and dies as the real one was measured to."""

from pathlib import Path

import pytest

from diagnostics.stress_model import Agenda, ModelServer, Task


@pytest.fixture
def model(tmp_path: Path) -> ModelServer:
    """Return one with a single slot."""
    return ModelServer(Agenda(), tmp_path)


def passes(model: ModelServer, seconds: float) -> None:
    """Let time pass."""
    until = model.agenda.now + seconds
    while model.agenda.step(until):
        pass


def prompt(model: ModelServer, lasts: float = 1.0, *, streamed: bool = False) -> Task:
    """Send a prompt of 100 tokens."""
    task = Task("prompt", tokens=100, lasts=lasts, streamed=streamed)
    model.submit(task)
    return task


def act(model: ModelServer, kind: str) -> Task:
    """Send an action on the slot."""
    task = Task(kind, 0, filename="a.bin")
    model.submit(task)
    return task


def test_a_prompt_behind_an_action_is_stranded_until_another_ends(model: ModelServer) -> None:
    """The action waits for the slot, takes its turn and calls nobody."""
    first, save, second = prompt(model), act(model, "save"), prompt(model)
    passes(model, 60.0)
    assert (first.status, save.status, second.status) == (200, 200, None)
    model.watch_waiting()
    passes(model, 1.0)
    model.watch_waiting()
    assert model.longest_wait == pytest.approx(1.0)
    act(model, "unstrand")
    passes(model, 2.0)
    assert second.status == 200


@pytest.mark.parametrize(("streamed", "noticed"), [(False, True), (True, False)])
def test_a_hang_up_shows_after_a_second_without_answers(model: ModelServer, streamed: bool, noticed: bool) -> None:
    """A reply that streams counts as answers all the while: then the action is carried out after it."""
    prompt(model, 5.0, streamed=streamed)
    save = act(model, "save")
    model.hang_up(save)
    passes(model, 10.0)
    assert (save.status is None) is noticed


def test_an_action_on_a_busy_or_warm_slot_is_noted(model: ModelServer) -> None:
    """A restore only: a save harms nobody."""
    prompt(model)
    passes(model, 0.5)
    act(model, "save")
    passes(model, 1.0)
    assert model.wrongs == []
    act(model, "restore")
    passes(model, 1.0)
    assert model.wrongs == ["a restore was sent to a warm slot"]
    prompt(model)
    passes(model, 0.5)
    act(model, "restore")
    assert model.wrongs[1:] == ["a restore was sent to a busy slot"]


def test_a_restore_gives_back_what_was_saved(model: ModelServer) -> None:
    """After a loss, from the file; a missing one empties the slot and is refused, a short one ends the server."""
    prompt(model)
    passes(model, 2.0)
    save = act(model, "save")
    model.die()
    model.rise(0.0)
    passes(model, 1.0)
    restore = act(model, "restore")
    assert (save.tokens, restore.status, restore.tokens, model.slots[0].tokens) == (108, 200, 108, 108)
    assert model.wrongs == []
    file = model.folder / "a.bin"
    file.write_bytes(file.read_bytes()[:-1])
    passes(model, 1.0)
    act(model, "restore")
    assert not model.alive
    file.unlink()
    model.rise(0.0)
    passes(model, 1.0)
    assert act(model, "restore").status == 400
    assert set(model.wrongs) == {"a restore of a missing or short file was sent"}


def test_sleep_and_death_lose_everything(model: ModelServer) -> None:
    """A prompt wakes it; whoever is at work when it dies gets no answer, nor does who comes before it is back."""
    prompt(model)
    model.sleep()
    assert not model.asleep
    passes(model, 2.0)
    model.sleep()
    assert (model.asleep, model.slots[0].tokens) == (True, 0)
    second = prompt(model)
    assert not model.asleep
    model.die()
    third = prompt(model)
    assert (second.broken, third.broken) == (True, True)
    model.rise(0.5)
    fourth = prompt(model)
    passes(model, 1.0)
    fifth = prompt(model)
    passes(model, 2.0)
    assert (fourth.broken, fifth.status) == (True, 200)
