"""The state in words."""

import subprocess
import sys
from dataclasses import replace

import pytest

from app import texts
from engine.events import ServerState, Snapshot, State

IDLE = Snapshot(at=0.0, state=State.COLD_IDLE)
PREPARED = Snapshot(
    at=0.0,
    state=State.SPECULATIVE_PREPARED,
    probability=0.71,
    background_share=10,
    background_verified=True,
    backend="process",
    background_detail="fahclient is stopped",
    deadline_in=12.3,
)


@pytest.mark.parametrize(
    ("snapshot", "sentence"),
    [
        (IDLE, "Waiting for signs of a prompt; nothing is held back."),
        (replace(IDLE, backend="process"), "Waiting for signs of a prompt; the background job is not held back."),
        (replace(IDLE, holding=True), "Waiting for quiet after a false alarm; nothing is held back."),
        (PREPARED, "A prompt seems near, and is waited for another 12 s; the card is as good as free."),
        (
            replace(PREPARED, deadline_in=None, background_share=100),
            "A prompt seems near; the background job is not held back.",
        ),
        (
            replace(PREPARED, state=State.ACTIVE_INFERENCE, background_share=0),
            "The server is answering; the card is free for it.",
        ),
        (
            replace(PREPARED, state=State.ACTIVE_INFERENCE, background_share=0, background_verified=False),
            "The server is answering; the background job was told to yield, but is not seen to.",
        ),
        (replace(IDLE, state=State.DEGRADED), "The server does not answer; nothing is held back."),
        (
            replace(IDLE, state=State.DEGRADED, server=ServerState.LOADING),
            "The server is loading its model; nothing is held back.",
        ),
        (replace(IDLE, paused=True), "Paused until you resume; nothing is held back."),
        (replace(IDLE, paused=True, paused_for=840.0), "Paused for another 14 min; nothing is held back."),
        (replace(IDLE, not_guessing="on battery"), "Not guessing: on battery; nothing is held back."),
        (
            replace(IDLE, not_guessing="on battery", paused=True),
            "Paused until you resume; nothing is held back.",
        ),
        (
            replace(PREPARED, not_guessing="on battery", background_share=0, state=State.ACTIVE_INFERENCE),
            "The server is answering; the card is free for it.",
        ),
        (replace(IDLE, closed=True), "The engine has ended; nothing is held back."),
    ],
)
def test_the_state_is_one_sentence(snapshot: Snapshot, sentence: str) -> None:
    """One can say it aloud, it says whether the job is held, and does not pretend that there is one."""
    assert texts.sentence(snapshot) == sentence


def test_the_tooltip_says_why_nothing_is_guessed() -> None:
    """In place of figures that stand still; a pause goes before it."""
    covered = replace(IDLE, not_guessing="full-screen program")
    assert texts.tooltip(covered).splitlines()[1] == "not guessing: full-screen program"
    assert texts.tooltip(replace(covered, paused=True)).splitlines()[1].startswith("P 0.00")


def test_the_tooltip_says_what_matters() -> None:
    """State, P, threshold, what holds the job and why."""
    assert texts.tooltip(PREPARED).splitlines() == [
        "ZAT-SCS: Prepared",
        "P 0.71, threshold 0.65",
        "Job: held (process, verified). fahclient is stopped",
    ]
    assert "Job: 10 % left (mps, verified)" in texts.tooltip(replace(PREPARED, backend="mps"))
    assert "Job: free" in texts.tooltip(IDLE)


def test_the_tooltip_says_why_it_is_prepared() -> None:
    """Last, since Windows cuts long ones off; nothing of the kind while nothing is prepared."""
    typing = replace(PREPARED, because="typing, 12 s after a reply")
    assert texts.tooltip(typing).splitlines()[-1] == "Prepared because: typing, 12 s after a reply"
    assert texts.because(IDLE) == ""


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (12.4, "12 s"), (90, "2 min"), (841, "15 min"), (3600, "60 min"), (7200, "2 h")],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    """Minutes are rounded up: what is said to be left is never less than what is."""
    assert texts.duration(seconds) == words


def test_words_need_no_qt() -> None:
    """`status` works on a machine without a screen."""
    script = "import sys, app.texts; sys.exit('PySide6' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
