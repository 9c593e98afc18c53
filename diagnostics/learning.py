"""Compares the shipped weights with weights that follow a user's own outcomes, over rows of days of the same person.

`python -m diagnostics.learning [--days N] [--hours H] [--seed S] [--json]`

What was learned goes from day to day through the file that users have. Where prompts come from is learned in both rows;
the corrections of the weights in one only. People with usual habits write as in `diagnostics.days`; the others do not:
one thinks long before sending, one writes pages and sends by a short cut, one keeps notes in the window of the chat,
one asks rarely and types nothing else.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics import days_acts as acts
from diagnostics import replay
from diagnostics.days import KINDS
from diagnostics.days_desk import (
    FAST_INTERVAL,
    HZ,
    KEYS_PER_PROMPT,
    LAST_KEY_TO_SEND,
    REPLY_TO_FIRST_KEY,
    SLOW_INTERVAL,
    Desk,
)
from diagnostics.replay_figures import Day, summary
from engine import memory, trace
from engine.config.settings import Settings
from engine.telemetry.evidence import KeyKind
from engine.telemetry.personal import Correction, Personal
from engine.telemetry.processor import Fusion

FIGURES = ("prompts", "recall", "ready_1s", "precision", "fp_per_hour", "needless", "prepared")


@dataclass(frozen=True)
class Person:
    """`shares`: how often each activity is begun. `windows`: whether windows are known."""

    name: str
    shares: Mapping[acts.Act, float]
    windows: bool = True


def slow_sender(desk: Desk, until: float) -> None:
    """Write, think for long, go on, think again, and send."""
    desk.show("assistant", desk.fresh())
    while desk.now < until and not desk.over:
        desk.now += desk.draw(REPLY_TO_FIRST_KEY) * desk.pace
        for _ in range(desk.rng.randrange(1, 4)):
            desk.write(max(1, round(desk.draw(KEYS_PER_PROMPT))))
            desk.now += desk.rng.uniform(8.0, 30.0)
        desk.press(KeyKind.ENTER)
        desk.now = desk.ask()


def page_writer(desk: Desk, until: float) -> None:
    """Write many lines, look them through, and send them by a short cut."""
    desk.show("assistant", desk.fresh())
    while desk.now < until and not desk.over:
        desk.now += 3 * desk.draw(REPLY_TO_FIRST_KEY) * desk.pace
        for _ in range(desk.rng.randrange(3, 9)):
            desk.write(desk.rng.randrange(30, 80))
            desk.press(KeyKind.ENTER)
            desk.now += desk.rng.uniform(0.5, 5.0)
        for _ in range(desk.rng.randrange(2, 10)):
            desk.now += 0.3
            desk.press(KeyKind.NAVIGATION)
        desk.write(desk.rng.randrange(3, 20))
        desk.now += 1.0
        desk.press(KeyKind.SHORTCUT)
        desk.now = desk.ask()


def note_taker(desk: Desk, until: float) -> None:
    """Write notes where the chat is, line by line, and ask something now and then."""
    desk.show("assistant", desk.fresh())
    while desk.now < until and not desk.over:
        for _ in range(desk.rng.randrange(3, 9)):
            desk.write(desk.rng.randrange(10, 50))
            desk.now += 1.0
            desk.press(KeyKind.ENTER)
            desk.now += desk.rng.uniform(3.0, 40.0)
        desk.write(max(1, round(desk.draw(KEYS_PER_PROMPT))))
        desk.press(KeyKind.ENTER)
        desk.now = desk.ask() + desk.rng.uniform(30.0, 200.0)


def rare_asker(desk: Desk, until: float) -> None:
    """Read for minutes, then ask the next question: no turn is taken at once, but whatever is typed is a prompt."""
    desk.show("assistant", desk.fresh())
    while desk.now < until and not desk.over:
        desk.now += desk.rng.uniform(120.0, 600.0)
        desk.write(max(8, round(desk.draw(KEYS_PER_PROMPT))))
        desk.now += desk.draw(LAST_KEY_TO_SEND)
        desk.press(KeyKind.ENTER)
        desk.now = desk.ask()


def _chatting(chat: acts.Act) -> Mapping[acts.Act, float]:
    return {chat if act is acts.chat else act: share for act, share in KINDS["normal"].items()}


_READING: Mapping[acts.Act, float] = {rare_asker: 0.7, acts.away: 0.3}
USUAL = (
    Person("usual", KINDS["normal"]),
    Person("usual, no window", KINDS["normal"], windows=False),
    Person("messaging", KINDS["messaging"]),
    Person("meetings, no window", KINDS["meetings"], windows=False),
)
UNUSUAL = (
    Person("slow sender", _chatting(slow_sender)),
    Person("slow sender, no window", _chatting(slow_sender), windows=False),
    Person("page writer", _chatting(page_writer)),
    Person("note taker", _chatting(note_taker)),
    Person("rare asker, no window", _READING, windows=False),
)


def day(person: Person, seed: int, number: int, seconds: float) -> tuple[trace.Header, list[trace.Event]]:
    """Return one of a person's days; the person is the same on all days of a seed."""
    who, rng = random.Random(f"{person.name} {seed}"), random.Random(f"{person.name} {seed} {number}")
    desk = Desk(rng, seconds, keyboard=True, microphone=who.random() < 0.8)
    desk.interval, desk.pace = who.choice((SLOW_INTERVAL, FAST_INTERVAL)), who.lognormvariate(0.0, 0.2)
    desk.speaks, desk.titles_itself, desk.chat_in = who.choice((0.0, 0.2, 0.4)), who.random() < 0.3, "own program"
    while not desk.over:
        (act,) = rng.choices(list(person.shares), list(person.shares.values()))
        act(desk, desk.now + 480.0 * rng.lognormvariate(0.0, 0.7))
    shown = (event for event in desk.events() if person.windows or not isinstance(event, trace.Window))
    return trace.Header(1, HZ, seconds), list(shown)


class _Unmoved(Correction):
    def teach(self, values: Sequence[float], error: float) -> None:
        """Learn nothing."""


class Shipped(Personal):
    """The shipped weights, whatever happens."""

    def fitting(self, values: Sequence[float]) -> Correction:
        """Return corrections that stay nothing."""
        del values
        return _Unmoved((), 0.0)


def play(person: Person, seed: int, count: int, seconds: float, *, learning: bool) -> Iterator[Day]:
    """Play a person's days in a row; each begins with what the one before left in the file of habits."""
    settings = Settings()
    with tempfile.TemporaryDirectory(prefix="zat-scs-learning-") as folder:
        path = Path(folder) / "habits.json"
        for number in range(count):
            habits, personal = memory.load(path)
            fusion = Fusion(settings, habits, personal if learning else Shipped())
            header, events = day(person, seed, number, seconds)
            yield replay.Player(settings, f"{person.name} {number}", fusion=fusion).play(header, iter(events))
            memory.save(path, memory.encode(habits, fusion.personal))


def compare(people: Sequence[Person], seed: int, count: int, seconds: float) -> dict[str, dict[str, dict[str, object]]]:
    """Return the figures of each person, and of all, by shipped weights and with what was learned."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    for title, learning in (("shipped", False), ("learning", True)):
        pooled: list[Day] = []
        for person in people:
            played = list(play(person, seed, count, seconds, learning=learning))
            found.setdefault(person.name, {})[title] = _figures(played)
            pooled += played
        found.setdefault("all", {})[title] = _figures(pooled)
    return found


def _figures(played: list[Day]) -> dict[str, object]:
    return {name: value for name, value in summary(played).items() if name in FIGURES}


def main(argv: Sequence[str]) -> int:
    """Compare, and print."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.learning", description="Compare learning with not.")
    parser.add_argument("--days", type=int, default=5, metavar="N", help="of each person, in a row; %(default)s")
    parser.add_argument("--hours", type=float, default=3.0, metavar="H", help="of each day; %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="other seeds, other people; %(default)s")
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(argv)
    found = {
        group: compare(people, options.seed, options.days, options.hours * 3600.0)
        for group, people in (("usual", USUAL), ("unusual", UNUSUAL))
    }
    print(json.dumps(found) if options.json else "\n".join(_lines(found)))
    return 0


def _lines(found: dict[str, dict[str, dict[str, dict[str, object]]]]) -> Iterator[str]:
    yield f"{'':<48}" + "".join(f"{name:>12}" for name in FIGURES)
    for group, people in found.items():
        for person, rows in people.items():
            for title, figures in rows.items():
                cells = ("-" if value is None else f"{value:.3f}" for value in figures.values())
                yield f"{f'{group}: {person}, {title}':<48}" + "".join(f"{cell:>12}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
