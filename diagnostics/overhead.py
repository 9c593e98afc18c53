"""Measures what the headless engine costs on this machine: processor share and resident size, typing and quiet.

python -m diagnostics.overhead [--seconds 60]
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil

from diagnostics.demo import named_job
from diagnostics.mock_server import StandIn
from engine.clock import SystemClock

JOB = "zat-bench-job"
SETTLE = 3.0  # s after the start
QUIET = 75.0  # s without a key, after which everything has calmed down
clock = SystemClock()


@contextlib.contextmanager
def running_engine(folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `python -m engine` with its files in `folder`, the job suspended for the prompts of this server."""
    values = {
        "SERVER_URL": url,
        "BACKGROUND_PROCESS_NAME": JOB,
        "BACKGROUND_METHOD": "process",
        "FALLBACK_TO_SUSPEND": "on",
        "MICROPHONE": "off",
    }
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    homes = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "engine", *words], env={**os.environ, **homes}, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def costs(folder: Path, seconds: float) -> None:
    """Processor share and resident size of `zat-scs engine`: typing, and after a quiet minute."""
    with StandIn() as server, named_job(folder, JOB), running_engine(folder, server.url) as process:
        engine = psutil.Process(process.pid)
        threading.Event().wait(SETTLE)
        if os.environ.get("DISPLAY") and shutil.which("xdotool"):
            with subprocess.Popen(["xdotool", "type", "--delay", "150", "a" * int(seconds / 0.15)]) as typist:  # noqa: S603, S607
                _cost(engine, "typing", seconds)
                typist.terminate()
        else:
            print("typing: not measured, since there is no screen with xdotool here")
        threading.Event().wait(QUIET)
        _cost(engine, "after a quiet minute", seconds)
        guardian = engine.children()[0].memory_info().rss
        print(f"{'resident size of the guardian':<52} {guardian / 2**20:7.1f} MB")


def _cost(engine: psutil.Process, title: str, seconds: float) -> None:
    before, started = engine.cpu_times(), clock.now()
    threading.Event().wait(seconds)
    after, took = engine.cpu_times(), clock.now() - started
    share = (after.user + after.system - before.user - before.system) / took * 100
    print(f"{f'processor share, {title}':<52} {share:7.2f} % of a core over {took:.0f} s")
    print(f"{f'resident size, {title}':<52} {engine.memory_info().rss / 2**20:7.1f} MB", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Measure; print one line a figure."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.overhead", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each measurement (default: 60)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="zat-scs-bench-") as folder:
        costs(Path(folder), options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
