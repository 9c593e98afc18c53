"""Searches settings that guess given days better, and says what they change; judged on a day it was not tuned on.

A coordinate search: one setting after the other is made smaller and larger, and moved on in a direction that helps.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from diagnostics import replay
from diagnostics.replay_figures import Day, summary
from engine.config.settings import Settings, spec
from engine.config.spec import Spec, Value
from engine.errors import SettingsError, TraceError

# What a wrong guess costs, in prompts: a false positive an hour as much as 4 % of the prompts not being ready, and a
# hundredth of all time prepared for nothing as much as 2 %.
FALSE_ALARM, NEEDLESS = 0.04, 2.0
LEAST = 0.005  # a smaller gain than this is chance
STEPS = 3  # at most in one direction
# What each setting is multiplied by, either way; those that move P most come first.
TRIED: Mapping[str, tuple[float, float]] = {
    "WEIGHT_KEY": (0.6, 1.6),
    "WEIGHT_AUD": (0.6, 1.6),
    "INITIAL_THRESHOLD": (0.8, 1.2),
    "LAMBDA_DECAY": (0.6, 1.6),
    "INACTIVITY_TIMER": (0.67, 1.5),
    "MIN_THRESHOLD": (0.75, 1.25),
    "MAX_THRESHOLD": (0.85, 1.1),
    "ADJUSTMENT_STEP": (0.4, 2.0),
    "CONSECUTIVE_FALSE_POSITIVES_LIMIT": (0.5, 2.0),
}

Play = Callable[[Sequence[tuple[str, Settings]]], list[Day]]
Changes = dict[str, Value]


def score(days: Sequence[Day]) -> float:
    """Return how good a guess was, 1 at best: what was ready, less what it cost."""
    figures = summary(days)
    ready, wrong, needless = (figures[key] for key in ("ready_1s", "fp_per_hour", "needless"))
    return float(ready or 0) - FALSE_ALARM * float(wrong or 0) - NEEDLESS * float(needless or 0)  # type: ignore[arg-type]


def search(paths: Sequence[str], settings: Settings, play: Play, say: Callable[[str], None]) -> Changes:
    """Return the settings (by NAME) that guess these days better, each with its value; empty if none does."""
    changes: Changes = {}
    (best,) = _scores(paths, [settings], play)
    for name, both in TRIED.items():
        directions: tuple[float, ...] = both
        for _ in range(STEPS):
            say(name)
            tried = _nearby(spec(name), settings, changes, directions)
            scores = _scores(paths, [changed for _, _, changed in tried], play)
            found = max(scores, default=best)
            if found <= best + LEAST:
                break
            best = found
            direction, changes, _ = tried[scores.index(found)]
            directions = (direction,)
    return changes


def _scores(paths: Sequence[str], tried: Sequence[Settings], play: Play) -> list[float]:
    """Return the score of each set of settings; all their days are played at once, on all processors."""
    played = play([(path, settings) for settings in tried for path in paths])
    return [score(played[place : place + len(paths)]) for place in range(0, len(played), len(paths))]


def _nearby(
    declared: Spec, settings: Settings, changes: Changes, factors: Sequence[float]
) -> list[tuple[float, Changes, Settings]]:
    """Return what one setting can be moved to, within what is declared: by which factor, all changes, the settings."""
    value = float(changes.get(declared.name, getattr(settings, declared.attribute)))
    low, high = declared.low or 0.0, declared.high or 1.0
    nearby = []
    for factor in factors:
        moved = min(high, max(low, value * factor))
        one = {**changes, declared.name: round(moved) if declared.kind is int else round(moved, 3)}
        if (changed := _changed(settings, one)) is not None:
            nearby.append((factor, one, changed))
    return nearby


def _changed(settings: Settings, changes: Changes) -> Settings | None:
    """Return the settings with these changes; None where they do not go together."""
    try:
        return settings.replace(changes)
    except SettingsError:
        return None


def main(paths: Sequence[str], settings: Settings) -> int:
    """Search, and print changes, effect and the lines for the user's file; 1 if a file cannot be read."""
    tuned_on, judged_on = (list(paths[:-1]), list(paths[-1:])) if len(paths) > 1 else (list(paths), [])
    try:
        with multiprocessing.get_context("spawn").Pool(os.cpu_count() or 1) as pool:

            def play(tasks: Sequence[tuple[str, Settings]]) -> list[Day]:
                return pool.starmap(replay.play, [(Path(file), changed) for file, changed in tasks], chunksize=1)

            changes = search(tuned_on, settings, play, _progress)
            print("\n".join(report(tuned_on, judged_on, settings, changes, play)))
    except TraceError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return 1
    return 0


def report(
    tuned_on: Sequence[str], judged_on: Sequence[str], settings: Settings, changes: Changes, play: Play
) -> list[str]:
    """Return what was found, in lines for people."""
    lines = ["tuned on: " + ", ".join(Path(path).name for path in tuned_on)]
    where = judged_on or tuned_on
    lines.append(
        "judged on: " + ", ".join(Path(path).name for path in where)
        + ("" if judged_on else " as well: with a second FILE it would be judged on a day it was not tuned on")
    )  # fmt: skip
    if not changes:
        return [*lines, "", "nothing helps: no change of a setting guesses these days noticeably better"]
    steps = [dict(list(changes.items())[: count + 1]) for count in range(len(changes))]
    titles = [f"{name} {spec(name).show(getattr(settings, name.lower()))} → {spec(name).show(value)}"
              for name, value in changes.items()]  # fmt: skip
    # One that needs a later one beside it has no effect of its own to show.
    fitting = [(title, step) for title, one in zip(titles, steps, strict=True) if (step := _changed(settings, one))]
    rows = [("as it is", settings), *fitting]
    played = play([(path, changed) for _, changed in rows for path in where])
    days = [played[place : place + len(where)] for place in range(0, len(played), len(where))]
    lines += ["", f"{'':<44}{'ready':>8}{'FP/h':>8}{'needless':>10}"]
    lines += [_row(title, some) for (title, _), some in zip(rows, days, strict=True)]
    if score(days[-1]) <= score(days[0]):
        return [*lines, "", f"nothing helps: on {Path(where[0]).name}, held out, the changes do not guess better"]
    return [*lines, "", "for settings.toml:", "", *(f"{name} = {_toml(value)}" for name, value in changes.items())]


def _toml(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _row(words: str, days: Sequence[Day]) -> str:
    figures = summary(days)
    cells = ((figures["ready_1s"], ".3f", 8), (figures["fp_per_hour"], ".2f", 8), (figures["needless"], ".2%", 10))
    return f"{words:<44}" + "".join(f"{'-' if v is None else format(v, form):>{width}}" for v, form, width in cells)


def _progress(words: str) -> None:
    if sys.stderr.isatty():
        print(f"trying {words:<60}", end="\r", file=sys.stderr, flush=True)
