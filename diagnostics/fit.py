"""Fits the weights of the learned score on labelled days, and judges such fits on days that they have not seen.

`python -m diagnostics.fit FILE or FOLDER …`

Prints the figures of each file by weights fitted on the others (two are left out at a time), then the numbers of
`engine/telemetry/weights.py`, fitted on all of them. The label of a moment: a prompt comes within a minute, and before
nothing was heard for 15 s; that is, a preparation begun now would end in a prompt. Agents' prompts are labels like any.
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diagnostics import replay
from diagnostics.replay_figures import Day, table
from engine import trace
from engine.config.settings import Settings
from engine.errors import TraceError
from engine.telemetry import weights
from engine.telemetry.evidence import Evidence, Readings
from engine.telemetry.features import Features, Rhythm
from engine.telemetry.learned import LearnedEvidence
from engine.telemetry.personal import LABELLED
from engine.telemetry.processor import GAP, Fused, Fusion
from engine.telemetry.weights import Weights

EVERY = 6  # ticks between two moments looked at: neighbours look alike
NEAR = 180.0  # s before a prompt; of moments farther from one, every fifth is kept, and counts five times
THINNED = 5
QUIET = Settings().inactivity_timer  # s
SHRINK = 5.0  # pull of each weight towards 0
APART = 2  # files left out at a time
_STEPS = 30
_SETTLED = 1e-3  # of the loss, in a step

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Moments of a day with something heard lately. Shapes: values (n, features), label (n,), counts (n,)."""

    values: Floats
    label: Floats
    counts: Floats


class _AllTalk(Features):
    """Sees what the score is not shown: talk that goes on teaches that a voice is mostly no prompt."""

    def listens(self, now: float) -> bool:
        """Listen to all of it."""
        del now
        return True


class _Gatherer(Fusion):
    """Prepares nothing, and keeps what the score would be shown."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._rhythm = Rhythm()
        self._seen = _AllTalk(self.habits, self._rhythm)
        self._at = 0.0
        self._outstanding = self._ticks = 0
        self.signs: list[float] = []
        self.prompts: list[float] = []
        self.times: list[float] = []
        self.values: list[list[float]] = []

    def step(self, now: float, readings: Readings) -> Fused:
        """Take in one tick."""
        if now - self._at > GAP:
            self._rhythm.lose_time()
            self._seen = _AllTalk(self.habits, self._rhythm)
        self._at, self._ticks = now, self._ticks + 1
        if self._seen.hear(now, readings):
            self.signs.append(now)
        if self._ticks % EVERY == 0 and not self._outstanding and not self._seen.foregone(now):
            self.times.append(now)
            self.values.append(self._seen.values(now))
        return Fused(0.0, None, None, None, None, sensing=False)

    def prompted(self, now: float) -> None:
        """Take note of a prompt."""
        self._outstanding += 1
        self.habits.prompts += 1
        self.prompts.append(now)
        self._seen.prompted(now)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._outstanding = max(0, self._outstanding - 1)
        self._seen.replied(now)


def gather(path: Path, windows: bool) -> Moments:
    """Return what there is to learn from one file. Raises TraceError."""
    gatherer = _Gatherer(Settings())
    header, events = _shown(path, windows=windows)
    replay.Player(Settings(), path.name, fusion=gatherer).play(header, events)
    times, columns = np.array(gatherer.times), len(weights.WITH_WINDOW if windows else weights.PLAIN)
    fitting = np.array([len(values) == columns for values in gatherer.values], bool)  # a window may be named late
    values = np.array([one for one, fits in zip(gatherer.values, fitting, strict=True) if fits]).reshape(-1, columns)
    times = times[fitting]
    until = np.append(gatherer.prompts, np.inf)[np.searchsorted(gatherer.prompts, times, side="right")] - times
    label = (until <= LABELLED) & (until <= _quiet_in(times, np.array(gatherer.signs)))
    far = until > NEAR
    kept = ~far | (np.arange(len(times)) % THINNED == 0)
    return Moments(values[kept], label[kept].astype(float), np.where(far, THINNED, 1.0)[kept])


def _quiet_in(times: Floats, signs: Floats) -> Floats:
    """Return in how many seconds from each time on nothing will have been heard for QUIET."""
    if not len(signs):
        return np.full(len(times), QUIET)
    ends = np.append(np.diff(signs) > QUIET, True)  # the last sign before a silence
    silence = signs[ends][np.append(0, np.cumsum(ends)[:-1])]  # for each sign, the last one before the next silence
    last = silence[np.maximum(np.searchsorted(signs, times, side="right") - 1, 0)]
    left: Floats = np.maximum(last, times) + QUIET - times
    return left


def logistic(moments: Sequence[Moments]) -> Floats:
    """Fit a logistic regression by Newton's method; return the bias, then the weights."""
    values = np.concatenate([one.values for one in moments])
    label, counts = (np.concatenate([getattr(one, name) for one in moments]) for name in ("label", "counts"))
    design = np.column_stack([np.ones(len(values)), values])
    pull = np.full(design.shape[1], SHRINK)
    pull[0] = 0.0
    found = np.zeros(design.shape[1])

    def loss(at: Floats) -> float:
        logit = design @ at
        return float(counts @ (np.logaddexp(0.0, logit) - label * logit) + pull @ (at * at) / 2)

    before = loss(found)
    for _ in range(_STEPS):
        share = 1.0 / (1.0 + np.exp(-(design @ found)))
        slope = design.T @ (counts * (share - label)) + pull * found
        bent = (design * (counts * share * (1.0 - share))[:, None]).T @ design + np.diag(pull + 1e-9)
        step = np.linalg.solve(bent, slope)
        while (after := loss(found - step)) > before and np.abs(step).max() > _SETTLED:
            step /= 2
        found = found - step
        if before - after < _SETTLED:
            break
        before = after
    return found


def fit(plain: Sequence[Moments], with_window: Sequence[Moments]) -> Weights:
    """Return weights fitted on the moments of these days."""
    alone, whole = logistic(plain), logistic(with_window)
    return Weights(
        float(alone[0]),
        dict(zip(weights.PLAIN, alone[1:].tolist(), strict=True)),
        float(whole[0]),
        dict(zip(weights.WITH_WINDOW, whole[1:].tolist(), strict=True)),
    )


class _Fitted(Fusion):
    """A fusion whose score has weights of its own."""

    def __init__(self, settings: Settings, fitted: Weights) -> None:
        self._fitted = fitted
        super().__init__(settings)

    def _reading(self, settings: Settings) -> Evidence:
        return LearnedEvidence(self.habits, self.personal, self._fitted, settings.telemetry_hz)


def play(path: Path, fitted: Weights, windows: bool) -> Day:
    """Replay one file by these weights. Raises TraceError."""
    header, events = _shown(path, windows=windows)
    return replay.Player(Settings(), path.name, fusion=_Fitted(Settings(), fitted)).play(header, events)


def _shown(path: Path, windows: bool) -> tuple[trace.Header, Iterator[trace.Event]]:
    header, events = trace.read(path)
    return header, (event for event in events if windows or not isinstance(event, trace.Window))


@dataclass(frozen=True)
class Fits:
    """Weights fitted on all files, and for each file those that were fitted without it."""

    of_all: Weights
    without: Mapping[Path, Weights]


def fits(paths: Sequence[Path], workers: int) -> Fits:
    """Fit on all files, and with so many left out at a time. Raises TraceError."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        plain = pool.starmap(gather, [(path, False) for path in paths], chunksize=1)
        whole = pool.starmap(gather, [(path, True) for path in paths], chunksize=1)
    without: dict[Path, Weights] = {}
    for first in range(0, len(paths), APART):
        left_out = range(first, min(first + APART, len(paths)))
        others = [number for number in range(len(paths)) if number not in left_out]
        fitted = fit([plain[number] for number in others], [whole[number] for number in others])
        without.update({paths[number]: fitted for number in left_out})
    return Fits(fit(plain, whole), without)


def judged(without: Mapping[Path, Weights], workers: int, windows: bool) -> list[Day]:
    """Replay each file by weights that have not seen it. Raises TraceError."""
    tasks = [(path, fitted, windows) for path, fitted in without.items()]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return pool.starmap(play, tasks, chunksize=1)


def module(fitted: Weights) -> str:
    """Return the numbers as they stand in the module of weights."""
    parts = []
    for name, bias, numbers in (
        ("PLAIN", ("PLAIN_BIAS", fitted.plain_bias), fitted.plain),
        ("WITH_WINDOW", ("BIAS", fitted.bias), fitted.with_window),
    ):
        rows = "".join(f'    "{feature}": {number:.3f},\n' for feature, number in numbers.items())
        parts.append(f"{bias[0]} = {bias[1]:.3f}\n{name} = {{\n{rows}}}\n")
    return "\n".join(parts)


def main(argv: Sequence[str]) -> int:
    """Judge, fit, and print; 1 if a file cannot be read, 2 if there are too few."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.fit", description="Fit the learned score.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="traces, or folders of them")
    paths = trace_files(parser.parse_args(argv).files)
    if len(paths) <= APART:
        print(f"zat-scs: more than {APART} files are needed: each is judged by a fit on others", file=sys.stderr)
        return 2
    workers = os.cpu_count() or 1
    try:
        found = fits(paths, workers)
        for windows, title in ((False, "no window"), (True, "window")):
            rows = table(judged(found.without, workers, windows=windows))
            print("\n".join([f"{title}; each file by weights that have not seen it", *rows, ""]))
    except TraceError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return 1
    print(module(found.of_all), end="")
    return 0


def trace_files(words: Sequence[Path]) -> list[Path]:
    """Return the files that are named, and those in named folders."""
    return [
        path
        for word in words
        for path in (sorted([*word.glob("*.jsonl"), *word.glob("*.jsonl.gz")]) if word.is_dir() else [word])
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
