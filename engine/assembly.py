"""The engine as users run it: the real parts, the moments not to guess in, and the memory of earlier days."""

from engine.clock import Clock
from engine.config.settings import Settings
from engine.loop import Engine
from engine.orchestration.lookout import Lookout
from engine.parts import Parts, RealParts
from engine.recorder import Recorder, delete_old
from engine.telemetry.moments import Moments, desktop


def assemble(
    settings: Settings, clock: Clock, *, parts: Parts | None = None, recorder: Recorder | None = None
) -> Engine:
    """Return an engine of this user, not yet started; old recordings go. `parts`: others than the real, for tests."""
    real = RealParts.of_user(clock)
    delete_old(real.traces)
    moments = Moments(settings, clock, desktop, Lookout)
    return Engine(
        settings, parts or real, clock, recorder=recorder, moments=moments, learned=real.learned, days=real.days
    )
