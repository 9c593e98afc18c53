"""A small window that has the focus, and how long a key takes to reach it: what our listening may add to."""

import contextlib
import select
import time
from collections.abc import Iterator
from typing import Any

from diagnostics.overhead_probe import Unmeasured
from diagnostics.overhead_stage import until
from engine.clock import SystemClock

KEYSYM_A = 0x61
GAP = 0.02  # s between two keys
PATIENCE = 5.0  # s for a key to arrive
clock = SystemClock()


class KeyWindow:
    """A window on `display`; the keys that it is sent come over a line of their own."""

    def __init__(self, display: str) -> None:
        try:
            from Xlib import X  # noqa: PLC0415 - a machine without it measures the rest
            from Xlib.display import Display  # noqa: PLC0415 - as above
        except ImportError as error:
            raise Unmeasured("the library python-xlib is missing") from error
        self._x = X
        self._owner, self._sender = Display(display), Display(display)
        self._key = self._sender.keysym_to_keycode(KEYSYM_A)
        mask = X.KeyPressMask | X.StructureNotifyMask
        root = self._owner.screen().root
        self._window = root.create_window(0, 0, 200, 100, 0, X.CopyFromParent, event_mask=mask)
        self._window.set_wm_name("keys")
        self._window.map()
        self._await(X.MapNotify)

    def close(self) -> None:
        """Close it."""
        self._owner.close()
        self._sender.close()

    def focus(self) -> None:
        """Take the focus; without one that has it, X holds back what a listener should hear. Raises Unmeasured."""

        def focused() -> bool:
            self._window.set_input_focus(self._x.RevertToParent, self._x.CurrentTime)
            self._owner.sync()
            return bool(self._owner.get_input_focus().focus == self._window)

        until(focused, "the focus")

    def has_tray(self) -> bool:
        """Tell whether a panel takes icons."""
        return bool(self._owner.get_selection_owner(self._owner.intern_atom("_NET_SYSTEM_TRAY_S0")))

    def latencies(self, count: int) -> list[float]:
        """Press a key so often; return how long each took to arrive, in milliseconds. Raises Unmeasured."""
        self.focus()
        self._owner.sync()
        while self._owner.pending_events():
            self._owner.next_event()
        found = []
        for _ in range(count):
            began = clock.now()
            self._fake(self._x.KeyPress)
            self._await(self._x.KeyPress)
            found.append(1000 * (clock.now() - began))
            self._fake(self._x.KeyRelease)
            time.sleep(GAP)
        return found

    def _fake(self, kind: int) -> None:
        self._sender.xtest_fake_input(kind, self._key)
        self._sender.flush()

    def _await(self, kind: int) -> Any:
        end = clock.now() + PATIENCE
        while clock.now() < end:
            while self._owner.pending_events():
                if self._owner.next_event().type == kind:
                    return
            select.select([self._owner.fileno()], [], [], end - clock.now())
        raise Unmeasured("a key did not arrive: another window took the focus")


@contextlib.contextmanager
def key_window(display: str) -> Iterator[KeyWindow]:
    """Open one for as long as the block lasts. Raises Unmeasured."""
    window = KeyWindow(display)
    try:
        window.focus()
        yield window
    finally:
        window.close()
