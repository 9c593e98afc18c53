"""Measures what preparing brings: time to first token cold, prepared and warm, interleaved, through the real engine.

Typing is injected as sensor events; nothing else is faked. Everything it starts is its own and ends with it.
"""

import argparse
import contextlib
import http.client
import json
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnostics import bench_plot, bench_stage, bench_table, bench_users
from diagnostics.bench_engine import Unmet
from diagnostics.bench_harm import Grounds
from diagnostics.bench_measure import measure, succeeded
from diagnostics.bench_plan import Plan
from diagnostics.bench_progress import Progress
from diagnostics.bench_runs import KINDS
from diagnostics.bench_stage import StageIn
from diagnostics.quiet import quiet
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.errors import SettingsError, ZatError
from engine.options import HELP, take_settings

_FAILED, _WRONG_USE, _INTERRUPTED = 1, 2, 130
FEW = 2  # cold prompts where they are not the headline: each computes the whole context, which takes most of the time


def main(argv: Sequence[str] | None = None, loaded: Loaded | None = None) -> int:
    """Measure and print; return 0, 1 failed or not comparable, 2 wrong use, 130 broken off.

    `loaded`: the settings, where the caller has taken their options out of `argv` already.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = _parser() if loaded is None else _parser("zat-scs benchmark")
        if loaded is None:
            loaded, words = take_settings(words)
        options = parser.parse_args(words)
        plan = _plan(options, loaded.settings)
        return _FAILED if plan is None else _run(plan, options)
    except SettingsError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return _WRONG_USE
    except (ZatError, Unmet, OSError, http.client.HTTPException) as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("benchmark: broken off; everything was given back", file=sys.stderr)
        return _INTERRUPTED


def _parser(prog: str = "python -m diagnostics.benchmark") -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Measures the time to first token cold, prepared and warm, through the real engine.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="URL", help="measure on your own llama-server; asks before it sends prompts")
    where.add_argument("--real", action="store_true", help="measure on llama.cpp with a model of random weights")
    parser.add_argument(
        "--runs", type=_whole(1, 1000), metavar="N", help="prompts of each kind (default: 5; with --curve or --harm 3)"
    )
    parser.add_argument("--json", action="store_true", help="write one JSON object")
    parser.add_argument(
        "--restore-ms", type=_milliseconds, default=200.0, metavar="MS", help="what a cold prompt costs the stand-in"
    )
    parser.add_argument(
        "--tokens", type=_whole(128, 100_000), default=3000, metavar="N", help="length of the context (default: 3000)"
    )
    parser.add_argument("--curve", action="store_true", help="instead: 300 to 8,000 tokens, beside other ways to do it")
    parser.add_argument("--harm", action="store_true", help="instead: wrong guesses, and prompts that come too early")
    parser.add_argument(
        "--interleavings",
        type=_whole(0, 1_000_000),
        default=0,
        metavar="N",
        help="instead: so many games of prompts, restores, saves, wakes and kills (needs --real; 1000 are usual)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the figures as SVG")
    parser.add_argument("--yes", action="store_true", help="do not ask before sending prompts to --server")
    return parser


def _plan(options: argparse.Namespace, settings: Settings) -> Plan | None:
    """Return what is to be measured; None if the user does not want it. Raises ZatError."""
    if options.server and options.harm:
        raise SettingsError("--harm disturbs a server on purpose: it is for the stand-in and --real")
    if options.interleavings and not options.real:
        raise SettingsError("--interleavings kills servers of its own: it needs --real")
    if options.plot and (options.harm or options.interleavings) and not options.curve:
        raise SettingsError("--plot draws times to first token: not those of --harm or --interleavings")
    runs = options.runs or (3 if options.curve or options.harm else 5)
    # Every other setting is the default: what is measured must not depend on a user's habits.
    settings = Settings(api_key=settings.api_key, slot_save_path=settings.slot_save_path)
    if options.server:
        settings = settings.replace({"SERVER_URL": options.server})
        guest = bench_users.look(settings)
        if not bench_users.agreed(guest, yes=options.yes):
            return None
        stages = (bench_users.stage(guest, settings),)
        return Plan(guest.url, stages, (1,), options.tokens, runs, settings, options.curve, FEW)
    return _own(options, runs)


def _own(options: argparse.Namespace, runs: int) -> Plan:
    """Return what is to be measured on a server that is started for it."""
    part = options.harm or options.interleavings
    stages: tuple[StageIn, ...]
    if options.real:
        bench_stage.check_real()
        every = (bench_stage.restarted, bench_stage.asleep, bench_stage.default_warm)
        stages, jobs = (every[:1], (2,)) if options.curve else (() if part else every, (0, 2))
        grounds = Grounds(bench_stage.restarted, bench_stage.asleep) if options.harm else None
        name, few = "llama.cpp", FEW
    else:
        stand_in = bench_stage.stand_in(options.restore_ms)
        stages, jobs = (stand_in,) if options.curve or not part else (), (1,)
        grounds = Grounds(stand_in) if options.harm else None
        name, few = "stand-in", None
    races = options.interleavings
    return Plan(name, stages, jobs, options.tokens, runs, Settings(), options.curve, few, grounds, races)


def _run(plan: Plan, options: argparse.Namespace) -> int:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts what runs behind it deaf to Ctrl+C
            signal.signal(number, signal.default_int_handler)
    if not options.server:
        print(f"benchmark: about {plan.minutes} min on two quiet cores", file=sys.stderr, flush=True)
    progress = Progress(plan.steps)
    try:
        with quiet(logging.ERROR, "engine"):  # losing a server is the plan here
            result = measure(plan, progress)
    finally:
        progress.end()
    if options.plot:
        _plot(options.plot, result)
    print(json.dumps(result) if options.json else as_text(result))
    return 0 if succeeded(result) else _FAILED


def as_text(result: dict[str, Any]) -> str:
    """Return the tables of what was measured: the object that --json writes."""
    parts = [f"Time to first token in ms, server: {result['server']}, {result['runs']} runs, interleaved"]
    if "curve" in result:
        parts.append(bench_table.curve_text(result["curve"]))
    parts += [bench_table.as_text(found) for found in result.get("curve", result["scenarios"])]
    if "harm" in result:
        parts.append(bench_table.harm_text(result["harm"]))
    if "interleavings" in result:
        parts.append(bench_table.races_text(result["interleavings"]))
    if result["server"] == "stand-in":
        parts.append("The stand-in has no model: its cold wait is --restore-ms at every length of context.")
    if result["verdicts"]:
        parts.append("\n".join(result["verdicts"]))
    return "\n\n".join(parts)


def _plot(path: Path, result: dict[str, Any]) -> None:
    title = f"Time to first token, {result['server']}"
    if "curve" in result:
        bench_plot.lines(path, title, [bench_table.heights(point) for point in result["curve"]])
    elif result["scenarios"]:
        headline = next(found for found in reversed(result["scenarios"]) if found["samples"] is result["samples"])
        values = {kind: headline[f"{kind}_ms"] for kind in KINDS}
        bench_plot.bars(path, f"{title}, {result['tokens']:,} tokens", values, headline["spread"])


def _whole(low: int, high: int) -> Any:
    def whole(text: str) -> int:
        with contextlib.suppress(ValueError):
            if low <= (value := int(text)) <= high:
                return value
        raise argparse.ArgumentTypeError(f"{text} is not allowed: expected {low} to {high}")

    return whole


def _milliseconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.0 <= (value := float(text)) <= 600_000.0:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not allowed: expected 0 to 600000 ms")


if __name__ == "__main__":
    sys.exit(main())
