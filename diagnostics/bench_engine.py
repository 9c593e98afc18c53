"""The real engine under a benchmark: keys are injected, everything else is the engine's own doing."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from diagnostics.scripted import ScriptedParts
from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import Snapshot, State
from engine.loop import Engine
from engine.telemetry.evidence import KeyKind

KEY_EVERY = 0.125  # s; eight keys a second
_STEP = 30.0  # s that any single step of the engine may take on a slow machine


class Unmet(Exception):  # noqa: N818 - what happened
    """The engine did not do what the run needs; the message says what."""


class Watched:
    """A running engine, what it shows, and the keys that it senses."""

    def __init__(self, parts: ScriptedParts, clock: Clock) -> None:
        self._parts = parts
        self._clock = clock
        self._changed = threading.Condition()
        self._seen: Snapshot | None = None
        self._ended = False

    @property
    def context_detail(self) -> str:
        """Return what was last said of the context."""
        return self._seen.context_detail if self._seen else ""

    def ended(self) -> None:
        """Take note that there is nothing more to wait for."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def take(self, snapshot: Snapshot) -> None:
        """Take in a snapshot, on the engine's thread."""
        with self._changed:
            self._seen = snapshot
            self._changed.notify_all()

    def wait(self, what: str, condition: Callable[[Snapshot], bool], timeout: float = _STEP) -> None:
        """Wait until a snapshot fulfils the condition. Raises Unmet."""
        if not self._shows(condition, timeout):
            raise Unmet(f"{what}: not within {timeout:g} s ({_brief(self._seen)})")

    def type_until(self, what: str, condition: Callable[[Snapshot], bool], timeout: float = _STEP) -> float:
        """Type, as a person does, until a snapshot fulfils the condition; return the seconds. Raises Unmet."""
        began = self._clock.now()
        while self._clock.now() - began < timeout:
            self._parts.keys.press(self._clock.now())
            if self._shows(condition, KEY_EVERY):
                return self._clock.now() - began
        raise Unmet(f"{what}: not within {timeout:g} s of typing ({_brief(self._seen)})")

    def _shows(self, condition: Callable[[Snapshot], bool], timeout: float) -> bool:
        def met() -> bool:
            return self._seen is not None and condition(self._seen)

        with self._changed:
            self._changed.wait_for(lambda: self._ended or met(), timeout)
            if self._ended:
                raise Unmet(f"the engine has ended ({_brief(self._seen)})")
            return met()

    def enter(self) -> None:
        """Press Enter."""
        self._parts.keys.press(self._clock.now(), KeyKind.ENTER)


@contextlib.contextmanager
def running(settings: Settings, folder: Path, clock: Clock) -> Iterator[Watched]:
    """Run an engine with its files in `folder`; it gives everything back at the end."""
    parts = ScriptedParts(clock, folder)
    watched = Watched(parts, clock)
    engine = Engine(settings, parts, clock)
    engine.subscribe(watched.take)

    def run() -> None:
        try:
            engine.run()
        finally:
            watched.ended()

    thread = threading.Thread(target=run, name="engine")
    try:
        thread.start()  # in here, since Ctrl+C may come while it waits for the thread to begin
        yield watched
    finally:
        engine.stop()
        if thread.is_alive():
            thread.join()


def prepared(seen: Snapshot) -> bool:
    """Tell whether the machine has decided to prepare."""
    return seen.state is State.SPECULATIVE_PREPARED


def _brief(seen: Snapshot | None) -> str:
    if seen is None:
        return "nothing was seen of the engine"
    server = f"server {seen.server.value}{f': {seen.server_detail}' if seen.server_detail else ''}"
    context = f"context {seen.context.value}{f': {seen.context_detail}' if seen.context_detail else ''}"
    held = {True: "held", False: "not held", None: "nothing to hold"}[seen.background_verified]
    return f"{seen.state.value}, job {held} by {seen.backend}, {server}, {context}"
