"""The witness against a deaf hook, on the shapes of the systems' answers."""

import functools
import sys
from collections import deque
from types import SimpleNamespace

import pytest

from engine.clock import SystemClock
from engine.errors import SensorUnavailable
from engine.telemetry import keyboard, last_input
from engine.telemetry.keyboard import Ear


class FakeUser32:
    """The keys of Windows: each says whether it is down, and once whether it was. `asked`: which were asked."""

    def __init__(self) -> None:
        self.down: set[int] = set()
        self.was: set[int] = set()
        self.asked: set[int] = set()
        self.GetAsyncKeyState = functools.partial(self._call)  # can be given a type, as those of ctypes can

    def _call(self, key: int) -> int:
        self.asked.add(key)
        said = (key in self.was) - 0x8000 * (key in self.down)  # a negative short is one whose highest bit is set
        self.was.discard(key)
        return said

    def tap(self, *keys: int) -> None:
        """Press and let go, faster than anybody looks."""
        self.was.update(keys)


class Hook:
    """A hook that lives and hears nothing."""

    def __init__(self) -> None:
        self.heard = 0
        self.alive = True

    def close(self) -> None:
        """End."""
        self.alive = False


class Listener:
    """pynput's listener on a Mac, as far as it is looked at."""

    def __init__(self, trusted: bool) -> None:
        self.IS_TRUSTED = trusted
        self.canonical = self.run = lambda *_: None
        self.alive = self._ready = False

    def start(self) -> None:
        """Begin."""
        self.alive = self._ready = True

    def stop(self) -> None:
        """End."""
        self.alive = False

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self.alive


def test_windows_tells_of_keys_and_not_of_the_mouse() -> None:
    """Whether one is down or was; what was before the first question is nobody's concern."""
    user32 = FakeUser32()
    user32.tap(65)
    witness = last_input.KeyStates(user32)
    assert witness.key_down() is False
    user32.tap(65, 66)
    assert [witness.key_down(), witness.key_down()] == [True, False]
    user32.down.add(254)
    assert [witness.key_down(), witness.key_down()] == [True, True]
    user32.down.clear()
    user32.tap(1, 2, 4, 5, 6)  # the buttons of a mouse
    assert witness.key_down() is False
    assert user32.asked == set(range(8, 255))
    witness.close()


def test_nothing_about_a_key_is_kept() -> None:
    """The witness knows how to ask, and nothing else."""
    user32 = FakeUser32()
    witness = last_input.KeyStates(user32)
    before = dict(vars(witness))
    user32.tap(65)
    assert witness.key_down()
    assert vars(witness) == before


def test_macos_asks_for_keys_alone() -> None:
    """Two answers about the same key differ a little, and are one."""
    now, pressed_at = [100.0], [90.0]
    asked: list[tuple[int, int]] = []

    def since(state: int, kind: int) -> float:
        asked.append((state, kind))
        return now[0] - pressed_at[0] + 0.01 * len(asked)

    services = SimpleNamespace(CGEventSourceSecondsSinceLastEventType=since)
    witness = last_input.LastKey(services, lambda: now[0])
    now[0] += 1.0
    assert witness.key_down() is False
    pressed_at[0] = now[0] = 102.0
    assert witness.key_down() is True
    assert set(asked) == {(1, 10)}
    witness.close()


def test_a_hook_that_hears_nothing_while_the_system_does_is_replaced() -> None:
    """After three such looks; somebody who only scrolls and clicks never makes it so."""
    user32, hooks = FakeUser32(), []

    def listen() -> Hook:
        hooks.append(Hook())
        return hooks[-1]

    ear = Ear(listen, last_input.KeyStates(user32))
    for _ in range(10):
        user32.tap(1, 4)
        ear.check()
    assert len(hooks) == 1
    for _ in range(3):
        user32.tap(65)
        ear.check()
    assert [hook.alive for hook in hooks] == [False, True]
    ear.close()


def test_keys_that_were_heard_are_no_sign_of_a_deaf_hook() -> None:
    """Also where they are seen a look later than they were heard, as after the last key before a pause."""
    user32, hooks = FakeUser32(), []

    def listen() -> Hook:
        hooks.append(Hook())
        return hooks[-1]

    ear = Ear(listen, last_input.KeyStates(user32))
    for _ in range(10):
        hooks[-1].heard += 1
        user32.tap(65)
        ear.check()
        ear.check()
        ear.check()
    assert len(hooks) == 1


@pytest.mark.parametrize(
    ("trusted", "allowed", "hears"), [(False, False, False), (False, True, True), (True, False, True)]
)
def test_on_a_mac_either_permission_is_enough(
    monkeypatch: pytest.MonkeyPatch, trusted: bool, allowed: bool, hears: bool
) -> None:
    """Accessibility, which pynput looks for, or Input Monitoring, which the advice names and listening needs."""
    services = SimpleNamespace(CGPreflightListenEventAccess=lambda: allowed)
    monkeypatch.setattr(last_input, "_services", lambda: services)
    monkeypatch.setattr(sys, "platform", "darwin")
    listener = Listener(trusted)
    if hears:
        keyboard.Listening(lambda **_: listener, SystemClock(), deque())
    else:
        with pytest.raises(SensorUnavailable, match="allow it under Input Monitoring"):
            keyboard.Listening(lambda **_: listener, SystemClock(), deque())
    assert listener.alive is hears


def test_elsewhere_there_is_no_such_witness() -> None:
    """On X11 the server itself tells which keys are down."""
    assert last_input.last_input() is None
