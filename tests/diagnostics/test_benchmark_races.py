"""What prompts re-used says whether a context was wiped or overtaken; what they answered, whether one was wrong."""

import pytest

from diagnostics.bench_measure import succeeded
from diagnostics.bench_races import NEVER
from diagnostics.bench_sent import LEFT, OTHER, SHORTFALL, Prompts, Sent, _said
from diagnostics.bench_table import races_text
from diagnostics.client import Reply
from engine.clock import SystemClock


def sent(
    text: str, at: float, reused: int, answer: str = "word", *, life: int | None = 0, later: int | None = None
) -> Sent:
    """Return one that was answered within 0.1 s, re-using so many tokens."""
    reply = Reply(0.1, answer, reused, 1 + len(text) - reused)
    return Sent(text, (life, life if later is None else later), at, at + 0.1, reply)


def prompts(*of_one_user: Sent, one_slot: bool = True, sleep_after: float = float("inf")) -> Prompts:
    """Return what one user sent."""
    of_all = Prompts("http://127.0.0.1:1", SystemClock(), one_slot=one_slot, sleep_after=sleep_after)
    of_all.all += of_one_user
    return of_all


def test_a_conversation_that_goes_on_costs_nothing() -> None:
    """Each prompt re-uses what the one before it left."""
    found = Prompts.judged([prompts(sent(_said(200), 0, 1), sent(_said(400), 1, 201), sent(OTHER, 2, 1))])
    assert (found["prompts"], found["answered"], found["wiped"], found["overtaken"]) == (3, 3, 0, 0)
    assert found["overtaken_cost_max_ms"] is None


def test_an_older_context_in_the_slot_is_overtaken_and_an_empty_one_wiped() -> None:
    """And what had to be computed once more is counted in milliseconds of that prompt."""
    found = Prompts.judged([prompts(sent(_said(600), 0, 1), sent(_said(800), 1, 201), sent(_said(1000), 2, 1))])
    assert (found["wiped"], found["overtaken"]) == (1, 1)
    assert found["overtaken_cost_max_ms"] == round(100 * (600 - 201 - SHORTFALL) / (801 - 201), 1)


def test_of_several_at_once_the_worst_may_have_been_the_last() -> None:
    """The client's clock does not tell in which order a server took them."""
    long, short, other = sent(_said(600), 0, 1), sent(_said(200), 0.05, 201), sent(OTHER, 0.06, 1)
    for of_all, wiped in (([long, short], 1), ([long, other], 0), ([long], 1)):
        assert Prompts.judged([prompts(*of_all, sent(_said(800), 1, 1))])["wiped"] == wiped
    assert Prompts.judged([prompts(long, short, sent(_said(800), 1, 200))])["overtaken"] == 0


def test_where_the_context_may_have_been_lost_nothing_is_concluded() -> None:
    """By a kill between or during two prompts, by sleep, or beside another slot."""
    first, then = sent(_said(600), 0, 1), sent(_said(800), 9, 1)
    for of_all in (
        prompts(first, sent(_said(800), 1, 1, life=1)),
        prompts(sent(_said(600), 0, 1, later=1), sent(_said(800), 1, 1, life=1)),
        prompts(sent(_said(600), 0, 1, life=None), sent(_said(800), 1, 1, life=None)),
        prompts(first, then, sleep_after=3.0),
        prompts(first, then, one_slot=False),
    ):
        assert Prompts.judged([of_all])["wiped"] == 0


def test_an_answer_unlike_the_others_is_wrong() -> None:
    """Only its beginning counts, since roundings add up."""
    alike = [sent(_said(200), number, 1, f"same{number}") for number in range(3)]
    assert Prompts.judged([prompts(*alike)])["wrong_answers"] == 0
    assert Prompts.judged([prompts(*alike, sent(_said(200), 4, 200, "else"))])["wrong_answers"] == 1


def test_who_got_no_answer_was_stranded_unless_the_server_was_killed() -> None:
    """A broken line alone is no proof."""
    killed = Sent("a", (0, 1), 0.0, 1.0, None, "the connection broke")
    left = Sent("a", (1, 1), 2.0, 62.0, None, f"{LEFT}: timed out")
    found = Prompts.judged([prompts(killed, left)])
    assert (found["broken_by_kills"], found["stranded"]) == (1, 1)


@pytest.mark.parametrize("name", NEVER)
def test_what_must_never_happen_ends_with_failure(name: str) -> None:
    """Be it a single time in a thousand."""
    never = dict.fromkeys(NEVER, 0)
    assert succeeded({"scenarios": [], "interleavings": never | {"overtaken": 3}})
    assert not succeeded({"scenarios": [], "interleavings": never | {name: 1}})


def test_the_counts_are_printed_for_people() -> None:
    """Each in a line of its own; what nobody measured is none."""
    found = {"interleavings": 1000, "prompts": 2560, "stranded": 0, "overtaken_cost_max_ms": None}
    lines = races_text(found).splitlines()
    assert lines[0] == "1,000 interleavings on the real server, 2,560 prompts"
    assert [line.split() for line in lines[2:]] == [["stranded", "0"], ["overtaken", "cost", "max", "ms", "none"]]
