"""Makes the server's side, and replaces it when another server is set."""

import threading
from collections.abc import Callable

from engine.config.settings import Settings
from engine.events import Event
from engine.parts import Link, Parts


class Links:
    """What a link that was replaced still has to say is not heard. Belongs to the loop's thread."""

    def __init__(self, parts: Parts, post: Callable[[Event], None]) -> None:
        self._parts = parts
        self._post = post
        self._number = 0

    def make(self, settings: Settings) -> Link:
        """Return a new link, not yet started."""
        self._number += 1
        number = self._number

        def post(event: Event) -> None:
            if number == self._number:
                self._post(event)

        return self._parts.link(settings, post)

    def replace(self, old: Link, settings: Settings, timeout: float) -> Link:
        """Return a new link that is started; the old one is closed meanwhile."""
        # Closing waits for calls in flight, and the loop waits for nothing.
        threading.Thread(target=old.close, args=(timeout,), daemon=True).start()
        new = self.make(settings)
        new.start()
        return new
