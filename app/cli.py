"""The `zat-scs` command: parses, then imports only what the subcommand needs."""

import argparse
import contextlib
import importlib.metadata
import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine import itself
from engine.config.store import Loaded
from engine.errors import SettingsError
from engine.options import HELP, take_settings

_WRONG_USE = 2
_Command = Callable[[argparse.Namespace, Loaded], int]
_WITH_OWN_OPTIONS = {
    "mock-server": "run a stand-in for llama-server",
    "benchmark": "measure what preparing brings on this machine",
    "stress": "try to leave a job of its own throttled, in ten ways",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0 done, 1 failed, 2 wrong use or settings."""
    itself.give_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        loaded, words = take_settings(words)
    except SettingsError as error:
        print(f"zat-scs: {error}", file=sys.stderr)
        return _WRONG_USE
    if words[:1] == ["mock-server"]:
        from diagnostics import mock_server  # noqa: PLC0415 - it has its own options, and Flask

        return mock_server.main(words[1:], prog="zat-scs mock-server")
    if words[:1] == ["benchmark"]:
        from diagnostics import benchmark  # noqa: PLC0415 - as above

        return benchmark.main(words[1:], loaded)
    if words[:1] == ["stress"]:
        from diagnostics import stress_test  # noqa: PLC0415 - as above

        return stress_test.main(words[1:], loaded=True)
    options = _parser().parse_args(words)
    try:
        command: _Command = options.command
        code = command(options, loaded)
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # whoever read it has seen enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
        code = 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="zat-scs",
        description="Frees the graphics card and restores the context before you press Enter.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"zat-scs {importlib.metadata.version('zat-scs')}")
    parser.add_argument("--autostart", action="store_true", help="the tray, as the login starts it: nothing pops up")
    parser.set_defaults(command=_tray)
    commands = parser.add_subparsers(metavar="COMMAND", help="none: the tray")

    def add(name: str, help_: str, command: _Command) -> argparse.ArgumentParser:
        sub = commands.add_parser(
            name, help=help_, description=help_, epilog=HELP, formatter_class=parser.formatter_class
        )
        sub.set_defaults(command=command)
        return sub

    engine = add("engine", "run the engine without a window until Ctrl+C; everything is given back then", _engine)
    engine.add_argument("--for", dest="seconds", type=_seconds, metavar="S", help="end after so many seconds")
    engine.add_argument("--json", action="store_true", help="write snapshots and transitions as JSON lines")
    engine.add_argument("--record", type=Path, metavar="FILE", help="record a trace: times and kinds, never content")
    add("demo", "show the whole loop in half a minute, with stand-ins: nothing of yours is touched", _demo)
    for name, help_ in _WITH_OWN_OPTIONS.items():
        commands.add_parser(name, help=help_, add_help=False)
    doctor = add("doctor", "say what is found here, and what to change", _doctor)
    doctor.add_argument("--json", action="store_true", help="as JSON")
    replay = add("replay", "replay recorded days, and say how well they were guessed", _replay)
    replay.add_argument("files", nargs="+", metavar="FILE", help="traces, gzipped or not")
    what = replay.add_mutually_exclusive_group()
    what.add_argument("--json", action="store_true", help="the pooled figures as JSON")
    what.add_argument("--plot", type=Path, metavar="PICTURE", help="draw the day of one FILE as SVG")
    what.add_argument("--suggest", action="store_true", help="search for settings that fit these days better")
    settings = add("settings", "list all settings and where their values come from", _settings)
    settings.add_argument("--markdown", action="store_true", help="the table of the README")
    _add_control(add)
    forget = add("forget", "delete all saved contexts, or what was learned of your habits", _forget)
    forget.add_argument("--habits", action="store_true", help="what was learned of your habits, not the contexts")
    serve = add("serve", "start a llama-server with unified memory and the flags that are needed here", _serve)
    serve.add_argument("words", nargs="*", metavar="-- llama-server ARGS", help="the server's command line, after --")
    return parser


def _add_control(add: Callable[[str, str, _Command], argparse.ArgumentParser]) -> None:
    """Add what talks to the running engine."""
    for name, help_, command in (
        ("prepare", "hold the background job and restore the context now", _prepare),
        ("pause", "give everything back and help no more, until resumed", _pause),
    ):
        add(name, help_, command).add_argument(
            "--for", dest="seconds", type=_within_a_day, metavar="S", help="for so many seconds"
        )
    add("resume", "end a pause", _resume)
    add("release", "give the background job back now; by hand where no engine runs", _release)
    add("quit", "end tray and engine; everything is given back first", _quit)
    stats = add("stats", "say what helping has saved and cost, day by day", _stats)
    stats.add_argument("--json", action="store_true", help="as JSON")
    stats.add_argument("--days", type=_days, default=7, metavar="N", help="so many days, today being the last (7)")
    status = add("status", "say what the running engine is doing", _status)
    status.add_argument("--json", action="store_true", help="its snapshot as JSON")


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < 1e9:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0, such as 90")


def _within_a_day(text: str) -> float:
    value = _seconds(text)
    if value > 86400:
        raise argparse.ArgumentTypeError(f"{text} is more than a day (86400 s)")
    return value


def _days(text: str) -> int:
    with contextlib.suppress(ValueError):
        if 1 <= (value := int(text)) <= 400:
            return value
    raise argparse.ArgumentTypeError(f"{text} is not a number of days from 1 to 400")


def _tray(options: argparse.Namespace, loaded: Loaded) -> int:
    from app import main as tray  # noqa: PLC0415 - the only command that needs Qt

    return tray.run(loaded, on_login=options.autostart)


def _engine(options: argparse.Namespace, loaded: Loaded) -> int:
    from engine import daemon  # noqa: PLC0415 - other commands need none of it

    return daemon.run(loaded, seconds=options.seconds, as_json=options.json, record=options.record)


def _demo(options: argparse.Namespace, loaded: Loaded) -> int:
    del options, loaded
    from diagnostics import demo  # noqa: PLC0415

    return demo.main()


def _doctor(options: argparse.Namespace, loaded: Loaded) -> int:
    from diagnostics import doctor  # noqa: PLC0415
    from diagnostics.quiet import quiet  # noqa: PLC0415

    with quiet(logging.CRITICAL, "engine"):  # what goes wrong is the answer, not a log line
        findings = doctor.examine(loaded)
    print(json.dumps(findings, indent=2) if options.json else doctor.as_text(findings))
    return 0


def _replay(options: argparse.Namespace, loaded: Loaded) -> int:
    from diagnostics import replay, suggest  # noqa: PLC0415

    if options.suggest:
        return suggest.main(options.files, loaded.settings)
    return replay.main(options.files, loaded.settings, as_json=options.json, plot=options.plot)


def _settings(options: argparse.Namespace, loaded: Loaded) -> int:
    from engine.config import table  # noqa: PLC0415

    if options.markdown:
        print(table.markdown(), end="")
        return 0
    for problem in loaded.problems:
        print(f"zat-scs: {problem}", file=sys.stderr)
    print(f"# {loaded.path}")
    print("\n".join(table.rows(loaded)))
    return 0


def _prepare(options: argparse.Namespace, loaded: Loaded) -> int:
    del loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.prepare(options.seconds)


def _pause(options: argparse.Namespace, loaded: Loaded) -> int:
    del loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.pause(options.seconds)


def _resume(options: argparse.Namespace, loaded: Loaded) -> int:
    del options, loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.resume()


def _release(options: argparse.Namespace, loaded: Loaded) -> int:
    del options, loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.release()


def _quit(options: argparse.Namespace, loaded: Loaded) -> int:
    del options, loaded
    from app import ending  # noqa: PLC0415

    return ending.quit_all()


def _status(options: argparse.Namespace, loaded: Loaded) -> int:
    del loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.status(as_json=options.json)


def _stats(options: argparse.Namespace, loaded: Loaded) -> int:
    del loaded
    from app import control_commands  # noqa: PLC0415

    return control_commands.stats(options.days, as_json=options.json)


def _forget(options: argparse.Namespace, loaded: Loaded) -> int:
    del loaded
    from app import by_hand, control_commands  # noqa: PLC0415

    return control_commands.forget_habits() if options.habits else by_hand.forget()


def _serve(options: argparse.Namespace, loaded: Loaded) -> int:
    from app import serve  # noqa: PLC0415

    return serve.serve(options.words, loaded.settings)
