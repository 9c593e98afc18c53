"""The server's side as one part: the watching thread and the acting thread over one shared view."""

import threading
from collections.abc import Callable
from pathlib import Path

from engine.client.contexts import Contexts
from engine.client.prefetcher import Prefetcher
from engine.client.view import View
from engine.client.watcher import Watcher
from engine.clock import Clock
from engine.config.settings import Settings
from engine.events import Event

LAST_DOUBT = 3.0  # s at most at the end for a prompt that may be stranded behind our last action


class ServerLink:
    """What the loop needs of a server. `index`: the file that lists saved contexts."""

    def __init__(self, settings: Settings, index: Path, clock: Clock, post: Callable[[Event], None]) -> None:
        self._view = view = View()
        self._clock = clock
        self._prefetcher = Prefetcher(settings, view, Contexts(index), clock, post)
        self._watcher = Watcher(settings, view, clock, post, self._prefetcher)
        self.prepare = self._prefetcher.prepare
        self.cancel = self._prefetcher.cancel
        self.keep = self._prefetcher.keep
        self.reconfigure = self._prefetcher.reconfigure
        self.attend = self._watcher.attend

    def start(self) -> None:
        """Begin to watch."""
        self._prefetcher.start()
        self._watcher.start()

    def close(self, timeout: float) -> None:
        """Stop both threads; nobody is left waiting behind an action of ours, if that shows soon."""
        until, pause = self._clock.now() + min(LAST_DOUBT, timeout / 2), threading.Event()
        while self._view.in_doubt and self._clock.now() < until:
            pause.wait(0.02)
        timeout -= min(LAST_DOUBT, timeout / 2)
        self._watcher.close(timeout / 2)
        self._prefetcher.close(timeout / 2)
