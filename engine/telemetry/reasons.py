"""Why a prompt is thought to be near, as a fragment of a sentence. Pure; it names no program and no title."""

import enum
from collections.abc import Mapping

MOST = 3  # grounds that are named
LEAST = 0.001  # of a ground that is named; one that surely holds has as much, whatever its numbers say
ASKED = "asked for by hand"
TURN = 300.0  # s after a reply for which it is worth a word


class Ground(enum.Enum):
    """What a guess can rest on, in the words that people read."""

    TYPING = "typing"
    PASTE = "something pasted"
    VOICE = "a voice"
    SOUND = "sound"
    WINDOW = "a window that prompts come from"
    TURN = "after a reply"


_GROUNDS: Mapping[
    Ground, frozenset[str]
] = {  # the first that fits: a product belongs to what makes it more than typing
    Ground.TURN: frozenset(("soon", "minute", "later", "pace")),
    Ground.VOICE: frozenset(("voice", "talk", "spoke")),
    Ground.PASTE: frozenset(("paste",)),
    Ground.TYPING: frozenset(("typing", "keys", "some", "length", "second", "rate", "deletes")),
}


def ground_of(feature: str) -> Ground | None:
    """Return the ground that a feature of the score belongs to by its name; None: it only ever speaks against."""
    words = frozenset(feature.split("_"))
    return next((ground for ground, names in _GROUNDS.items() if words & names), None)


def in_words(parts: Mapping[Ground, float], since_reply: float | None, *, shown: bool = False) -> str:
    """Return the grounds that speak for a prompt, strongest first.

    `parts`: what each adds, on any one scale. `since_reply`: seconds, None unknown. `shown`: say the numbers, too.
    """
    named = []
    for ground, part in sorted(parts.items(), key=lambda item: -item[1]):
        if part < LEAST:
            continue
        if ground is Ground.TURN:
            if since_reply is not None and since_reply <= TURN:
                named.append(f"{since_reply:.0f} s {ground.value}")
        else:
            named.append(f"{ground.value} {part:.2f}" if shown else ground.value)
    return ", ".join(named[:MOST])
