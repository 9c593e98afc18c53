"""What `doctor` says of saving and cost."""

import json
from dataclasses import replace

import pytest

from diagnostics.weighing import as_lines, weigh
from engine.account import Day
from engine.benefit import ENOUGH
from engine.config.settings import Settings
from engine.days import Kept, local_date

WALL = 1_796_000_000.0
DAY = Day(local_date(WALL), preparations=10, measured=ENOUGH, saved=ENOUGH * 20.0, held_guessing=50.0)


@pytest.mark.parametrize(
    ("day", "worth", "pays_from", "verdict"),
    [
        (DAY, 0.0, None, "JOB_WORTH is 0: guesses are not weighed, P alone decides"),
        (DAY, 2.0, 0.5, "JOB_WORTH is 2: a guess pays from P = 0.50 on"),
        (DAY, 5.0, None, "guesses cost more than they save, so none is begun; what you ask for is"),
        (replace(DAY, saved=0.0), 0.01, None, "guesses cost more than they save"),
        (replace(DAY, measured=1), 2.0, None, f"not weighed before {ENOUGH} prompts are measured (1 are)"),
    ],
)
def test_the_verdict_is_said_in_words(day: Day, worth: float, pays_from: float | None, verdict: str) -> None:
    """And as a number where there is one; JSON has no infinity."""
    found = weigh(Kept(days=[day]), Settings(job_worth=worth), WALL, None)
    assert found["pays_from"] == pays_from
    assert verdict in found["verdict"]
    assert as_lines(found)[-1] == found["verdict"]
    json.dumps(found, allow_nan=False)


def test_what_is_known_is_said_with_what_it_rests_on() -> None:
    """Saving, the rate of this very server, and cost."""
    kept = Kept(days=[DAY], rates={"one": [100.0, 900.0, 1200.0], "two": [5.0]})
    found = weigh(kept, Settings(), WALL, "one")
    assert (found["saving_per_prompt_s"], found["prefill_tokens_per_s"], found["holding_per_guess_s"]) == (20, 900, 5)
    assert as_lines(found)[:3] == [
        "a prompt that took up what was prepared saved 20.0 s (of 3 in 14 days)",
        "this server computes 900 tokens a second",
        "a guess held the job for 5.0 s of its work (of 10)",
    ]


def test_what_is_not_known_is_said_to_be() -> None:
    """Never as zero, and not with a count of nothing."""
    lines = as_lines(weigh(Kept(), Settings(), WALL, "one"))
    assert [line.startswith("not known yet: ") for line in lines] == [True, True, True, False]
    assert "(of " not in "".join(lines)
