"""Ten phases that try to leave the background job throttled or the server worse off, and say whether they could.

python -m diagnostics.stress_test [--phase N] [--json]

Everything it starts is its own and ends with it, also on Ctrl+C.
"""

import argparse
import contextlib
import dataclasses
import json
import logging
import signal
import sys
import tempfile
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from diagnostics import stress_clock, stress_fuzz, stress_health, stress_job, stress_kill, stress_race, stress_rhythm
from diagnostics.quiet import quiet
from diagnostics.stress_stage import Figure, Result, Stage, Unmet, sweep, until
from engine.errors import SettingsError
from engine.options import HELP, take_settings

_FAILED, _WRONG_USE, _INTERRUPTED = 1, 2, 130
_PARTS = 100  # of a phase, as progress is shown
_BAR = 30
_THREADS = 5.0  # s for the threads of a phase to end
Phase = Callable[[Stage], dict[str, Figure]]


def _server(stage: Stage) -> dict[str, Figure]:
    """Phase (j) has two halves."""
    return stress_fuzz.fuzz(stage) | stress_race.interleave(stage)


PHASES: dict[str, Phase] = {
    "keys": stress_rhythm.keys,
    "health": stress_health.flapping,
    "threshold": stress_clock.threshold,
    "fallback": stress_job.fallback,
    "interrupt": stress_kill.interrupt,
    "kill": stress_kill.kill,
    "hang": stress_kill.hang,
    "changes": stress_job.changes,
    "clock": stress_clock.jumps,
    "server": _server,
}
LETTERS = "abcdefghij"


def main(argv: Sequence[str] | None = None, *, loaded: bool = False, scale: float = 1.0) -> int:
    """Play the phases; return 0, 1 if one failed, 2 wrong use, 130 broken off.

    `loaded`: the caller has taken the options of settings out of `argv`; none has a bearing on what is played here.
    `scale` shrinks the counts of the phases.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        words = words if loaded else take_settings(words)[1]
    except SettingsError as error:
        print(f"stress: {error}", file=sys.stderr)
        return _WRONG_USE
    parser = _parser("zat-scs stress") if loaded else _parser()
    options = parser.parse_args(words)
    return run(options.phase, as_json=options.json, scale=scale)


def run(phase: str | None, *, as_json: bool, scale: float = 1.0) -> int:
    """Play one phase, or all; print the table or JSON; return the exit code."""
    names = list(PHASES) if phase is None else [phase]
    try:
        with _interruptible(), quiet(logging.CRITICAL, "engine"):  # losing servers and jobs is the plan here
            results = play(names, scale)
    except KeyboardInterrupt:
        print("stress: broken off; everything was given back", file=sys.stderr)
        return _INTERRUPTED
    passed = all(result.passed for result in results)
    if as_json:
        print(json.dumps({"passed": passed, "phases": [dataclasses.asdict(result) for result in results]}))
    else:
        print(as_text(results))
    return 0 if passed else _FAILED


def phase_name(text: str) -> str:
    """Return the phase that is meant by 1 to 10, or a to j. Raises argparse.ArgumentTypeError."""
    names = list(PHASES)
    if text in LETTERS and len(text) == 1:
        return names[LETTERS.index(text)]
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= len(names):
        return names[int(text) - 1]
    raise argparse.ArgumentTypeError(f"{text} is no phase: expected 1 to {len(names)}, or a to {LETTERS[-1]}")


def play(names: Sequence[str], scale: float = 1.0) -> list[Result]:
    """Play these phases, each in a folder of its own."""
    progress = _Progress(len(names))
    results = []
    for number, name in enumerate(names):

        def show(part: float, number: int = number, name: str = name) -> None:
            progress.show(number + part, name)

        with tempfile.TemporaryDirectory(prefix="zat-scs-stress-") as folder:
            results.append(_play(name, Stage(Path(folder), scale, show)))
    progress.show(len(names), "")
    progress.end()
    return results


def _play(name: str, stage: Stage) -> Result:
    """Play one phase; whatever happens, nothing of it is left."""
    figures: dict[str, Figure] = {}
    before = set(threading.enumerate())
    stage.progress(0.0)
    try:
        figures = PHASES[name](stage)
    except Unmet as error:
        stage.faults.append(str(error))
    except Exception as error:  # noqa: BLE001 - a phase that breaks has failed; the others still tell something
        stage.faults.append(f"{type(error).__name__}: {error}")
    finally:
        left = sweep(stage.folder)
    stage.faults += [f"left behind: {words}" for words in left]
    try:
        until(lambda: set(threading.enumerate()) <= before, "threads to end", _THREADS, step=0.02)
    except Unmet:
        threads = ", ".join(sorted(thread.name for thread in set(threading.enumerate()) - before))
        stage.faults.append(f"threads left behind: {threads}")
    if stage.faults:
        figures = {**figures, "faults": len(stage.faults), "fault": "; ".join(dict.fromkeys(stage.faults))[:500]}
    return Result(name, not stage.faults, figures)


def as_text(results: Sequence[Result]) -> str:
    """Return the summary table."""
    order = list(PHASES)
    lines = []
    for result in results:
        words = ", ".join(f"{name} {_shown(value)}" for name, value in result.figures.items())
        letter = LETTERS[order.index(result.name)]
        lines.append(f"({letter}) {result.name:<10} {'passed' if result.passed else 'FAILED'}  {words}")
    failed = sum(not result.passed for result in results)
    return "\n".join([*lines, "All phases passed." if not failed else f"{failed} of {len(results)} phases failed."])


def _shown(value: Figure) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else f"{value:g}"


class _Progress:
    """A bar for people, `progress K N` lines for programs, on the standard error."""

    def __init__(self, phases: int) -> None:
        self._total = phases * _PARTS
        self._last = -1

    def show(self, done: float, name: str) -> None:
        """Show that so many phases are done, and which one is played."""
        parts = int(done * _PARTS)
        if parts == self._last:
            return
        self._last = parts
        if sys.stderr.isatty():
            full = _BAR * parts // self._total
            bar = "#" * full + "." * (_BAR - full)
            print(f"\r\x1b[K[{bar}] {100 * parts // self._total} % {name}", end="", file=sys.stderr, flush=True)
        else:
            print(f"progress {parts} {self._total}", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the bar away."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let the first Ctrl+C or SIGTERM break off, and further ones not disturb the tidying up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def broken_off(number: int, frame: types.FrameType | None) -> None:
        del number, frame
        for name in before:
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)}
    for name in before:  # a shell starts what runs behind it deaf to Ctrl+C
        signal.signal(name, broken_off)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _parser(prog: str = "python -m diagnostics.stress_test") -> argparse.ArgumentParser:
    names = ", ".join(f"{letter} {name}" for letter, name in zip(LETTERS, PHASES, strict=True))
    parser = argparse.ArgumentParser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog=f"phases: {names}\n\n{HELP}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--phase", type=phase_name, metavar="N", help="this phase only: 1 to 10, or a to j")
    parser.add_argument("--json", action="store_true", help="write one JSON object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
