"""Compares readings of evidence, and two ways without any, on given traces and on days made by this project.

`python -m diagnostics.prediction [FILE or FOLDER …] [--unseen] [--days N] [--seed S] [--json | --markdown]`

Nothing is tuned here: settings and weights are those that are shipped, and each file starts fresh. With `--unseen` the
learned rows on given traces are by weights fitted on the others of these files (`fit.py`), for days that the shipped
weights were fitted on.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics import days, fit, replay
from diagnostics.replay_figures import Day, Outcome, Preparation, summary
from engine import trace
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.errors import TraceError
from engine.events import Why
from engine.telemetry.weights import Weights

STAYS = 15.0  # s that "any key" stays prepared after the last one

# Title, changed settings, whether the windows are shown. Further readings are further rows.
ROWS: tuple[tuple[str, Mapping[str, Value], bool], ...] = (
    ("founding text, literal", {"EVIDENCE": "seed", "TIMER_FROM": "entry"}, False),
    ("adaptive, rules", {"EVIDENCE": "adaptive", "LEARNED": False}, False),  # they know no windows
    ("adaptive, learned, no window", {"EVIDENCE": "adaptive", "LEARNED": True}, False),
    ("adaptive, learned, window", {"EVIDENCE": "adaptive", "LEARNED": True}, True),
)
LEARNED = tuple(title for title, changes, _ in ROWS if changes.get("LEARNED"))
REACTIVE, ANY_KEY = "reactive, no guess", "any key"
TITLES = (REACTIVE, ANY_KEY, *(title for title, _, _ in ROWS))
SHIPPED, UNSEEN = "the shipped weights", "weights fitted without the file that is judged"
_COLUMNS = (
    ("recall", "recall", ".3f"), ("ready", "ready_1s", ".3f"), ("precision", "precision", ".3f"),
    ("FP/h", "fp_per_hour", ".2f"), ("needless", "needless", ".2%"), ("prepared", "prepared", ".1%"),
    ("lead p50", "lead_p50", ".1f"), ("lead p10", "lead_p10", ".1f"),
)  # fmt: skip


@dataclass(frozen=True)
class Compared:
    """What all rows showed on one set of files: figures of all, and by kind of day. `weights`: of the learned rows."""

    name: str
    weights: str
    files: list[str]
    rows: dict[str, dict[str, object]]
    kinds: dict[str, dict[str, dict[str, object]]]


def play(path: Path, title: str, fitted: Weights | None = None) -> Day:
    """Play one file as one row says; `fitted`: weights of the learned rows, None: shipped. Raises TraceError."""
    header, events = trace.read(path)
    if title in (REACTIVE, ANY_KEY):
        return without_evidence(path.name, header, events, keys=title == ANY_KEY)
    changes, windows = next((changes, windows) for name, changes, windows in ROWS if name == title)
    if fitted is not None and title in LEARNED:
        return fit.play(path, fitted, windows=windows)
    shown = events if windows else (event for event in events if not isinstance(event, trace.Window))
    return replay.Player(Settings().replace(changes), path.name).play(header, shown)


def without_evidence(name: str, header: trace.Header, events: Iterable[trace.Event], *, keys: bool) -> Day:
    """Prepare at any key for 15 s, or never: what needs no reading of evidence, as a measure for the others."""
    day = Day(name, header.duration)
    entered: float | None = None
    last, outstanding = 0.0, 0
    for event in events:
        if entered is not None and event.t > last + STAYS:
            day.prepared_for.append(Preparation(entered, last + STAYS, Why.TIMEOUT))
            entered = None
        if isinstance(event, trace.Key) and keys and not outstanding:
            entered, last = event.t if entered is None else entered, event.t
        elif isinstance(event, trace.Prompt):
            day.outcomes.append(Outcome(event.t, not outstanding, None if entered is None else event.t - entered))
            if entered is not None:
                day.prepared_for.append(Preparation(entered, event.t, Why.PROMPT))
            entered, outstanding = None, outstanding + 1
        elif isinstance(event, trace.Reply):
            outstanding = max(0, outstanding - 1)
    if entered is not None:
        late = header.duration > last + STAYS
        day.prepared_for.append(Preparation(entered, min(header.duration, last + STAYS), Why.TIMEOUT if late else None))
    return day


def compare(name: str, paths: Sequence[Path], workers: int, without: Mapping[Path, Weights] | None = None) -> Compared:
    """Play all files by all rows, on several processors. `without`: weights for each file. Raises TraceError."""
    tasks = [(path, title, without[path] if without else None) for title in TITLES for path in paths]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        played = pool.starmap(play, tasks, chunksize=1)
    found: dict[str, list[Day]] = {title: [] for title in TITLES}
    for (_, title, _), day in zip(tasks, played, strict=True):
        found[title].append(day)
    kinds = {title: _by_kind(rows) for title, rows in found.items()}
    rows = {title: summary(rows) for title, rows in found.items()}
    return Compared(name, UNSEEN if without else SHIPPED, [path.name for path in paths], rows, kinds)


def _by_kind(played: list[Day]) -> dict[str, dict[str, object]]:
    """Return the figures by the first words of the files' names."""
    kinds: dict[str, list[Day]] = {}
    for day in played:
        kinds.setdefault(day.name.rsplit("-", 2)[0], []).append(day)
    return {kind: summary(some) for kind, some in kinds.items()}


def _compared(options: argparse.Namespace, folder: Path) -> Iterator[Compared]:
    workers = os.cpu_count() or 1
    if given := fit.trace_files(options.files):
        without = fit.fits(given, workers).without if options.unseen else None
        yield compare("given traces", given, workers, without)
    if options.days:
        made = days.write(folder, options.days, options.seed)
        yield compare(f"days made here, seed {options.seed}", made, workers)


def lines(compared: Compared, *, markdown: bool) -> list[str]:
    """Return tables for people, or for the README."""
    figures = compared.rows[REACTIVE]
    about = f"{compared.name}: {figures['traces']} files, {figures['hours']:.0f} h, {figures['prompts']} prompts"
    pooled = [[title, *(_cell(row[key], form) for _, key, form in _COLUMNS)] for title, row in compared.rows.items()]
    heads = ["", *(head for head, _, _ in _COLUMNS)]
    by_kind = [
        [title, *(f"{_cell(one['ready_1s'], '.3f')}, {_cell(one['fp_per_hour'], '.1f')}" for one in row.values())]
        for title, row in compared.kinds.items()
    ]
    kinds = ["ready, FP/h by kind of day", *compared.kinds[REACTIVE]]
    draw = _markdown if markdown else _plain
    about += f"; learned rows by {compared.weights}"
    return [about, "", *draw([heads, *pooled]), "", *draw([kinds, *by_kind]), ""]


def _plain(rows: list[list[str]]) -> list[str]:
    return [f"{first:<30}" + "".join(f"{cell:>13}" for cell in rest) for first, *rest in rows]


def _markdown(rows: list[list[str]]) -> list[str]:
    drawn = [f"| {' | '.join(row)} |" for row in rows]
    return [drawn[0], "|---|" + "---:|" * (len(rows[0]) - 1), *drawn[1:]]


def _cell(value: object, form: str) -> str:
    return "-" if value is None else format(value, form)


def _as_dict(one: Compared) -> dict[str, object]:
    return {"set": one.name, "files": one.files, "weights": one.weights, "rows": one.rows, "by_kind": one.kinds}


def main(argv: Sequence[str]) -> int:
    """Compare, and print; 1 if a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.prediction", description="Compare readings.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="traces, or folders of them")
    parser.add_argument("--unseen", action="store_true", help="judge given traces by fits that have not seen them")
    parser.add_argument("--days", type=int, default=len(days.KINDS), metavar="N", help="days to make; %(default)s")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the days that are made; %(default)s")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="as JSON")
    how.add_argument("--markdown", action="store_true", help="as tables of the README")
    options = parser.parse_args(argv)
    if options.unseen and len(fit.trace_files(options.files)) <= fit.APART:
        parser.error(f"--unseen needs more than {fit.APART} traces")
    try:
        with tempfile.TemporaryDirectory(prefix="zat-scs-days-") as folder:
            found = list(_compared(options, Path(folder)))
    except TraceError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([_as_dict(one) for one in found]))
    else:
        print("\n".join(line for one in found for line in lines(one, markdown=options.markdown)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
