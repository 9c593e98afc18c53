"""Commands to the running engine: prepare, release, pause, resume, status, stats, forget what was learned."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator

from app import stats as words
from app import texts
from engine.channel import ControlError, NotRunning, control_path
from engine.clock import SystemClock
from engine.control_client import Answer, ControlClient
from engine.events import Snapshot, State
from engine.snapshots import snapshot_from_dict

_EFFECT_WITHIN = 4.0  # s; two ticks of the slowest engine, and the time to hold a job or give it back
_AT_WORK = (State.SPECULATIVE_PREPARED, State.ACTIVE_INFERENCE)

Condition = Callable[[Snapshot], bool]


class _TooLong(ControlError):  # noqa: N818 - named after what happened
    """The engine took the command and does not show its effect; `last` is what it showed instead."""

    def __init__(self, last: Snapshot) -> None:
        super().__init__(f"the engine has not done it yet. {texts.sentence(last)}")
        self.last = last


def prepare(seconds: float | None) -> int:
    """Hold the job and restore the context now; 1 where the engine cannot."""
    try:
        before, _ = _look()
        if before.paused:
            return _fail("the engine is paused: `zat-scs resume` ends that")
        if before.state is State.DEGRADED:
            return _fail(f"there is nothing to prepare for. {texts.sentence(before)}")
        seen = _tell("prepare", seconds, lambda seen: seen.state in _AT_WORK and seen.background_share < 100)
    except _TooLong as error:
        if error.last.state in _AT_WORK:
            return _say(texts.sentence(error.last))  # there is no job, or none that can be held
        return _fail(str(error))
    except ControlError as error:
        return _fail(str(error))
    return _say(texts.sentence(seen))


def release() -> int:
    """Let the engine give everything back; undo by hand what is held where none runs, or it does not do it."""
    from app import by_hand  # noqa: PLC0415 - see _given_back

    try:
        _tell("release", None, lambda seen: seen.state not in _AT_WORK and _given_back(seen))
    except NotRunning:
        return by_hand.release()
    except ControlError as error:
        print(f"zat-scs: {error}; it is undone by hand", file=sys.stderr)  # noqa: T201 - a command's answer
        return by_hand.release()
    return _say("The engine holds nothing any more; it goes on, and waits for quiet before its next guess.")


def pause(seconds: float | None) -> int:
    """Let the engine give everything back and help no more, for a time or until resumed."""

    def done(seen: Snapshot) -> bool:
        return seen.paused and (seconds is None) == (seen.paused_for is None) and _given_back(seen)

    return _change("pause", seconds, done)


def resume() -> int:
    """Let the engine help again."""
    return _change("resume", None, lambda seen: not seen.paused)


def forget_habits() -> int:
    """Let what was learned of the user be forgotten: by the engine, which would write it again; else by hand."""
    from app import by_hand  # noqa: PLC0415 - see _given_back

    try:
        with ControlClient(control_path()) as client:
            client.request("forget")
    except NotRunning:
        return by_hand.forget_habits()
    except ControlError as error:
        return _fail(str(error))
    if not by_hand.habits_gone(_EFFECT_WITHIN):
        return _fail("the engine has not done it yet; its log may say why")
    return _say("Forgotten. The engine learns anew from the next prompt on.")


def status(*, as_json: bool) -> int:
    """Say what the engine is doing."""
    try:
        snapshot, answer = _look()
    except ControlError as error:
        return _fail(str(error))
    if as_json:
        return _say(json.dumps(answer["snapshot"]))
    return _say("\n".join((texts.sentence(snapshot), *_lines(snapshot), f"{answer['kind']}: process {answer['pid']}")))


def stats(count: int, *, as_json: bool) -> int:
    """Say what the last `count` days have brought and cost; a running engine knows more of today than its file."""
    from engine.days import last_days, load  # noqa: PLC0415 - see _given_back
    from engine.parts import RealParts  # noqa: PLC0415

    clock = SystemClock()
    known = {day.date: day for day in load(RealParts.of_user(clock).days).days}
    with contextlib.suppress(ControlError):
        today = _look()[0].today
        known |= {today.date: today} if today else {}
    days = last_days(known.values(), count, clock.wall())
    if as_json:
        return _say(json.dumps(words.as_dict(days)))
    return _say(f"{words.table(days)}\n\n{words.headline(days)}\n{words.footnote(days)}".rstrip())


def _given_back(seen: Snapshot) -> bool:
    """Tell whether the job has the card; a hold may be under way that no snapshot shows yet, but it is written down."""
    from app import by_hand  # noqa: PLC0415 - brings parts of the engine that the other commands can spare

    return seen.background_share == 100 and not by_hand.held()


def _change(command: str, seconds: float | None, done: Condition) -> int:
    try:
        return _say(texts.sentence(_tell(command, seconds, done)))
    except ControlError as error:
        return _fail(str(error))


def _look() -> tuple[Snapshot, Answer]:
    """Return the engine's newest snapshot, and the answer that it came with. Raises ControlError."""
    with ControlClient(control_path()) as client:
        answer = client.request("status")
    return _understood(answer["snapshot"]), answer


def _tell(command: str, seconds: float | None, done: Condition) -> Snapshot:
    """Give the command and return the snapshot that shows it done. Raises ControlError, _TooLong."""
    clock = SystemClock()
    with ControlClient(control_path(), clock) as client:
        client.request(command, seconds)
        deadline = clock.now() + _EFFECT_WITHIN
        for line in client.watch(silence=_EFFECT_WITHIN):
            snapshot = _understood(line)
            if done(snapshot):
                return snapshot
            if clock.now() >= deadline:
                raise _TooLong(snapshot)
    raise ControlError("the engine has ended")


def _understood(line: Answer) -> Snapshot:
    try:
        return snapshot_from_dict(line)
    except ValueError as error:
        raise ControlError(f"the engine is of another version: {error}") from None


def _lines(snapshot: Snapshot) -> Iterator[str]:
    yield f"P {snapshot.probability:.2f}, threshold {snapshot.threshold:.2f}"
    if snapshot.because:
        yield texts.because(snapshot)
    yield texts.job(snapshot)
    yield "server: " + _with_detail(snapshot.server.value, snapshot.server_detail)
    tokens = f" ({snapshot.context_tokens} tokens)" if snapshot.context_tokens else ""
    yield "context: " + _with_detail(snapshot.context.value + tokens, snapshot.context_detail)
    yield "sensors: " + ", ".join(f"{name} {state}" for name, state in snapshot.sensors.items())
    yield f"guesses: {snapshot.hits} right, {snapshot.false_positives} wrong, {snapshot.false_negatives} missed"


def _with_detail(state: str, detail: str) -> str:
    return f"{state}, {detail}" if detail else state


def _say(sentence: str) -> int:
    print(sentence)  # noqa: T201 - a command's answer
    return 0


def _fail(sentence: str) -> int:
    print(f"zat-scs: {sentence}", file=sys.stderr)  # noqa: T201 - a command's answer
    return 1
