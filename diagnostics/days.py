"""Makes labelled days of this project's own: simulated people at a desk, in the trace format.

`python -m diagnostics.days FOLDER --days N --seed S`

Nothing here is recorded or copied from anybody. Typing follows published figures (p10 to p95 of key intervals, of keys
a prompt, of the time from the last key to sending, and from a reply to the next key, of people chatting with a language
model and of fast writers). The order of activities, their lengths, sounds and windows are guesses, and so is the mix:
figures on these days compare readings of evidence with each other, and promise nothing for a real desk.

Kinds of days, in turn: `normal` (chat, program, text, messages, a meeting, a game, browsing, away), `agents` (rows of
prompts that nobody typed), `messaging` (much of the time prompt-like writing to people), `meetings` (much speech that
is no prompt), `no-keyboard` (no key is sensed, as on some desktops; most prompts are spoken). The chat is a program of
its own, a tab of the browser or a panel of the editor. Some prompts are pasted, some spoken, some given up; some chats
ask for a title by themselves. Of the days of the first three kinds, one in five has no microphone.
"""

import argparse
import gzip
import io
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from diagnostics import days_acts as acts
from diagnostics.days_desk import HZ, Desk
from engine import trace

WORKDAY = 8 * 3600.0  # s
# How often an activity is begun, relative to the others.
_USUAL: Mapping[acts.Act, float] = {
    acts.chat: 0.24, acts.code: 0.22, acts.prose: 0.1, acts.messages: 0.12, acts.meeting: 0.06, acts.game: 0.03,
    acts.browse: 0.17, acts.away: 0.06,
}  # fmt: skip
KINDS: Mapping[str, Mapping[acts.Act, float]] = {
    "normal": _USUAL,
    "agents": {**_USUAL, acts.agent: 0.25},
    "messaging": {**_USUAL, acts.messages: 0.6},
    "meetings": {**_USUAL, acts.meeting: 0.4},
    "no-keyboard": _USUAL,
}
_MINUTES = 8.0  # that an activity takes, at the median


def day(kind: str, seed: int, seconds: float = WORKDAY) -> tuple[trace.Header, list[trace.Event]]:
    """Return one day; the same seed gives the same day."""
    rng = random.Random(f"{kind} {seed}")
    keyboard = kind != "no-keyboard"
    microphone = kind in ("meetings", "no-keyboard") or rng.random() < 0.8
    desk = Desk(rng, seconds, keyboard=keyboard, microphone=microphone)
    shares = KINDS[kind]
    while not desk.over:
        (act,) = rng.choices(list(shares), list(shares.values()))
        act(desk, desk.now + 60.0 * _MINUTES * rng.lognormvariate(0.0, 0.7))
    return trace.Header(1, HZ, seconds), desk.events()


def write(folder: Path, count: int, seed: int, seconds: float = WORKDAY) -> list[Path]:
    """Write so many days, the kinds in turn; return their files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        header, events = day(kind, seed * 1000 + number, seconds)
        buffer = io.BytesIO()
        writer = trace.Writer(buffer, header)
        for event in events:
            writer.write(event)
        paths.append(folder / f"{kind}-{seed}-{number:02d}.jsonl.gz")
        paths[-1].write_bytes(gzip.compress(buffer.getvalue(), 6, mtime=0))
    return paths


def main(argv: Sequence[str]) -> int:
    """Write days, and say where."""
    parser = argparse.ArgumentParser(prog="python -m diagnostics.days", description="Make simulated labelled days.")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--days", type=int, default=len(KINDS), metavar="N", help="how many; %(default)s by default")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="other seeds, other people; %(default)s")
    options = parser.parse_args(argv)
    try:
        for path in write(options.folder, options.days, options.seed):
            print(path)
    except OSError as error:
        print(f"zat-scs: {options.folder}: cannot be written: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
