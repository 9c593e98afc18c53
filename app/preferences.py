"""The settings as the tray has them: what the user wants, and what of it is in force before the first answer."""

import dataclasses

from PySide6.QtCore import QObject, Signal

from app import consent
from engine.config import store
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.config.store import Loaded
from engine.errors import SettingsError


class Preferences(QObject):
    """`loaded` with all changes since. `answered`: the questions of the first start are."""

    changed = Signal()
    refused = Signal(str)  # why a change could not be written down

    def __init__(self, loaded: Loaded, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.loaded = loaded
        self.answered = consent.answered()

    @property
    def in_force(self) -> Settings:
        """The settings for the engine."""
        return self.loaded.settings if self.answered else consent.gated(self.loaded.settings)

    def from_outside(self, name: str) -> bool:
        """Tell whether a setting comes from where it cannot be changed here."""
        return self.loaded.sources.get(name) in ("environment", "--set")

    def take(self, settings: Settings) -> None:
        """Put settings into force that were written down already."""
        self.loaded = dataclasses.replace(self.loaded, settings=settings)
        self.changed.emit()

    def take_answer(self, chosen: dict[str, Value]) -> None:
        """Put into force what was chosen at the first start."""
        self.answered = True
        self.take(self.loaded.settings.replace(chosen))

    def set_microphone(self, on: bool) -> None:
        """Switch it, and write that down."""
        change: dict[str, Value] = {"MICROPHONE": on}
        try:
            store.save(self.loaded.path, change)
        except SettingsError as error:
            self.refused.emit(str(error))
        else:
            self.take(self.loaded.settings.replace(change))
