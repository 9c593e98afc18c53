"""What Windows refuses while somebody has the file open is tried again there, for a while, and nowhere else."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config import sharing
from engine.orchestration.ledger import Ledger, Resume


def refused(times: int) -> tuple[Callable[[], None], list[int]]:
    """Return an action that is refused so often, and where its tries are counted."""
    tries: list[int] = []

    def action() -> None:
        tries.append(1)
        if len(tries) <= times:
            raise PermissionError(13, "Permission denied")

    return action, tries


def test_on_windows_it_is_tried_until_the_file_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a file has it open for a moment only."""
    monkeypatch.setattr(sharing, "_PATIENCE", 60.0)
    monkeypatch.setattr(sys, "platform", "win32")
    action, tries = refused(3)
    sharing.once_free(action)
    assert len(tries) == 4


def test_on_windows_it_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may really not be ours."""
    monkeypatch.setattr(sharing, "_PATIENCE", 0.05)
    monkeypatch.setattr(sys, "platform", "win32")
    action, tries = refused(1 << 30)
    with pytest.raises(PermissionError):
        sharing.once_free(action)
    assert len(tries) > 1


def test_elsewhere_a_refusal_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """There nobody's reading is in the way."""
    monkeypatch.setattr(sys, "platform", "linux")
    action, tries = refused(1)
    with pytest.raises(PermissionError):
        sharing.once_free(action)
    assert len(tries) == 1


def test_other_faults_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not pass by waiting."""
    monkeypatch.setattr(sys, "platform", "win32")

    def broken() -> None:
        raise FileNotFoundError

    with pytest.raises(FileNotFoundError):
        sharing.once_free(broken)


@pytest.mark.skipif(sys.platform == "win32", reason="replaces what Windows itself does")
def test_the_ledger_is_replaced_and_deleted_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guardian reads it at the very moment in which the engine writes it anew."""
    entry, path = Resume(4711, 1, "job"), tmp_path / "ledger.json"
    calls = {name: getattr(type(path), name) for name in ("replace", "unlink")}
    refusals: list[str] = []

    def busy(name: str) -> Callable[..., object]:
        def call(*words: object, **more: object) -> object:
            if refusals.count(name) < 2:
                refusals.append(name)
                raise PermissionError(13, "Permission denied")
            return calls[name](*words, **more)

        return call

    for name in calls:
        monkeypatch.setattr(type(path), name, busy(name))
    monkeypatch.setattr(sharing, "_PATIENCE", 60.0)
    monkeypatch.setattr(Ledger, "_see_to_login", lambda *_, **__: None)
    monkeypatch.setattr(sys, "platform", "win32")
    ledger = Ledger(path)
    ledger.record([entry])
    ledger.clear([entry])
    monkeypatch.undo()
    assert refusals == ["replace", "replace", "unlink", "unlink"]
    assert not path.exists()
