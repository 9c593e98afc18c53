"""Phase (b): the server flaps, again and again while the job is held for it."""

import threading

from diagnostics.mock_server import StandIn
from diagnostics.stress_stage import Figure, Job, Rig, Stage, clock, held_by, in_ms
from engine.events import Snapshot, State, Why

TIMES = 30
MEANWHILE = 0.3  # s for which it is watched while the server is away


def flapping(stage: Stage) -> dict[str, Figure]:
    """Let the server die and come back while somebody types: DEGRADED and back, with the job running meanwhile."""
    given_back: list[float] = []
    with StandIn() as server, stage.job() as job, Rig(stage.room(), held_by(server.url, job)) as rig:
        rig.ready()
        for _ in stage.rounds(TIMES):
            rig.type(lambda: job.stands and rig.seen.background_share == 10, "the job to be held")
            server.down()
            lost = clock.now()
            rig.until(_degraded, "DEGRADED")
            rig.until(lambda _: job.runs, "the job to run while the server is away")
            given_back.append(clock.now() - lost)
            rig.until(lambda seen: seen.background_share == 100, "100 % to be shown")
            _watch(stage, rig, job)
            server.up()
            rig.until(lambda seen: seen.state is not State.DEGRADED, "the way back")
    stage.check(_moves(rig, Why.SERVER_LOST) == len(given_back), "a loss was missed, or counted twice")
    stage.check(_moves(rig, Why.SERVER_BACK) == len(given_back), "a return was missed, or counted twice")
    return {"times": len(given_back), **in_ms(given_back, "down_to_running")}


def _moves(rig: Rig, why: Why) -> int:
    """Count the transitions for this reason."""
    return sum(move.why is why for move in rig.moves)


def _degraded(seen: Snapshot) -> bool:
    return seen.state is State.DEGRADED


def _watch(stage: Stage, rig: Rig, job: Job) -> None:
    """Type on, and see that nothing is held for a server that is not there."""
    end = clock.now() + MEANWHILE
    while clock.now() < end:
        rig.parts.keys.press(clock.now())
        threading.Event().wait(0.02)
        stage.check(job.runs and rig.seen.background_share == 100, "the job was held while the server was away")
        stage.check(_degraded(rig.seen), "it left DEGRADED while the server was away")
