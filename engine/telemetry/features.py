"""What the learned score sees: how somebody types and speaks, where, and how long after a reply; never what. Pure."""

import math
from collections import deque

from engine.telemetry.evidence import KeyKind, Readings, Window
from engine.telemetry.habits import NOTHING, Habits, Standing
from engine.telemetry.personal import AFTER_REPLY
from engine.telemetry.room import Room

BOUT = 8.0  # s; a longer pause ends a bout of writing
CLOSED = 20.0  # s after which a bout that brought no prompt is booked as such
LEAST_KEYS = 3  # of a bout worth booking
ANSWERED = 3.0  # s within which a prompt must follow its Enter
FOREGONE = 10.0  # s after the last key or word, nothing is worth scoring
TALKED = 60.0  # s of speech, of about the last five minutes, that led to no prompt: a television or a meeting
PACE = 15.0  # s from a reply to the first key, before this user's own pace is known


class Fading:
    """A sum that fades with time."""

    __slots__ = ("_at", "_tau", "_value")

    def __init__(self, tau: float) -> None:
        self._tau, self._value, self._at = tau, 0.0, 0.0

    def add(self, now: float, amount: float = 1.0) -> None:
        """Add to it."""
        self._value = self.read(now) + amount
        self._at = now

    def read(self, now: float) -> float:
        """Return what is left of it."""
        return self._value * math.exp((self._at - now) / self._tau) if self._value else 0.0


class Rhythm:
    """When the last reply came, how soon after one this user begins to write, and how much talk led to no prompt."""

    def __init__(self) -> None:
        self.reply, self.pace = -math.inf, PACE
        self.talked = Fading(300.0)  # seconds of it
        self._awaiting = False
        self._paces: deque[float] = deque(maxlen=10)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self.reply, self._awaiting = now, True

    def wrote(self, at: float) -> None:
        """Take note of a key."""
        if self._awaiting:
            self._awaiting = False
            self._paces.append(min(at - self.reply, 120.0))
            self.pace = max(0.5, sorted(self._paces)[len(self._paces) // 2])

    def lose_time(self) -> None:
        """Take note of a gap: how long ago the last reply was is not known any more."""
        self.reply, self._awaiting = -math.inf, False


class Features:
    """Takes in each tick; gives the list of numbers that `score.py` weighs. Times are monotonic seconds.

    `rhythm`: what outlasts these features; `hz`: ticks a second.
    """

    def __init__(self, habits: Habits, rhythm: Rhythm | None = None, hz: int = 10) -> None:
        self._habits = habits
        self._rhythm = rhythm or Rhythm()
        self._room = Room(hz)
        self._heard_at = -math.inf
        self._window: Window | None = None
        self.standing: Standing = NOTHING  # of the window in front, as of the last values()
        self._window_at = -math.inf
        self._last_key = self._paste = self._enter = self._prompted = -math.inf
        self._voice = self._voice_from = -math.inf
        self._bout_from = -math.inf
        self._bout = self._deletes = 0
        self._second, self._decade = Fading(1.0), Fading(10.0)
        self._moves, self._repeats, self._shortcuts = Fading(30.0), Fading(30.0), Fading(30.0)
        self._vain, self._prompts = Fading(60.0), Fading(300.0)
        self._open_enters: deque[float] = deque()
        self._booked: tuple[Window | None, int, float] = (None, 0, 0.0)  # window, keys and time of the open bout

    @property
    def window(self) -> Window | None:
        """Return the window in front, None where it is not known."""
        return self._window

    def hear(self, now: float, readings: Readings) -> bool:
        """Take in one tick; True if somebody wrote, pasted or spoke in it."""
        if readings.window != self._window:
            self._turn_to(readings.window, now)
        touched = False
        for press in readings.keys:
            if press.at > self._prompted:
                touched |= self._press(min(press.at, now), press.kind)  # later: the loop was held up in this very tick
            else:
                self._sent(press.kind)
        self._room.take(readings.db, readings.voice)
        passed, self._heard_at = min(1.0, now - self._heard_at), now
        if self._room.speech:
            self._rhythm.talked.add(now, passed)
        if self._room.speech and self.listens(now):
            if now - self._voice > 3.0:
                self._voice_from = now
            self._voice = now
            touched = True
        while self._open_enters and now - self._open_enters[0] > ANSWERED:
            self._open_enters.popleft()
            self._vain.add(now)
        return touched

    def prompted(self, now: float) -> None:
        """Take note of a prompt."""
        # Only a spoken prompt shows that talk leads to prompts; one that is typed beside a television does not.
        typed = self._decade.read(now) >= 1.0 or now - self._paste <= FOREGONE
        if not typed and now - self._rhythm.reply > AFTER_REPLY:
            self._rhythm.talked = Fading(300.0)
        self._prompted = now
        self._prompts.add(now)
        while self._open_enters and now - self._open_enters[-1] <= ANSWERED:
            self._open_enters.pop()
        if self._window is not None:
            self._habits.prompted(self._window, now)
        self._booked = (None, 0, 0.0)
        self._bout, self._bout_from = 0, -math.inf
        # What led to this prompt is spent: when its reply is there, it must not be taken for the next one.
        self._last_key = self._paste = self._voice = self._voice_from = -math.inf
        self._second, self._decade = Fading(1.0), Fading(10.0)

    def replied(self, now: float) -> None:
        """Take note of a reply."""
        self._rhythm.replied(now)

    def foregone(self, now: float) -> bool:
        """Tell whether so long nothing was heard that no prompt can be near."""
        return now - max(self._last_key, self._voice, self._paste) > FOREGONE

    def listens(self, now: float) -> bool:
        """Tell whether speech still counts: that of a television or a meeting goes on and leads to no prompt."""
        return self._rhythm.talked.read(now) < TALKED

    def values(self, now: float) -> list[float]:
        """Return the numbers, in the order of NAMES; without a known window the first len(PLAIN) of them."""
        age = now - self._last_key
        bout = self._bout if age < BOUT else 0
        typing = math.exp(-age / 2)
        keys = math.log1p(bout) * typing
        some = min(bout, 3) / 3 * typing
        length = math.log1p(min(now - self._bout_from, 60.0)) * typing if bout else 0.0
        rate = min(self._decade.read(now) / 10, 8.0) / 8
        paste = math.exp(-min(now - self._paste, 30.0) / 3)
        entered = math.exp(-min(now - self._enter, 60.0) / 5)
        share = self._room.share if self.listens(now) else 0.0
        spoke = now - self._voice
        voice = math.exp(-min(spoke, 30.0) / 2)
        talk = math.log1p(min(now - self._voice_from, 30.0)) if spoke < 3.0 else 0.0
        vain, prompts = math.log1p(self._vain.read(now)), math.log1p(self._prompts.read(now))
        moves, repeats = math.log1p(self._moves.read(now)), math.log1p(self._repeats.read(now))
        turn = min(now - self._rhythm.reply, 600.0)
        soon, minute, later = 2.0 ** (-turn / 20), 2.0 ** (-turn / 60), 2.0 ** (-turn / 300)
        pace = (min(turn / self._rhythm.pace, 4.0) if turn < 600 else 4.0) / 4 * later
        plain = [
            typing, keys, some, length, min(self._second.read(now), 8.0) / 8, rate, math.log1p(self._deletes) * typing,
            moves, repeats, math.log1p(self._shortcuts.read(now)), paste, vain, entered, soon, minute, later,
            minute * typing, soon * typing, later * typing, vain * typing, prompts, prompts * typing,
            share, voice, talk, share * minute, talk * minute, pace, pace * typing,
        ]  # fmt: skip
        if self._window is None:
            self.standing = NOTHING
            return plain
        self.standing = place = self._habits.standing(self._window, now)
        w, e, r, x = place.share, place.of_enters, place.recent, place.exact
        fresh = math.exp(-min(now - self._window_at, 60.0) / 10)
        unknown = 0.0 if place.known else 1.0
        return [
            *plain,
            w, w * w, w * typing, w * keys, w * some, w * length, w * share, w * voice, w * talk, w * paste,
            w * minute, w * soon, w * minute * typing, w * fresh, fresh, w * vain, w * rate, w * entered,
            w * repeats, w * moves, w * w * typing, w * w * keys, w * w * talk, w * w * share,
            e, r, x, place.just_now, place.lately, e * typing, r * typing, x * typing, place.just_now * typing,
            place.lately * typing, e * keys, r * keys, x * keys, e * talk, r * share, r * talk, r * paste,
            r * e, r * e * typing, place.known, place.known * typing, unknown * typing, unknown * keys,
        ]  # fmt: skip

    def _turn_to(self, window: Window | None, now: float) -> None:
        before, self._window, self._window_at = self._window, window, now
        if _same_program(before, window):
            return  # a title changes by itself, too: a clock, a progress; what is written goes on
        self._close_bout()
        self._bout, self._bout_from = 0, -math.inf

    def _sent(self, kind: KeyKind) -> None:
        """Take in a press from before the last prompt: the loop takes prompts first, so its Enter is heard after it."""
        if kind is KeyKind.ENTER and self._window is not None:
            self._habits.entered(self._window)

    def _press(self, at: float, kind: KeyKind) -> bool:
        """Take in one press; True if it is a sign of writing."""
        match kind:
            case KeyKind.REPEAT:
                self._repeats.add(at)
            case KeyKind.NAVIGATION:
                self._moves.add(at)
            case KeyKind.SHORTCUT:
                self._shortcuts.add(at)
            case KeyKind.MODIFIER:
                pass
            case KeyKind.PASTE:
                self._paste = self._last_key = at
                return True
            case KeyKind.ENTER:
                self._enter = self._last_key = at
                self._open_enters.append(at)
                self._bout, self._bout_from, self._deletes = 0, -math.inf, 0
                if self._window is not None:
                    self._habits.entered(self._window)
                return True
            case KeyKind.TEXT | KeyKind.DELETE:
                self._write(at, deleting=kind is KeyKind.DELETE)
                return True
        return False

    def _write(self, at: float, *, deleting: bool) -> None:
        if self._bout == 0 or at - self._last_key > BOUT:
            self._bout, self._bout_from, self._deletes = 0, at, 0
        self._bout += 1
        self._deletes += deleting
        self._last_key = at
        self._second.add(at)
        self._decade.add(at)
        self._rhythm.wrote(at)
        window, keys, last = self._booked
        if not _same_program(window, self._window) or at - last > CLOSED:
            self._close_bout()
            keys = 0
        self._booked = (self._window, keys + 1, at)

    def _close_bout(self) -> None:
        """Book the open bout of writing as one that brought no prompt."""
        window, keys, _ = self._booked
        if window is not None and keys >= LEAST_KEYS:
            self._habits.wrote(window)
        self._booked = (None, 0, 0.0)


def _same_program(one: Window | None, other: Window | None) -> bool:
    return one is other if one is None or other is None else one.app == other.app
