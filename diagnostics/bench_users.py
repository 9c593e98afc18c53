"""The user's own server under a benchmark: asked for first, looked at, and left as it was."""

import contextlib
import http.client
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diagnostics import ttft
from diagnostics.bench_stage import ROOM, Stage, StageIn
from diagnostics.ttft import Target
from engine import daemon
from engine.client.api import Kind, LlamaServer
from engine.client.contexts import Contexts
from engine.client.observer import Observer
from engine.client.view import Facts, readable
from engine.clock import SystemClock
from engine.config.settings import Settings
from engine.config.store import state_folder
from engine.errors import ServerError, ServerRefused, ZatError

SLOT = 0  # all prompts go there
_ACTION_TIMEOUT = 60.0  # s for saving and restoring what the user has in it


@dataclass(frozen=True)
class Guest:
    """What was found at the user's address. `can_save`: slot actions are available."""

    url: str
    facts: Facts
    can_save: bool
    save_path: str

    @property
    def question(self) -> str:
        """Say what will be done, before it is done."""
        promise = (
            f"Slot {SLOT} is saved before and restored after."
            if self.can_save
            else "What its slot holds CANNOT be given back: start it with --slot-save-path to change that."
        )
        return f"The benchmark sends prompts of its own to {self.url}. {promise}"


def look(settings: Settings) -> Guest:
    """Look at the server without changing anything; it may wake up. Raises ZatError with one sentence."""
    pid = daemon.running(state_folder())
    if pid is not None:
        raise ZatError(f"an engine of yours is running (process {pid}) and would take part: end it first")
    observer = Observer(settings)
    try:
        seen = observer.look(SystemClock().now(), keen=False, busy=False)
    finally:
        observer.close()
    facts = observer.facts
    if not seen.reached or facts is None:
        raise ZatError(f"no llama-server answers at {settings.server_url}: {seen.reason or 'it loads its model'}")
    if facts.kind is not Kind.LLAMA_SERVER or facts.needs_key:
        raise ZatError(f"{settings.server_url}: {facts.shortcoming or 'a router cannot be measured: name its child'}")
    if seen.work:
        raise ZatError(f"{settings.server_url} is at work: try again when it rests")
    can_save = _saves(settings)
    return Guest(settings.server_url, facts, can_save, facts.save_path or "")


def agreed(guest: Guest, *, yes: bool) -> bool:
    """Ask, unless told not to. What cannot be given back is never touched without --yes."""
    print(guest.question, file=sys.stderr)
    if yes:
        return True
    if not guest.can_save or not sys.stdin.isatty():
        print("Nothing was sent. --yes says that it may.", file=sys.stderr)
        return False
    print("Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def stage(guest: Guest, settings: Settings) -> StageIn:
    """Return how to measure on it: its slot is emptied for each cold prompt, and given back at the end."""

    @contextlib.contextmanager
    def staged(folder: Path, tokens: int) -> Iterator[Stage]:
        room = guest.facts.n_ctx
        if room is not None and tokens + ROOM // 2 > room:
            raise ZatError(f"{tokens} tokens do not fit: a slot of this server holds {room}")
        target = Target(guest.url, settings.api_key, SLOT)

        def lose() -> None:
            if guest.can_save:  # else another first word is all that makes a prompt cold
                ttft.erase(target, SLOT)

        with _given_back(guest, settings):
            try:
                yield Stage("emptied", guest.url, target, guest.save_path, lose, None)
            finally:
                Contexts(folder / "contexts.json").forget()

    return staged


@contextlib.contextmanager
def _given_back(guest: Guest, settings: Settings) -> Iterator[None]:
    """Save the slot, and restore it at the end."""
    if not guest.can_save:
        yield
        return
    name = f"zat-scs-benchmark-{secrets.token_hex(6)}.bin"
    with LlamaServer(guest.url, settings.api_key) as server:
        held = server.save(SLOT, name, timeout=_ACTION_TIMEOUT).n_saved
    path = readable(guest.save_path, name)
    try:
        yield
    finally:
        back = _restore(guest, settings, name, held)
        if back and path is not None and path.exists():
            path.unlink()
        else:
            print(f"The slot's former content lies in {name}, in the server's slot folder.", file=sys.stderr)


def _restore(guest: Guest, settings: Settings, name: str, held: int) -> bool:
    """Give the slot back what it held; tell whether that worked."""
    try:
        if held == 0:
            ttft.erase(Target(guest.url, settings.api_key), SLOT)
            return True
        with LlamaServer(guest.url, settings.api_key) as server:
            return server.restore(SLOT, name, timeout=_ACTION_TIMEOUT).n_restored == held
    except (ServerError, OSError, http.client.HTTPException) as error:
        print(f"The slot could not be given back: {error}", file=sys.stderr)
        return False


def _saves(settings: Settings) -> bool:
    """Tell whether slot actions are available, by one that is refused for its name in any case."""
    with LlamaServer(settings.server_url, settings.api_key) as server:
        try:
            server.save(SLOT, "../", timeout=_ACTION_TIMEOUT)
        except ServerRefused as refusal:
            return refusal.status == 400
    return False
