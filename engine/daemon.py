"""The headless shell: one engine, signals, and its story as log lines or JSON lines. One instance a user."""

import contextlib
import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO

import filelock

from engine.assembly import assemble
from engine.channel import control_path
from engine.clock import Clock, SystemClock
from engine.config.settings import Settings
from engine.config.store import Loaded, state_folder
from engine.control import ControlServer
from engine.errors import TraceError
from engine.events import Snapshot
from engine.loop import Engine
from engine.orchestration import elevated
from engine.parts import RealParts
from engine.recorder import Recorder
from engine.snapshots import as_dict, transition

log = logging.getLogger(__name__)

REPORT_EVERY = 1.0  # s


class AlreadyRunning(Exception):  # noqa: N818 - a state, not a mistake
    """Another engine of this user runs; the message says who."""


def run(loaded: Loaded, *, seconds: float | None = None, as_json: bool = False, record: Path | None = None) -> int:
    """Run the engine until a signal, or for so many seconds; return the exit code. `record`: trace to be written."""
    configure_log()
    for problem in loaded.problems:
        log.warning("%s", problem)
    finding = elevated.examine(loaded.settings)
    if finding and finding.refuse:
        print(f"zat-scs: {finding.sentence}", file=sys.stderr)  # noqa: T201 - the command's answer
        return 1
    try:
        with single_instance(state_folder() / "engine.lock"):
            if finding:
                log.warning("%s", finding.sentence)
            with _recorder(record, loaded.settings) as recorder:
                return serve(loaded.settings, SystemClock(), recorder, seconds=seconds, as_json=as_json)
    except (AlreadyRunning, TraceError) as error:
        print(f"zat-scs: {error}", file=sys.stderr)  # noqa: T201 - the command's answer
        return 1


def serve(settings: Settings, clock: Clock, recorder: Recorder | None, *, seconds: float | None, as_json: bool) -> int:
    """Run one engine; 0 after a signal or the given time, 1 after a defect."""
    if settings.key_in_clear:
        log.warning("API_KEY leaves this machine unencrypted: SERVER_URL is plain http to another machine")
    engine = assemble(settings, clock, recorder=recorder)
    if as_json:
        engine.subscribe(JsonLines(sys.stdout, clock))
    else:
        engine.subscribe(Narrator())
    with stopped_by_signals(engine), _controlled(engine, clock):
        timer = threading.Timer(seconds, engine.stop) if seconds is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            engine.run()
        except Exception:
            log.exception("the engine failed; everything was given back")
            return 1
        finally:
            if timer is not None:
                timer.cancel()
    return 0


@contextlib.contextmanager
def _recorder(path: Path | None, settings: Settings) -> Iterator[Recorder | None]:
    """Open what a run is recorded with, if it is. Raises TraceError."""
    if path is None:
        yield None
        return
    folder = RealParts.of_user(SystemClock()).traces
    if path.parent == folder:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    recorder = Recorder(path, settings)
    try:
        yield recorder
    finally:
        recorder.close()


@contextlib.contextmanager
def _controlled(engine: Engine, clock: Clock) -> Iterator[None]:
    """Let other commands of this user talk to the engine; without that channel it runs all the same."""
    server = ControlServer(control_path(), engine.post, clock, quit_=engine.stop)
    unsubscribe = engine.subscribe(server.see)
    server.start()
    try:
        yield
    finally:
        unsubscribe()
        server.close()


@contextlib.contextmanager
def stopped_by_signals(engine: Engine) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the engine's run instead of the program."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        engine.stop()

    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@contextlib.contextmanager
def single_instance(path: Path) -> Iterator[None]:
    """Hold the lock of this user's one engine. Raises AlreadyRunning."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    owner = path.with_suffix(".pid")
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise AlreadyRunning(f"an engine of yours is running already{_who(owner)}") from None
    try:
        owner.write_text(f"{os.getpid()}\n", "ascii")
        yield
    finally:
        owner.unlink(missing_ok=True)
        lock.release()


def running(folder: Path) -> int | None:
    """Return the process number of this user's running engine, None if there is none."""
    try:
        with single_instance(folder / "engine.lock"):
            return None
    except AlreadyRunning:
        with contextlib.suppress(OSError, ValueError):
            return int((folder / "engine.pid").read_text("ascii"))
        return 0


def _who(owner: Path) -> str:
    try:
        return f" (process {int(owner.read_text('ascii'))})"
    except (OSError, ValueError):
        return ""


def configure_log() -> None:
    """Write the log to stderr; stdout belongs to JSON."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s", datefmt="%H:%M:%S"
    )


class Narrator:
    """Logs what a person wants to know and the machine's own lines do not say: once per change."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def __call__(self, snapshot: Snapshot) -> None:
        """Take one snapshot."""
        self._say("background", _of_job(snapshot), snapshot.background_detail)
        self._say("server", snapshot.server.value, snapshot.server_detail)
        tokens = f" ({snapshot.context_tokens} tokens)" if snapshot.context_tokens else ""
        self._say("context", snapshot.context.value + tokens, snapshot.context_detail)
        for name, state in snapshot.sensors.items():
            self._say(name, state, "")

    def _say(self, what: str, state: str, detail: str) -> None:
        text = f"{state}: {detail}" if detail else state
        if self._said.get(what) != text:
            self._said[what] = text
            log.info("%s: %s", what, text)


def _of_job(snapshot: Snapshot) -> str:
    """Say what is in force for the background job: a share is true where it can be shared, else it is held or free."""
    share, unproved = snapshot.background_share, ", not verified" if snapshot.background_verified is False else ""
    held = f"{share} % left" if snapshot.backend == "mps" else "held"
    return f"{'free' if share == 100 else held} ({snapshot.backend}{unproved})"


class JsonLines:
    """Writes JSON lines: snapshots at once, then one a second, the last after give-back; transitions as they happen."""

    def __init__(self, out: TextIO, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._due = clock.now()

    def __call__(self, snapshot: Snapshot) -> None:
        """Take one snapshot."""
        for move in snapshot.moves:
            self._write({"at": snapshot.at, "transition": transition(move)})
        if self._clock.now() >= self._due or snapshot.closed:
            self._due = self._clock.now() + REPORT_EVERY
            self._write(as_dict(snapshot))

    def _write(self, line: dict[str, object]) -> None:
        try:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()
        except BrokenPipeError:
            self._out = io.StringIO()  # the reader left; the engine goes on
