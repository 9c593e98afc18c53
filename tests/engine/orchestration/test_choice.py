"""How the background job is held is chosen by what is there."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.clock import FakeClock
from helpers.fake_folding import folding

from engine.config.settings import Settings
from engine.config.spec import Value
from engine.errors import BackendUnavailable, LedgerError
from engine.orchestration.backends.base import Applied
from engine.orchestration.backends.boinc import BoincBackend
from engine.orchestration.backends.several import SeveralBackends
from engine.orchestration.choice import Chooser
from engine.orchestration.guardian import Guardian
from engine.orchestration.ledger import Entry, Ledger, RestoreMps, Undone


class Fake:
    """A backend that answers what the test wants."""

    costly = True

    def __init__(self, name: str, *answers: Applied | Exception) -> None:
        self.name = name
        self.answers = list(answers)
        self.calls: list[str] = []

    def _answer(self, call: str) -> Applied:
        self.calls.append(call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def priority(self) -> int:
        """Fit."""
        return 7

    def apply(self, share: int) -> Applied:
        """Answer."""
        return self._answer(f"apply {share}")

    def verify(self) -> Applied:
        """Answer."""
        return self._answer("verify")

    def release(self) -> Applied:
        """Answer."""
        return self._answer("release")

    def refresh(self) -> None:
        """Note it."""
        self.calls.append("refresh")


@pytest.fixture
def chooser(tmp_path: Path) -> Chooser:
    """Give a chooser over a ledger of the test's own."""
    path = tmp_path / "ledger.json"
    return Chooser(Ledger(path), Guardian(path), FakeClock())


@contextmanager
def _boinc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as there:
        there.setattr(BoincBackend, "priority", lambda _: 30)
        yield


def _settings(**changes: Value) -> Settings:
    nowhere: dict[str, Value] = {"FOLDING_URL": "ws://127.0.0.1:9/", "BOINC_URL": "127.0.0.1:9"}
    return Settings().replace({**nowhere, "FALLBACK_TO_SUSPEND": True, **changes})


def test_a_job_that_can_be_spoken_to_goes_over_its_processes(chooser: Chooser) -> None:
    """That needs no rights and frees the memory; the others' reasons are kept."""
    with folding() as client:
        chosen = chooser.choose(_settings(FOLDING_URL=client.url))
        assert chosen.backend.name == "folding"
        assert {"boinc"} <= dict(chosen.refused).keys()
    assert chooser.choose(_settings()).backend.name == "process"


def test_all_jobs_that_can_be_spoken_to_are_held(chooser: Chooser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them fills the card."""
    with folding() as client, _boinc(monkeypatch):
        chosen = chooser.choose(_settings(FOLDING_URL=client.url))
        assert (chosen.backend.name, chosen.backend.costly) == ("folding+boinc", True)


def test_another_program_named_in_the_settings_is_held_beside_them(chooser: Chooser) -> None:
    """Somebody renders, and Folding@home is installed."""
    with folding() as client:
        chosen = chooser.choose(_settings(FOLDING_URL=client.url, BACKGROUND_PROCESS_NAME="blender"))
        assert chosen.backend.name == "folding+process"
        for name, expected in (("fah-client", "folding"), ("FAHClient.exe", "folding"), ("boinc", "folding+process")):
            settings = _settings(FOLDING_URL=client.url, BACKGROUND_PROCESS_NAME=name)
            assert chooser.choose(settings).backend.name == expected


def test_an_explicit_method_is_tried_alone(chooser: Chooser) -> None:
    """What was not asked for is neither tried nor refused."""
    with folding() as client:
        chosen = chooser.choose(_settings(FOLDING_URL=client.url, BACKGROUND_METHOD="process"))
        assert (chosen.backend.name, chosen.refused) == ("process", ())
    chosen = chooser.choose(_settings(BACKGROUND_METHOD="folding"))
    assert chosen.backend.name == "null"
    assert chosen.backend.verify().detail == "folding: no Folding@home client at 127.0.0.1:9: nobody listens"


def test_what_is_chosen_again_stays(chooser: Chooser) -> None:
    """It knows its job already."""
    known = chooser.choose(_settings()).backend
    assert chooser.choose(_settings(), known).backend is known
    with folding() as client:
        assert chooser.choose(_settings(FOLDING_URL=client.url), known).backend is not known


def test_the_guardian_rests_only_when_none_holds_anything(chooser: Chooser, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that gives back must not leave another unguarded, nor clear what it has written."""
    told: list[str] = []
    monkeypatch.setattr(Guardian, "arm", lambda _: told.append("arm"))
    monkeypatch.setattr(Guardian, "rest", lambda _: told.append("rest"))
    one, other = chooser._safeguard(), chooser._safeguard()
    first, second = RestoreMps("/nowhere/one", 100.0, 10.0), RestoreMps("/nowhere/two", 100.0, 10.0)
    monkeypatch.setattr("engine.orchestration.backends.base.undo", _settle)
    one.before_acting([first])
    other.before_acting([second])
    one.give_back()
    assert (told, chooser.ledger.read()) == (["arm", "arm"], (second,))
    other.give_back()
    assert (told[-1], chooser.ledger.read()) == ("rest", ())


def _settle(entries: Collection[Entry]) -> tuple[Undone, ...]:

    return tuple(Undone(entry, True, "done") for entry in entries)


# ---- Several at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        (Applied(10, True, "a"), Applied(10, True, "b"), Applied(10, True, "x: a; y: b")),
        (Applied(10, True, "a"), Applied(10, False, "b", 0.1), Applied(10, False, "x: a; y: b", 0.1)),
        (Applied(10, True, "a"), Applied(100, None, "not needed"), Applied(10, True, "x: a; y: not needed")),
        (Applied(10, True), Applied(100, False, "b"), Applied(100, False, "y: b")),
        (Applied(100, None, "a"), Applied(100, None), Applied(100, None, "x: a")),
        (Applied(10, True), BackendUnavailable("no guardian"), Applied(100, False, "y: no guardian")),
        (Applied(100, None, "", 5.0, 0.1), Applied(100, None, "", 2.0, 0.2), Applied(100, None, "", 2.0, 0.3)),
    ],
)
def test_the_card_is_yielded_when_all_have_left_it(one: Applied, other: Applied | Exception, together: Applied) -> None:
    """One that is not needed does not count; one that fails does not keep the others from theirs."""
    several = SeveralBackends([Fake("x", one), Fake("y", other)])
    answer = several.apply(10)
    assert answer.lost == pytest.approx(together.lost)
    assert (answer.share, answer.verified, answer.detail, answer.look_in) == (
        together.share,
        together.verified,
        together.detail,
        together.look_in,
    )
    assert several.verify() == answer


def test_all_are_given_back_whatever_one_of_them_does() -> None:
    """The failure is raised once all were asked."""
    one, other = Fake("x", LedgerError("the client is deaf")), Fake("y", Applied(100, None))
    several = SeveralBackends([one, other])
    with pytest.raises(LedgerError, match="deaf"):
        several.apply(100)
    assert (one.calls, other.calls) == (["release"], ["release"])
    several.refresh()
    assert other.calls == ["release", "refresh"]
    assert several.priority() == 7


def test_mps_is_used_only_when_it_is_asked_for(chooser: Chooser) -> None:
    """It reaches only programs that start later and marks them for life: never by itself."""
    refused = dict(chooser.choose(_settings()).refused)
    assert "BACKGROUND_METHOD=mps only" in refused["mps"]
