"""The inbox and its waiting."""

import threading

from engine.events import PromptArrived, ServerReport, ServerState
from engine.inbox import Inbox


def test_stop_takes_no_lock() -> None:
    """A signal's handler runs on the loop's thread in the midst of its waiting: it must never wait for itself."""
    inbox = Inbox()
    with inbox._woken._cond:
        stopping = threading.Thread(target=inbox.stop, daemon=True)
        stopping.start()
        stopping.join(10)
        assert not stopping.is_alive()
    assert inbox.stopped
    inbox.wait(60.0, early=True)
    inbox.wait(60.0, early=False)


def test_an_event_ends_an_early_wait_and_a_report_does_not() -> None:
    """What only is to be shown wakes nobody."""
    inbox = Inbox()
    inbox.put(ServerReport(ServerState.UP))
    assert not inbox._woken.is_set()
    inbox.put(PromptArrived())
    inbox.wait(60.0, early=True)
    assert len(list(inbox.take())) == 2
