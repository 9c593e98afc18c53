"""Notifications: once for each cause."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.notices import QUIET, Notices
from engine.config.settings import Settings
from engine.config.store import Loaded
from engine.events import ServerState, Snapshot, State
from engine.telemetry.moments import IN_CALL
from engine.telemetry.supervisor import STARTING

pytestmark = pytest.mark.usefixtures("qtbot")

UP = Snapshot(at=0.0, state=State.COLD_IDLE, server=ServerState.UP, backend="process")
LOST = replace(UP, state=State.DEGRADED, server=ServerState.DOWN)
UNHELD = replace(UP, state=State.ACTIVE_INFERENCE, backend="null", refused=(("process", "it is another user's"),))
DEAF = replace(UP, sensors={"keyboard": "unavailable: no X server", "microphone": "off", "window": "unavailable: x"})


class Told:
    """Feeds snapshots at times, and keeps what was said."""

    def __init__(self) -> None:
        self.notices = Notices()
        self.titles: list[str] = []
        self.texts: list[str] = []
        self.notices.said.connect(self.hear)

    def hear(self, title: str, text: str) -> None:
        """Keep it."""
        self.titles.append(title)
        self.texts.append(text)

    def see(self, snapshot: Snapshot, *times: float) -> list[str]:
        """Show the snapshot at these seconds; return all titles so far."""
        for at in times:
            self.notices.watch(replace(snapshot, at=at))
        return self.titles


@pytest.fixture
def told() -> Told:
    """Return fresh notices."""
    return Told()


def test_a_lost_server_is_told_once(told: Told) -> None:
    """However many ticks it is gone, and though it comes and goes; after a quiet time it is news again."""
    told.see(UP, 0)
    assert told.see(LOST, *range(1, 50)) == ["The server does not answer any more"]
    told.see(UP, 51)
    assert len(told.see(LOST, 52, 53)) == 1
    told.see(UP, 54)
    assert len(told.see(LOST, 53 + QUIET + 1)) == 2


def test_a_server_that_was_never_there_is_not_lost(told: Told) -> None:
    """At login the tray is often there first."""
    assert told.see(LOST, 0, 1, 2) == []
    told.see(replace(UP, server=ServerState.UNKNOWN), 3)
    assert told.see(LOST, 4) == []


def test_loading_is_not_lost(told: Told) -> None:
    """It says so itself, and will be back."""
    told.see(UP, 0)
    assert told.see(replace(LOST, server=ServerState.LOADING), 1, 2) == []


def test_a_job_that_cannot_be_held_is_told_with_the_reason(told: Told) -> None:
    """Only once it was wanted for a second: holding takes a moment."""
    assert told.see(UNHELD, 0.0, 0.5) == []
    assert told.see(UNHELD, 1.0, 2.0, 3.0) == ["The background job cannot be held back"]
    assert told.texts == ["process: it is another user's"]


def test_a_job_that_does_not_yield_is_told(told: Told) -> None:
    """Told to, but seen to go on."""
    loose = replace(UP, state=State.ACTIVE_INFERENCE, background_share=0, background_verified=False)
    assert told.see(replace(loose, background_detail="it runs on"), 0, 1, 2) == [
        "The background job cannot be held back"
    ]
    assert told.texts == ["it runs on"]


def test_a_job_that_nobody_wants_to_hold_is_no_news(told: Told) -> None:
    """While nothing is prepared, nothing needs to be held."""
    assert told.see(replace(UNHELD, state=State.COLD_IDLE), 0, 1, 2) == []


def test_each_reason_of_a_sensor_is_told_once(told: Told) -> None:
    """Another reason is another cause."""
    assert told.see(DEAF, 0, 1, 2) == ["The keyboard cannot be sensed"]
    told.see(UP, 3)
    told.see(DEAF, 4)
    assert told.texts == ["no X server"]
    told.see(replace(DEAF, sensors={"keyboard": "unavailable: the listener died"}), 5)
    assert told.texts == ["no X server", "the listener died"]


def test_a_sensor_that_is_just_starting_is_no_news(told: Told) -> None:
    """It is so for a moment after each start."""
    starting = replace(UP, sensors={"keyboard": STARTING, "microphone": STARTING})
    assert told.see(starting, 0, 1) == []


def test_a_call_is_no_trouble(told: Told) -> None:
    """The microphone works; what is said is for somebody else."""
    assert told.see(replace(UP, sensors={"keyboard": "on", "microphone": IN_CALL}), 0, 1) == []


def test_a_threshold_at_its_bound_is_no_news(told: Told) -> None:
    """It does its work there."""
    assert told.see(replace(UP, threshold=0.9), 0, 1) == []


def test_paused_sensors_and_an_ended_engine_are_no_news(told: Told) -> None:
    """The user knows."""
    assert told.see(replace(DEAF, paused=True), 0, 1) == []
    told.see(UP, 2)
    assert told.see(replace(LOST, closed=True), 3) == []


def test_mistakes_in_the_settings_are_told_once(told: Told) -> None:
    """What is wrong in the file, and a key that would leave the machine in clear."""
    settings = Settings().replace({"SERVER_URL": "http://far.example", "API_KEY": "secret"})
    loaded = Loaded(settings, {}, ("settings.toml: WEIGHT_KEY = 7 is not allowed",), Path("settings.toml"))
    told.notices.check(loaded)
    told.notices.check(loaded)
    assert told.titles == ["The settings have a mistake", "The API key leaves this machine unencrypted"]
