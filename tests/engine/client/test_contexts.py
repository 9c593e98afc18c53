"""The list of saved contexts: names, growth, budget, age, and every way in which one does not fit."""

import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from engine.client import contexts as contexts_module
from engine.client.answers import Kind
from engine.client.contexts import Contexts
from engine.client.index import SavedContext
from engine.client.matching import misfit, model_key
from engine.client.slot_files import make_private, measure
from engine.client.view import Facts

SERVER = "http://127.0.0.1:8080"
NOON = 1_800_000_000.0


class Desk:
    """A folder of slot files, a model, a server and the list."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = folder / "model.gguf"
        self.model.write_bytes(b"weights")
        self.index = folder / "data" / "contexts.json"
        self.contexts = Contexts(self.index)
        self.facts = Facts(
            Kind.LLAMA_SERVER,
            model_path=str(self.model),
            build="b1",
            total_slots=1,
            n_ctx=4096,
            command_line=("llama-server",),
            save_path=str(folder),
        )

    def saved(self, name: str, tokens: int = 1000, at: float = NOON) -> SavedContext:
        """Return the record of a file that is written now."""
        path = self.folder / name
        path.write_bytes(os.urandom(tokens))
        written = measure(path)
        return SavedContext(
            filename=name,
            folder=str(self.folder),
            slot=0,
            tokens=tokens,
            size=written.size,
            stamp=written.stamp,
            digest=written.digest,
            server=SERVER,
            model=model_key(self.facts),
            build="b1",
            n_ctx=4096,
            total_slots=1,
            cache_types="",
            saved_at=at,
        )

    def save(self, tokens: int = 1000, at: float = NOON) -> SavedContext:
        """Save under the next name, as the keeper does."""
        name = self.contexts.next_name(self.facts, SERVER)
        self.contexts.begin(name, str(self.folder), at)
        saved = self.saved(name, tokens, at)
        self.contexts.add(saved)
        return saved

    def again(self) -> Contexts:
        """Read the list anew, as the next start does."""
        return Contexts(self.index)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty desk."""
    return Desk(tmp_path)


# ---- Names -----------------------------------------------------------------------------------------------------------


def test_two_names_alternate_so_that_a_good_one_remains(desk: Desk) -> None:
    """The newest is never written over."""
    first, second, third = desk.save(at=NOON), desk.save(at=NOON + 1), desk.save(at=NOON + 2)
    assert first.filename != second.filename
    assert third.filename == first.filename
    assert desk.again().best(desk.facts, SERVER) == third
    assert desk.again().fitting(desk.facts, SERVER) == (third, "")


def test_a_name_is_forgotten_before_its_file_is_overwritten(desk: Desk) -> None:
    """If the program ends half-way, the other one is given back."""
    first, second = desk.save(at=NOON), desk.save(at=NOON + 1)
    desk.contexts.begin(first.filename, first.folder, NOON + 2)
    (desk.folder / first.filename).write_bytes(b"half")
    assert desk.again().fitting(desk.facts, SERVER) == (second, "")


def test_the_older_one_is_given_back_when_the_newest_is_damaged(desk: Desk) -> None:
    """And the damaged one is the next to be overwritten."""
    first, second = desk.save(at=NOON), desk.save(at=NOON + 1)
    (desk.folder / second.filename).write_bytes(b"cut")
    assert desk.contexts.fitting(desk.facts, SERVER) == (first, "")
    assert desk.contexts.next_name(desk.facts, SERVER) == second.filename


def test_servers_and_models_have_names_of_their_own(desk: Desk) -> None:
    """All models of a router share one folder."""
    names = {desk.contexts.next_name(desk.facts, server) for server in (SERVER, "http://127.0.0.1:9")}
    names.add(desk.contexts.next_name(replace(desk.facts, model="other"), SERVER))
    assert len(names) == 3


# ---- What is worth writing -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "before", "tokens", "worth"),
    [
        (None, None, 1, True),
        (None, None, 0, False),
        (4000, 4000, 4255, False),
        (4000, 4000, 4256, True),
        (1000, 1000, 1099, False),
        (1000, 1000, 1100, True),
        (1000, 1000, 1000, False),
        (1000, 1000, 300, False),  # a program's short call, or the first turn of another conversation
        (1000, 300, 350, True),  # it lasted two turns
        (1000, 350, 300, False),
        (1000, None, 300, False),
    ],
)
def test_a_context_is_worth_saving_once_it_grew(
    desk: Desk, last: int | None, before: int | None, tokens: int, *, worth: bool
) -> None:
    """By 256 tokens or a tenth; a shorter conversation must last two turns."""
    saved = desk.save(last) if last else None
    assert desk.contexts.worth_saving(saved, tokens, before) is worth


def test_no_more_than_the_daily_budget_is_written(desk: Desk) -> None:
    """10 GB, over restarts, anew each day."""
    saved = replace_size(desk.save(), 6_000_000_000)
    desk.contexts.add(saved)
    for contexts in (desk.contexts, desk.again()):
        assert contexts.may_write(3_900_000_000, NOON)
        assert not contexts.may_write(4_100_000_000, NOON)
        assert contexts.may_write(9_000_000_000, NOON + 86400)


def replace_size(saved: SavedContext, size: int) -> SavedContext:
    """Return the record with another size."""
    return msgspec.structs.replace(saved, size=size)


# ---- Age and forgetting ----------------------------------------------------------------------------------------------


def test_old_contexts_are_deleted_with_their_files(desk: Desk) -> None:
    """And so is what was begun and never finished."""
    old, young = desk.save(at=NOON), desk.save(at=NOON + 100)
    desk.contexts.begin(old.filename, str(desk.folder / "elsewhere"), NOON)
    assert desk.contexts.expire(NOON + 50 + 3600, 1.0) == 1
    assert not (desk.folder / old.filename).exists()
    assert (desk.folder / young.filename).exists()
    assert b'"begun":[]' in desk.index.read_bytes()


def test_a_save_that_never_ended_is_deleted_too(desk: Desk) -> None:
    """Its file may hold a conversation."""
    name = desk.contexts.next_name(desk.facts, SERVER)
    desk.contexts.begin(name, str(desk.folder), NOON)
    (desk.folder / name).write_bytes(b"half a conversation")
    assert desk.again().forget() == (1, ())
    assert not (desk.folder / name).exists()


def test_forget_deletes_all_and_names_what_it_cannot(desk: Desk) -> None:
    """A file on another machine must be deleted there."""
    desk.save()
    far = msgspec.structs.replace(desk.saved("zat-scs-0123456789ab-a.bin"), folder="/far/away", stamp=None)
    desk.contexts.add(far)
    assert desk.contexts.forget() == (1, ("/far/away/zat-scs-0123456789ab-a.bin",))
    assert desk.again().best(desk.facts, SERVER) is None


def test_what_was_saved_while_the_clock_ran_ahead_ages_from_now(desk: Desk) -> None:
    """It would else stay until that day comes; or the clock is wrong now, and it is good. An hour is forgiven."""
    near, far = desk.save(at=NOON + 3500), desk.save(at=NOON + 9 * 86400)
    assert desk.contexts.expire(NOON, 24.0) == 0
    assert desk.contexts.best(desk.facts, SERVER) == msgspec.structs.replace(far, saved_at=NOON)
    assert desk.contexts.expire(NOON + 86400 + 1, 24.0) == 1
    assert not (desk.folder / far.filename).exists()
    assert desk.again().best(desk.facts, SERVER) == near


@pytest.mark.parametrize("how", ["expire", "drop"])
def test_what_could_not_be_deleted_is_tried_again_and_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """For a week, and by `forget`; its name may be written anew."""
    saved = desk.save()
    path, unlink = desk.folder / saved.filename, Path.unlink

    def refuse(self: Path, *, missing_ok: bool = False) -> None:
        if self == path:
            raise PermissionError(13, "no", str(self))
        unlink(self, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    if how == "expire":
        desk.contexts.expire(NOON + 86400, 1.0)
    else:
        desk.contexts.drop(saved)
    assert desk.again().best(desk.facts, SERVER) is None
    for _ in range(2):
        assert desk.again().forget() == (0, (str(path),))
    assert desk.save().filename == saved.filename
    desk.contexts.drop(saved)
    monkeypatch.setattr(Path, "unlink", unlink)
    desk.contexts.expire(NOON + contexts_module.RETRIED + 1, 1.0)
    assert path.exists()
    desk.contexts.expire(NOON + 3600, 1.0)
    assert not path.exists()
    assert desk.again().forget() == (0, ())


def test_what_lies_on_another_machine_is_named_once_it_was_dropped(desk: Desk) -> None:
    """Nobody else deletes it; once it was said it is over."""
    far = msgspec.structs.replace(desk.saved("zat-scs-0123456789ab-a.bin"), folder="/far/away", stamp=None)
    desk.contexts.add(far)
    desk.contexts.expire(NOON + 86400, 1.0)
    assert desk.again().forget() == (0, ("/far/away/zat-scs-0123456789ab-a.bin",))
    assert desk.again().forget() == (0, ())


def test_what_could_not_be_deleted_does_not_pile_up(desk: Desk) -> None:
    """The list stays small, whatever is done."""
    for number in range(contexts_module.MOST_LEFT + 9):
        desk.contexts.discard(f"zat-scs-{number:012x}-a.bin", "/far/away", NOON)
    assert len(desk.again().forget()[1]) == contexts_module.MOST_LEFT


# ---- What ends the server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("survived", "whole"), [(True, False), (False, False), (False, True)])
def test_what_was_being_restored_when_the_program_ended_is_not_tried_again(
    desk: Desk, *, survived: bool, whole: bool
) -> None:
    """Neither is the one before it, unless it was seen to be whole; whoever only looks changes nothing."""
    desk.save(at=NOON)
    saved = desk.save(at=NOON + 1)
    if not whole:
        saved = msgspec.structs.replace(saved, stamp=None)
        desk.contexts.add(saved)
    desk.contexts.restoring(saved)
    if survived:
        desk.contexts.survived()
    assert desk.again().best(desk.facts, SERVER) == saved
    engine = desk.again()
    engine.take_up()
    assert engine.best(desk.facts, SERVER) == (saved if survived or whole else None)
    assert {path.name for path in desk.index.parent.iterdir()} == {"contexts.json"}


@pytest.mark.parametrize("proven", [True, False])
def test_one_that_was_whole_is_blamed_only_the_second_time(desk: Desk, *, proven: bool) -> None:
    """The server may have ended over something else; one that it has taken since begins the count anew."""
    saved = desk.save()
    desk.contexts.condemn(saved)
    assert desk.again().best(desk.facts, SERVER) == saved
    if proven:
        desk.contexts.proven(saved)
    desk.contexts.condemn(saved)
    assert desk.again().best(desk.facts, SERVER) == (saved if proven else None)
    assert not desk.contexts.distrusts(desk.facts, SERVER)


def test_a_note_that_cannot_be_read_or_written_does_no_harm(desk: Desk) -> None:
    """It was cut short by a power cut, or its folder is gone."""
    saved = desk.save()
    note = desk.index.with_name("contexts.json.restoring")
    note.write_bytes(b"{")
    desk.contexts.take_up()
    assert not note.exists()
    note.mkdir()
    desk.contexts.restoring(saved)
    desk.contexts.survived()
    assert desk.again().best(desk.facts, SERVER) == saved


# ---- A list that is broken -------------------------------------------------------------------------------------------


def test_a_broken_list_loses_no_file(desk: Desk) -> None:
    """It is set aside once another is written; its files are deleted when they are old, or by `forget`."""
    first = desk.save()
    os.utime(desk.folder / first.filename, (NOON, NOON))
    content = desk.index.read_bytes()[:-1]
    desk.index.write_bytes(content)
    looking = desk.again()
    assert desk.index.read_bytes() == content
    looking.expire(NOON + 1800, 1.0)
    assert (desk.folder / first.filename).exists()
    looking.expire(NOON + 3601, 1.0)
    assert not (desk.folder / first.filename).exists()
    assert desk.index.with_name("contexts.json.broken").read_bytes() == content


def test_forget_goes_through_all_folders_that_are_known(desk: Desk) -> None:
    """Those of the list, of one that was set aside, and that of `zat-scs serve`; only files named like ours."""
    desk.save()
    elsewhere, served = desk.folder / 'else "where"', desk.index.parent / "slots"
    aside = msgspec.json.encode({"contexts": [{"folder": str(elsewhere)}, {"folder": "gone"}]})
    desk.index.with_name("contexts.json.broken").write_bytes(aside)
    for folder in (desk.folder, elsewhere, served):
        folder.mkdir(exist_ok=True)
        (folder / "zat-scs-0123456789ab-b.bin").write_bytes(b"x")
        for other in ("zat-scs-0123456789AB-b.bin", "zat-scs-0123456789ab-c.bin", "zat-scs-0123456789ab-b.bin.bak"):
            (folder / other).write_bytes(b"x")
        (folder / "zat-scs-0123456789ab-a.bin").symlink_to(desk.model)
    assert desk.again().forget_everywhere() == (4, ())
    assert {len(list(folder.glob("zat-scs-*"))) for folder in (elsewhere, served)} == {4}
    assert {path.name for path in desk.index.parent.iterdir()} == {"contexts.json", "slots"}
    assert desk.model.exists()


def test_a_plain_forget_touches_only_what_is_listed(desk: Desk) -> None:
    """The benchmark has a list of its own beside the user's, in the same folder."""
    desk.save()
    (desk.folder / "zat-scs-0123456789ab-b.bin").write_bytes(b"x")
    assert desk.contexts.forget() == (1, ())
    assert (desk.folder / "zat-scs-0123456789ab-b.bin").exists()


# ---- The index -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b'{"a":1}',
        b'{"contexts":[{"filename":"../../x"}]}',
        b'{"contexts":7}',
        b'"x"' * 9,
    ],
)
def test_a_list_that_cannot_be_read_is_warned_of_once(
    desk: Desk, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """And everything goes on without it."""
    desk.index.parent.mkdir()
    desk.index.write_bytes(content)
    desk.contexts = desk.again()
    assert desk.contexts.best(desk.facts, SERVER) is None
    saved = desk.save()
    assert desk.again().best(desk.facts, SERVER) == saved
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_list_that_is_no_file_is_warned_of(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A pipe would never end, a folder cannot be written."""
    desk.index.mkdir(parents=True)
    contexts = desk.again()
    contexts.add(desk.saved("zat-scs-0123456789ab-a.bin"))
    contexts.add(desk.saved("zat-scs-0123456789ab-b.bin"))
    assert contexts.best(desk.facts, SERVER)
    assert len(caplog.records) == 2
    pipe = desk.folder / "pipe"
    os.mkfifo(pipe)
    assert Contexts(pipe).best(desk.facts, SERVER) is None


def test_a_foreign_name_in_the_list_deletes_nothing(desk: Desk) -> None:
    """Only files of our own naming are ever touched."""
    desk.save()
    precious = desk.folder / "precious.txt"
    precious.write_bytes(b"x")
    text = desk.index.read_bytes()
    name = desk.contexts.best(desk.facts, SERVER)
    assert name
    desk.index.write_bytes(text.replace(name.filename.encode(), b"precious.txt"))
    assert desk.again().forget() == (1, ())  # what is named like ours in that folder
    assert precious.exists()


def test_the_list_is_for_its_owner_only(desk: Desk) -> None:
    """It tells when somebody talked to a model, and how much."""
    desk.save()
    assert stat.S_IMODE(desk.index.stat().st_mode) == 0o600


# ---- Misfits ---------------------------------------------------------------------------------------------------------


Change = Callable[[Desk, Path], Facts]


def _facts(**changes: object) -> Change:
    return lambda desk, _: replace(desk.facts, **changes)  # type: ignore[arg-type] # checked by the dataclass itself


def _file(change: Callable[[Path], object]) -> Change:
    def apply(desk: Desk, path: Path) -> Facts:
        change(path)
        return desk.facts

    return apply


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (_facts(), None),
        (_facts(n_ctx=8192), None),
        (_facts(n_ctx=1001), None),
        (_facts(n_ctx=1000), "longer"),
        (_facts(build="b2"), "build"),
        (_facts(total_slots=4), "number of slots"),
        (_facts(command_line=("llama-server", "-ctk", "q8_0")), "cache types"),
        (_facts(command_line=("llama-server", "--kv-unified")), "cache types"),
        (_facts(save_path="/elsewhere"), "another folder"),
        (_file(lambda path: path.write_bytes(path.read_bytes()[:-1])), "cut short or grew"),
        (_file(lambda path: path.write_bytes(path.read_bytes() + b"x")), "cut short or grew"),
        (_file(lambda path: path.write_bytes(os.urandom(1000))), "has changed"),
        (_file(lambda path: path.unlink()), "cannot be read"),
        (_file(lambda path: os.utime(path, (1, 1))), None),
    ],
)
def test_what_does_not_fit_is_not_given_back(desk: Desk, change: Change, word: str | None) -> None:
    """The server itself would take it, wipe its slot, or abort."""
    saved = desk.save(1000)
    facts = change(desk, desk.folder / saved.filename)
    reason = misfit(saved, facts)
    assert reason is None if word is None else word in (reason or "")
    assert desk.contexts.fitting(facts, SERVER)[0] == (saved if word is None else None)


def test_other_weights_under_the_same_path_are_another_model(desk: Desk) -> None:
    """The server would take their context in silence."""
    desk.save()
    desk.model.write_bytes(b"other weights")
    assert desk.contexts.best(desk.facts, SERVER) is None


def test_the_same_size_written_later_is_another_model(desk: Desk) -> None:
    """A fine-tune has the size of its model."""
    desk.save()
    os.utime(desk.model, ns=(1, 1))
    assert desk.contexts.best(desk.facts, SERVER) is None


def test_another_servers_context_is_not_this_ones(desk: Desk) -> None:
    """Each address has its own."""
    desk.save()
    assert desk.contexts.fitting(desk.facts, "http://10.0.0.1:8080") == (None, "nothing was saved yet")


def test_a_file_on_another_machine_is_trusted_as_the_server_said(desk: Desk) -> None:
    """We saw its answer, and did not overwrite it since."""
    far = msgspec.structs.replace(desk.saved("zat-scs-0123456789ab-a.bin"), folder="/far", stamp=None, digest=None)
    assert misfit(far, replace(desk.facts, save_path="/far")) is None


# ---- Owner only ------------------------------------------------------------------------------------------------------


def test_a_slot_file_is_taken_from_others(tmp_path: Path) -> None:
    """It is a conversation."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    path.chmod(0o644)
    assert make_private(path) is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, True), (0o600, False)])
def test_where_that_is_not_allowed_readers_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, *, warned: bool
) -> None:
    """The file belongs to the server's user."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    path.chmod(mode)

    def refuse(self: Path, mode: int) -> None:
        raise PermissionError(self, mode)

    monkeypatch.setattr(Path, "chmod", refuse)
    assert ("can be read by other users" in (make_private(path) or "")) is warned


# ---- Useless ---------------------------------------------------------------------------------------------------------


def test_two_useless_restores_in_a_row_end_restoring_for_that_model_and_build(desk: Desk) -> None:
    """A useful one in between starts anew, and so does another build."""
    contexts = desk.contexts
    assert [contexts.judge(desk.facts, useful=useful) for useful in (False, True, False)] == [False] * 3
    assert not contexts.useless(desk.facts)
    assert contexts.judge(desk.facts, useful=False)
    assert desk.again().useless(desk.facts)
    assert not desk.again().useless(replace(desk.facts, build="b2"))
    assert not desk.again().useless(replace(desk.facts, model="other"))
