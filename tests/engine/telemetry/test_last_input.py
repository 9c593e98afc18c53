"""The witness against a deaf hook, on the shapes of the systems' answers."""

import ctypes
from types import SimpleNamespace
from typing import Any

from engine.telemetry import last_input
from engine.telemetry.keyboard import Ear


class FakeUser32:
    """The two calls of Windows. `tick`: of the last input of any kind; `mouse`: where it is."""

    def __init__(self) -> None:
        self.tick = 0xFFFFFFFF
        self.mouse = (10, 20)

    def GetLastInputInfo(self, address: Any) -> int:  # noqa: N802 - its name there
        """Put the answer in, if the structure says its size."""
        fields = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint))
        assert fields[0] == 8
        fields[1] = self.tick
        return 1

    def GetCursorPos(self, address: Any) -> int:  # noqa: N802
        """Put the answer in."""
        place = ctypes.cast(address, ctypes.POINTER(ctypes.c_long))
        place[0], place[1] = self.mouse
        return 1


class Hook:
    """A hook that lives and hears nothing."""

    def __init__(self) -> None:
        self.heard = 0
        self.alive = True

    def close(self) -> None:
        """End."""
        self.alive = False


def test_windows_tells_keys_from_a_mouse_that_moves() -> None:
    """Its clock is one for both, and starts anew after 49 days."""
    user32 = FakeUser32()
    witness = last_input.windows(user32)
    assert witness.key_down() is False
    user32.tick = 5
    assert witness.key_down() is True
    user32.tick, user32.mouse = 9, (11, 20)
    assert witness.key_down() is False
    assert witness.key_down() is False


def test_macos_asks_for_keys_alone() -> None:
    """Two answers about the same key differ a little, and are one."""
    now, pressed_at = [100.0], [90.0]
    asked: list[tuple[int, int]] = []

    def since(state: int, kind: int) -> float:
        asked.append((state, kind))
        return now[0] - pressed_at[0] + 0.01 * len(asked)

    services = SimpleNamespace(CGEventSourceSecondsSinceLastEventType=since)
    witness = last_input.macos(services, lambda: now[0])
    now[0] += 1.0
    assert witness.key_down() is False
    pressed_at[0] = now[0] = 102.0
    assert witness.key_down() is True
    assert set(asked) == {(1, 10)}
    witness.close()


def test_a_hook_that_hears_nothing_while_the_system_does_is_replaced() -> None:
    """After three such looks; a mouse alone never does it."""
    user32, hooks = FakeUser32(), []

    def listen() -> Hook:
        hooks.append(Hook())
        return hooks[-1]

    ear = Ear(listen, last_input.windows(user32))
    for _ in range(10):
        user32.tick, user32.mouse = user32.tick + 7, (user32.mouse[0] + 1, 20)
        ear.check()
    assert len(hooks) == 1
    for _ in range(3):
        user32.tick += 7
        ear.check()
    assert [hook.alive for hook in hooks] == [False, True]
    ear.close()


def test_elsewhere_there_is_no_such_witness() -> None:
    """On X11 the server itself tells which keys are down."""
    assert last_input.last_input() is None
