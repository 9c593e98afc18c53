"""Sensing by the moment: a chat that is used full-screen, a prompt that is dictated, and a night in between."""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from helpers.clock import FakeClock
from helpers.desktop import display, needs, running
from helpers.fake_parts import FakeParts
from helpers.tray_host import window_manager
from helpers.wait import wait_until

from diagnostics.scripted import ScriptedWindow
from engine.clock import SystemClock, Timeline
from engine.config.settings import Settings
from engine.events import Paused, Resumed, SettingsChanged, Snapshot, State
from engine.loop import Engine
from engine.sensing import Sensing
from engine.telemetry import moments
from engine.telemetry.evidence import KeyKind, Readings, Sound, Window
from engine.telemetry.habits import Habits
from engine.telemetry.moments import FULL_SCREEN, IN_CALL, AnyMoment, Moments
from engine.telemetry.moments_linux import LinuxDesktop
from engine.telemetry.window import WindowSensor, hashed

KEY = bytes(32)
CHAT = Window("browser", ("talk", "chat", "browser"))
FILM = Window("browser", ("film", "films", "browser"))


class Speech(ScriptedWindow):
    """A microphone that hears somebody speak all the time."""

    def read(self) -> Sound | None:  # type: ignore[override]  # it only borrows start and stop
        """Return it."""
        return Sound(-20.0, 0.9)


@dataclass
class Parts(FakeParts):
    """Fakes with a microphone that works; `window_sensor` instead of the scripted window where there is one."""

    heard: Speech = field(default_factory=Speech)
    window_sensor: WindowSensor | None = None

    def microphone(self) -> Speech:  # type: ignore[override]  # as above
        """Return the one that hears speech."""
        return self.heard

    def window(self) -> ScriptedWindow:
        """Return what watches the window in front."""
        return self.window_sensor or self.front  # type: ignore[return-value]  # the same shape


def at_home_in(*windows: Window) -> Habits:
    """Return the habits of somebody who prompts from these."""
    habits = Habits()
    for window in windows:
        for _ in range(3):
            habits.prompted(window, 0.0)
    return habits


class Bench:
    """Sensing on fakes, with the chat known; ticked by hand."""

    def __init__(self, **settings: object) -> None:
        self.clock, self.parts, self.moments, self.habits = FakeClock(), Parts(), AnyMoment(), at_home_in(CHAT)
        self.timeline = Timeline(self.clock)
        self.sensing = Sensing(self.parts, self.moments, Settings(**settings))
        self.sensing.start()

    def mind(self, *, paused: bool = False) -> str:
        """Let the moment pass; return the sensors that are open, by their first letters."""
        self.sensing.mind(self.habits, paused=paused)
        return "".join(name[0] for name, state in self.sensing.states().items() if state == "on")

    def read(self) -> Readings:
        """Return what counts."""
        return self.sensing.read(self.habits, self.timeline)


def test_a_full_screen_chat_is_guessed_for_and_a_film_is_not() -> None:
    """The film runs in the same browser; what covers the screen is all that the open sensor tells."""
    bench = Bench()
    assert bench.mind() == "kmw"
    bench.moments.reason = FULL_SCREEN
    bench.parts.front.front = CHAT
    assert (bench.mind(), bench.sensing.not_guessing) == ("kmw", None)
    bench.parts.front.front = FILM
    assert (bench.mind(), bench.sensing.not_guessing) == ("w", FULL_SCREEN)
    assert bench.read().window is None
    bench.parts.front.front = CHAT
    assert (bench.mind(), bench.sensing.not_guessing) == ("kmw", None)
    assert bench.read().window == CHAT


@pytest.mark.parametrize(
    "settings", [{"learned": False}, {"window_filter": False}, {"evidence": "seed"}], ids=lambda one: next(iter(one))
)
def test_without_knowledge_of_windows_a_full_screen_program_closes_all(settings: dict[str, object]) -> None:
    """Nothing could overrule it, so nothing is left open."""
    bench = Bench(**settings)
    bench.parts.front.front = CHAT
    bench.moments.reason = FULL_SCREEN
    assert (bench.mind(), bench.sensing.not_guessing) == ("", FULL_SCREEN)


def test_the_window_is_watched_for_a_full_screen_program_alone() -> None:
    """Never behind a lock, on battery, or while paused, whatever came before; at its end all open again."""
    bench = Bench()
    bench.parts.front.front = FILM
    seen = []
    for reason, paused in (
        (FULL_SCREEN, False),
        ("screen locked", False),
        (FULL_SCREEN, False),
        ("on battery", False),
        (FULL_SCREEN, True),
        (FULL_SCREEN, False),
        (None, True),
        (None, False),
    ):
        bench.moments.reason = reason
        seen.append(bench.mind(paused=paused))
    assert seen == ["w", "", "w", "", "", "w", "", "kmw"]
    bench.moments.reason = FULL_SCREEN
    bench.mind()
    bench.sensing.configure(Settings(learned=False))
    assert bench.mind() == ""


def test_speech_in_a_call_does_not_count_and_that_is_said() -> None:
    """It is for somebody else; keys go on, and the state keeps to what readers of the JSON lines know."""
    bench = Bench()
    bench.parts.front.front = FILM
    bench.mind()
    assert bench.read().db == -20.0
    assert bench.moments.listening
    bench.moments.in_call = True
    readings = bench.read()
    assert (readings.db, readings.voice, readings.microphone, readings.keyboard) == (None, None, True, True)
    assert bench.sensing.states()["microphone"] == IN_CALL
    assert IN_CALL.startswith("unavailable: ")
    bench.moments.in_call = False
    assert bench.read().db == -20.0
    assert bench.sensing.states()["microphone"] == "on"


def test_a_prompt_may_be_dictated() -> None:
    """In a window that prompts come from, another program that records is one that writes down what is said."""
    bench = Bench()
    bench.moments.in_call = True
    bench.parts.front.front = CHAT
    bench.mind()
    assert bench.read().db == -20.0
    assert bench.sensing.states()["microphone"] == "on"


def test_a_closed_microphone_is_off_in_a_call_too() -> None:
    """Nothing is masked where nothing is heard."""
    bench = Bench(microphone=False)
    bench.moments.in_call = True
    bench.mind()
    bench.read()
    assert not bench.moments.listening
    assert bench.sensing.states()["microphone"] == "off"


def test_times_lie_on_the_line_of_the_loop() -> None:
    """Keys and who was seen, once a night is behind; who was seen before it is not there any more."""
    bench = Bench()
    bench.mind()
    bench.moments.person_at = bench.clock.now()
    assert bench.sensing.person_at(bench.timeline) == bench.clock.now()
    bench.clock.suspend(3600.0)
    assert bench.timeline.look()
    bench.sensing.woke()
    assert bench.sensing.person_at(bench.timeline) is None
    bench.moments.person_at = now = bench.clock.now()
    bench.parts.keys.press(now)
    assert bench.sensing.person_at(bench.timeline) == now + 3600.0
    assert [press.at for press in bench.read().keys] == [now + 3600.0]


# ---- A real loop, a real screen --------------------------------------------------------------------------------------

WINDOW = """
import sys
from Xlib import Xatom, display
screen = display.Display()
window = screen.screen().root.create_window(0, 0, 200, 100, 0, 0)
window.set_wm_name(sys.argv[1])
window.set_wm_class("browser", "browser")
state = screen.intern_atom("_NET_WM_STATE")
window.change_property(state, Xatom.ATOM, 32, [screen.intern_atom("_NET_WM_STATE_FULLSCREEN")])
window.map()
screen.sync()
while True:
    screen.next_event()
"""


class Live:
    """An engine at work on a real screen; keys are scripted."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.parts = Parts(window_sensor=WindowSensor(clock, KEY))
        looks = Moments(Settings(), clock, lambda: LinuxDesktop(system="disabled:"), lambda _: lambda: None)
        self.engine = Engine(Settings(microphone=False), self.parts, clock, moments=looks)
        self.engine._fusion.habits.places = at_home_in(window_of("talk 1"), window_of("talk 2")).places
        self.seen = Snapshot(at=0.0, state=State.COLD_IDLE)
        self.engine.subscribe(self._see)
        self.thread = threading.Thread(target=self.engine.run)
        self._clock = clock

    def _see(self, snapshot: Snapshot) -> None:
        self.seen = snapshot

    def guesses(self) -> bool:
        """Press a key; tell whether typing led to a guess."""
        self.parts.keys.press(self._clock.now(), KeyKind.TEXT)
        return self.seen.state is State.SPECULATIVE_PREPARED


def window_of(page: str) -> Window:
    """Return the window of a page of the chat, as the sensor tells it."""
    return Window("browser", hashed(f"{page} - Chat - Browser", KEY))


@contextlib.contextmanager
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Run an engine on a screen of its own, with a window manager; moments are looked at often."""
    for name in ("WAYLAND_DISPLAY", "XDG_SESSION_TYPE", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(moments, "LOOK", 0.1)
    with display() as screen, window_manager(screen):
        monkeypatch.setenv("DISPLAY", screen)
        one = Live()
        one.thread.start()
        try:
            yield one
        finally:
            one.engine.stop()
            one.thread.join(20)


def full_screen(title: str) -> contextlib.AbstractContextManager[object]:
    """Show a window of the browser that covers the screen."""
    return running([sys.executable, "-c", WINDOW, title], dict(os.environ))


@pytest.mark.real
@needs("Xvfb", "openbox")
def test_a_real_full_screen_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new talk in the chat is guessed for; a film over it is not, and closes all but the window's sensor."""
    with live(monkeypatch) as one, full_screen("talk 3 - Chat - Browser"):
        wait_until(lambda: one.engine._sensing._moments.reason == FULL_SCREEN, what="the window to cover the screen")
        wait_until(one.guesses, what="a guess")
        assert one.seen.not_guessing is None
        with full_screen("A film - Films - Browser"):
            wait_until(lambda: one.seen.not_guessing == FULL_SCREEN, what="the film to be noticed")
            wait_until(lambda: one.seen.state is State.COLD_IDLE, what="the guess to be given back")
            assert one.seen.sensors == {"keyboard": "off", "microphone": "off", "window": "on"}
            assert one.seen.false_positives == 0
            one.engine.post(Paused())
            wait_until(lambda: one.seen.sensors["window"] == "off", what="the pause")
            one.engine.post(Resumed())
            wait_until(lambda: one.seen.sensors["window"] == "on", what="its end")
            assert one.seen.sensors["keyboard"] == "off"
        wait_until(lambda: one.seen.sensors["keyboard"] == "on", what="the chat in front again")
        one.engine.post(SettingsChanged(Settings(microphone=False, learned=False)))
        wait_until(lambda: one.seen.not_guessing == FULL_SCREEN, what="the setting to apply")
        assert one.seen.sensors["window"] == "off"
