"""Phases (c) and (i): hours of wrong guesses, of sleep and of jumping clocks, by a clock of their own."""

from diagnostics.stress_stage import Figure, Stage
from diagnostics.stress_virtual import Night
from engine.config.settings import Settings
from engine.events import Paused, PromptArrived, PromptFinished, State
from engine.orchestration.machine import AFTER_REPLY, HOLD

FALSE_NEGATIVES, FALSE_POSITIVES = 15, 50
SUSPENSIONS = 100
NIGHT = 8 * 3600.0
DAY = 86_400.0
# What is tried here is the machine; how well evidence is read must not matter.
BLIND = Settings(microphone=False, weight_key=0.0)
EAGER = Settings(microphone=False, evidence="seed")
PLAIN = Settings(microphone=False, learned=False)


def threshold(stage: Stage) -> dict[str, Figure]:
    """Miss prompts, then guess in vain: the threshold stops exactly at its ends."""
    return _missed(stage) | _guessed(stage)


def _missed(stage: Stage) -> dict[str, Figure]:
    night = Night(BLIND)
    for _ in range(FALSE_NEGATIVES):
        night.tick(typing=True)
        night.run(3.0)
        night.prompt()
        night.run(AFTER_REPLY + 1.0)
    count, lowest = night.seen.false_negatives, night.seen.threshold
    stage.check(count == FALSE_NEGATIVES, f"{count} missed prompts were counted")
    stage.check(lowest == night.settings.min_threshold, f"the threshold fell to {lowest}")
    return {"false_negatives": count, "lowest": lowest}


def _guessed(stage: Stage) -> dict[str, Figure]:
    night = Night(EAGER)
    for number in range(FALSE_POSITIVES):
        stage.progress(number / FALSE_POSITIVES)
        night.type_until_prepared()
        night.run(night.settings.inactivity_timer + 1.0)
        stage.check(night.parts.held.percent == 100, "a false alarm left the job held")
        night.run(HOLD)
    count, highest = night.seen.false_positives, night.seen.threshold
    stage.check(count == FALSE_POSITIVES, f"{count} false alarms were counted")
    stage.check(highest == night.settings.max_threshold, f"the threshold rose to {highest}")
    return {"false_positives": count, "highest": highest}


# ---- (i) Suspend, and clocks that jump -------------------------------------------------------------------------------


def jumps(stage: Stage) -> dict[str, Figure]:
    """Suspend the machine in each state, and let the wall's clock jump by days both ways."""
    booked = 0
    for number in stage.rounds(SUSPENSIONS):
        asleep = (5.2, 60.0, NIGHT)[number % 3]
        booked += _suspended_while_prepared(stage, asleep)
        _suspended_while_typing(stage, asleep)
        _suspended_while_active(stage, asleep)
        _suspended_while_paused(stage, asleep)
        _wall_jumps(stage, (DAY, -DAY, 400 * DAY)[number % 3])
    return {
        "suspensions": 4 * stage.count(SUSPENSIONS),
        "wall_jumps": stage.count(SUSPENSIONS),
        "booked_asleep": booked,
    }


def _woken(stage: Stage, night: Night, seconds: float) -> None:
    """Let the machine sleep, and see that what was sensed before says nothing any more."""
    night.parts.keys.press(night.clock.now())  # the last before the lid was closed
    night.clock.pass_by(seconds)
    seen = night.tick()
    stage.check(seen.probability == 0.0 and not seen.f_c, f"evidence outlived {seconds:g} s of sleep")


def _suspended_while_prepared(stage: Stage, seconds: float) -> int:
    """Return how many false alarms were booked for it: one at most, and the threshold stays."""
    night = Night(PLAIN)
    night.type_until_prepared()
    _woken(stage, night, seconds)
    night.run(night.settings.inactivity_timer + 1.0)
    seen = night.seen
    stage.check(seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "it stayed prepared after sleep")
    stage.check(seen.false_positives <= 1 and seen.threshold == 0.65, "sleep was booked more than once")
    night.prompt()
    stage.check(night.seen.false_negatives == 0, "a prompt after sleep, without evidence, counted as missed")
    return seen.false_positives


def _suspended_while_typing(stage: Stage, seconds: float) -> None:
    night = Night(PLAIN)
    night.run(0.3, typing=True)
    _woken(stage, night, seconds)
    night.run(1.0)
    stage.check(night.seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "sleep prepared something")
    night.type_until_prepared()
    night.engine.close()
    stage.check(night.parts.held.percent == 100, "closing left the job held")


def _suspended_while_active(stage: Stage, seconds: float) -> None:
    night = Night(PLAIN)
    night.engine.post(PromptArrived())
    night.tick()
    _woken(stage, night, seconds)
    stage.check(night.parts.held.percent == 0, "a prompt in work lost the card by sleep")
    night.engine.post(PromptFinished())
    night.run(1.0)
    stage.check(night.seen.state is State.COLD_IDLE and night.parts.held.percent == 100, "a reply left the job held")
    stage.check(night.seen.hits + night.seen.false_positives == 0, "sleep during a prompt was booked")


def _suspended_while_paused(stage: Stage, seconds: float) -> None:
    """See a pause end on time, however much of it was slept."""
    night = Night(PLAIN)
    night.engine.post(Paused(30.0))
    night.tick()
    _woken(stage, night, seconds)
    stage.check(night.seen.paused == (seconds < 29.0), "a pause did not end on time")
    night.run(30.0)
    stage.check(not night.seen.paused, "a pause did not end")


def _wall_jumps(stage: Stage, by: float) -> None:
    """See the deadline count from the last evidence, whatever the wall says."""
    night = Night(PLAIN)
    night.type_until_prepared()
    since, deadline = night.clock.now(), night.seen.deadline_in or 0.0
    night.clock.unix += by
    while night.tick().state is State.SPECULATIVE_PREPARED:
        left = deadline - (night.clock.now() - since)
        stage.check(abs((night.seen.deadline_in or 0.0) - left) < 1e-6, "the deadline moved with the wall's clock")
    took = night.clock.now() - since
    stage.check(abs(took - deadline) < 0.11, f"given back after {took:.1f} s, not {deadline:.1f} s")
    stage.check(night.parts.held.percent == 100, "the job stayed held")
    stage.check(night.seen.threshold == 0.65, "the wall's clock moved the threshold")
