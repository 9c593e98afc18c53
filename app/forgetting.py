"""What a person can have forgotten: saved contexts, and what was learned of their habits. Each asks first."""

from collections.abc import Callable

from PySide6.QtCore import QObject

from app.dialogs import Dialogs
from engine.clock import SystemClock
from engine.events import Event, ForgetRequested


class Forgetting(QObject):
    """`post` tells the engine, which may be one of another process; `tell` shows a title and a sentence."""

    def __init__(
        self, dialogs: Dialogs, post: Callable[[Event], None], tell: Callable[[str, str], None], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._dialogs = dialogs
        self._post = post
        self._tell = tell

    def contexts(self) -> None:
        """Delete all saved contexts, if that is meant."""
        self._dialogs.forget(self._delete_contexts)

    def habits(self) -> None:
        """Forget what was learned, if that is meant."""
        self._dialogs.forget_habits(self._forget_habits)

    def _delete_contexts(self) -> None:
        from engine.client.contexts import Contexts  # noqa: PLC0415 - the engine is there by now, at the start not
        from engine.parts import RealParts  # noqa: PLC0415

        count, left = Contexts(RealParts.of_user(SystemClock()).contexts).forget_everywhere()
        text = self.tr("Deleted: {count}.").format(count=count)
        if left:
            paths = ", ".join(map(str, left))
            text += " " + self.tr("Not deleted, do it where the server runs: {paths}").format(paths=paths)
        self._tell(self.tr("Saved contexts"), text)

    def _forget_habits(self) -> None:
        """Tell the engine, which would write it down again; the file goes in any case, for there may be none."""
        from engine import memory  # noqa: PLC0415 - as above
        from engine.parts import RealParts  # noqa: PLC0415

        self._post(ForgetRequested())
        memory.save(RealParts.of_user(SystemClock()).learned, None)
        self._tell(self.tr("Forgotten"), self.tr("ZAT-SCS learns anew, from the next prompt on."))
