"""Where prompts come from: remembers for each program, and each part of its titles, how often writing became a prompt.

Pure. Titles come as keyed hashes; nothing else of a window is known here.
"""

from collections import OrderedDict
from dataclasses import dataclass

from engine.telemetry.evidence import Window

MOST = 2000  # places remembered; the one not seen for longest goes first
SMOOTH = 0.3  # prompts believed of a place before much is known of it
RECENT = 0.4  # weight of the newest outcome in a place's recent outcomes
EXACT_HALVING = 120.0  # s after a prompt from this very window
PART_HALVING = 300.0  # s after a prompt from a window that shares a part of the title
PROBABLE = 0.5  # share of writing that became prompts from which a window counts as one that prompts come from
AT_HOME = 2  # prompts from a place until it is taken for the user's own: one may have been a program's


@dataclass(slots=True)
class Place:
    """What is known of one program or title part. `recent`: outcomes, newest weighted most; `prompted_at`: seconds."""

    prompts: int = 0
    bouts: int = 0  # of writing, prompts included
    enters: int = 0
    recent: float = 0.0
    prompted_at: float = float("-inf")


@dataclass(frozen=True, slots=True)
class Standing:
    """How likely writing in a window is to become a prompt, seen from several sides; all in [0, 1]."""

    share: float = 0.0  # of writing in the best of its places
    of_enters: float = 0.0  # prompts for each Enter, in the best of its places
    recent: float = 0.0
    exact: float = 0.0  # recent outcomes in this very window
    just_now: float = 0.0  # fades after a prompt from this very window
    lately: float = 0.0  # fades after a prompt from one like it
    known: float = 0.0  # how many prompts this rests on


NOTHING = Standing()


class Habits:
    """The memory. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.places: OrderedDict[tuple[str, ...], Place] = OrderedDict()
        self.prompts = 0  # ever seen, in whatever window

    def prompted(self, window: Window, now: float) -> None:
        """Take note of a prompt that came while this window was in front."""
        for place in self._all(window):
            place.prompts += 1
            place.prompted_at = now
        self._outcome(window, 1.0)

    def wrote(self, window: Window) -> None:
        """Take note of a bout of writing that became no prompt."""
        self._outcome(window, 0.0)

    def entered(self, window: Window) -> None:
        """Take note of an Enter."""
        for place in self._all(window):
            place.enters += 1

    def standing(self, window: Window, now: float) -> Standing:
        """Return what is known of this window."""
        share = of_enters = recent = lately = 0.0
        known = 0
        for key in _keys(window)[:-1]:
            place = self.places.get(key)
            if place is None or not place.prompts:
                continue
            of_place = (place.prompts + SMOOTH) / (place.bouts + 1.0)
            if of_place > share:
                share, known = of_place, place.prompts
            of_enters = max(of_enters, (place.prompts + SMOOTH) / (max(place.prompts, place.enters) + 1.0))
            recent = max(recent, place.recent)
            if len(key) > 1:
                lately = max(lately, 2.0 ** ((place.prompted_at - now) / PART_HALVING))
        exact = self.places.get(_keys(window)[-1])
        if exact is None and not known:
            return NOTHING
        just_now = 2.0 ** ((exact.prompted_at - now) / EXACT_HALVING) if exact else 0.0
        return Standing(
            share=min(1.0, share),
            of_enters=of_enters,
            recent=recent,
            exact=exact.recent if exact else 0.0,
            just_now=just_now,
            lately=lately,
            known=min(known, 5) / 5,
        )

    def home(self, window: Window) -> bool:
        """Tell whether prompts come from this very place; a browser's name, last in all of its titles, is no place."""
        parts: list[tuple[str, ...]] = [(window.app, part) for part in window.title[:-1]]
        keys = parts or [_keys(window)[-1]]
        places = [place for key in keys if (place := self.places.get(key)) is not None]
        return any(place.prompts >= AT_HOME and place.prompts >= PROBABLE * place.bouts for place in places)

    def _outcome(self, window: Window, outcome: float) -> None:
        for place in self._all(window):
            first = place.bouts == 0
            place.bouts += 1
            place.recent = outcome if first else place.recent * (1 - RECENT) + RECENT * outcome

    def _all(self, window: Window) -> list[Place]:
        found = []
        for key in _keys(window):
            place = self.places.pop(key, None) or Place()
            self.places[key] = place
            found.append(place)
        while len(self.places) > MOST:
            self.places.popitem(last=False)
        return found


def _keys(window: Window) -> list[tuple[str, ...]]:
    """Return the program, each part of the title within it, and the window as a whole, last."""
    return [(window.app,), *((window.app, part) for part in window.title), (window.app, "=", *window.title)]
