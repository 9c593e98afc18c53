"""Replay: small days made by hand, whose figures can be told by counting."""

import io
import json
from itertools import pairwise
from pathlib import Path

import pytest

from app import cli
from diagnostics import days, replay, replay_figures
from engine import trace
from engine.config.settings import Settings
from engine.config.spec import Value
from engine.telemetry.evidence import KeyKind, Readings
from engine.telemetry.processor import Fused


def day(tmp_path: Path, duration: float, *events: trace.Event, name: str = "day.jsonl") -> Path:
    """Write a day."""
    file = io.BytesIO()
    writer = trace.Writer(file, trace.Header(1, 10, duration))
    for event in sorted(events, key=lambda event: event.t):
        writer.write(event)
    (tmp_path / name).write_bytes(file.getvalue())
    return tmp_path / name


def typing(start: float, seconds: float) -> list[trace.Event]:
    """Type five keys a second."""
    return [trace.Key(start + n / 5, KeyKind.TEXT) for n in range(int(seconds * 5))]


def test_a_foreseen_prompt_and_a_false_alarm(tmp_path: Path) -> None:
    """One of each: recall 1 of 1, precision 1 of 2, needless what was prepared in vain."""
    path = day(
        tmp_path, 360.0, *typing(10.0, 6.0), trace.Prompt(16.5), trace.Reply(20.0), *typing(30.0, 4.0),
    )  # fmt: skip
    played = replay.play(path, Settings())
    figures = replay.summary([played])
    assert (figures["prompts"], figures["recall"], figures["ready_1s"], figures["precision"]) == (1, 1.0, 1.0, 0.5)
    assert figures["fp_per_hour"] == pytest.approx(10.0)
    first, second = played.spans
    assert figures["prepared"] == pytest.approx((first[1] - first[0] + second[1] - second[0]) / 360)
    assert figures["needless"] == pytest.approx((second[1] - second[0]) / 360)
    assert figures["lead_p50"] == pytest.approx(16.5 - first[0])
    assert [(move.target.value, move.why.value) for _, move in played.moves] == [
        ("SPECULATIVE_PREPARED", "threshold"),
        ("ACTIVE_INFERENCE", "prompt"),
        ("COLD_IDLE", "finished"),
        ("SPECULATIVE_PREPARED", "threshold"),
        ("COLD_IDLE", "timeout"),
    ]


def test_a_long_preparation_is_needless_but_for_its_last_15_seconds(tmp_path: Path) -> None:
    """Typing for a minute before Enter: what came earlier than 15 s before it was not needed."""
    path = day(tmp_path, 120.0, *typing(10.0, 60.0), trace.Prompt(70.0), trace.Reply(75.0))
    played = replay.play(path, Settings())
    ((start, end),) = played.spans
    assert end == pytest.approx(70.0)
    assert replay.summary([played])["needless"] == pytest.approx((70.0 - 15.0 - start) / 120.0)


def test_prompts_in_a_row_without_a_reply_are_no_misses(tmp_path: Path) -> None:
    """Those that arrive in ACTIVE_INFERENCE count as prompts only."""
    path = day(tmp_path, 60.0, trace.Prompt(10.0), trace.Prompt(11.0), trace.Reply(20.0), trace.Reply(21.0))
    figures = replay.summary([replay.play(path, Settings())])
    assert (figures["prompts"], figures["recall"]) == (2, 0.0)


def test_an_empty_day_has_no_ratios(tmp_path: Path) -> None:
    """0/0 is null, never 0 or 1."""
    figures = replay.summary([replay.play(day(tmp_path, 60.0), Settings())])
    assert figures["recall"] is figures["ready_1s"] is figures["precision"] is figures["lead_p50"] is None
    assert (figures["fp_per_hour"], figures["needless"], figures["threshold_end"]) == (0.0, 0.0, 0.65)


def test_pauses_losses_and_missing_sensors_are_played(tmp_path: Path) -> None:
    """While paused, without a server or without a keyboard nothing is prepared."""
    for event, end in (
        (trace.Pause(5.0, True), trace.Pause(30.0, False)),
        (trace.Server(5.0, False), trace.Server(30.0, True)),
        (trace.SensorChange(5.0, "keyboard", False), trace.SensorChange(30.0, "keyboard", True)),
    ):
        path = day(tmp_path, 60.0, event, *typing(10.0, 6.0), end)
        assert replay.play(path, Settings()).preparations == 0


def test_a_voice_prepares(tmp_path: Path) -> None:
    """Loudness with a voice in it, as recorded, is heard; the same without a voice is not."""
    levels = [-70.0] * 100 + [-35.0] * 60 + [-70.0] * 200
    for voice, expected in ((90.0, 1), (5.0, 0)):
        sound = trace.Audio(0.0, levels, [0.0] * 100 + [voice] * 60 + [0.0] * 200)
        assert replay.play(day(tmp_path, 36.0, sound), Settings()).preparations == expected


def test_the_command_pools_files_and_takes_no_settings_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's file does not count unless it is named; --set does."""
    config = tmp_path / "config" / "zat-scs"
    config.mkdir(parents=True)
    (config / "settings.toml").write_text("KEYBOARD = false\n", "utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    words = [
        str(day(tmp_path, 60.0, *typing(10.0, 6.0), trace.Prompt(16.0), trace.Reply(20.0), name=name)) for name in "ab"
    ]
    assert cli.main(["replay", *words, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == [
        "traces", "hours", "prompts", "recall", "ready_1s", "precision", "fp_per_hour", "needless", "prepared",
        "lead_p50", "lead_p10", "threshold_end",
    ]  # fmt: skip
    assert (figures["traces"], figures["prompts"], figures["recall"]) == (2, 2, 1.0)
    for more in (["--config", str(config / "settings.toml")], ["--set", "KEYBOARD=off"]):
        assert cli.main(["replay", *words, "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["recall"] == 0.0
    assert cli.main(["replay", *words]) == 0
    assert "needless" in capsys.readouterr().out
    assert cli.main(["replay", str(tmp_path / "nowhere")]) == 1
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["normal", "no-keyboard"])
@pytest.mark.parametrize("evidence", [{"EVIDENCE": "seed", "TIMER_FROM": "entry"}, {"LEARNED": False}, {}])
def test_ticks_that_change_nothing_are_left_out_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, kind: str, evidence: dict[str, Value]
) -> None:
    """A day played so shows exactly what it shows when the machine is asked at every tick."""
    header, events = days.day(kind, 21, 2700.0)
    settings = Settings().replace({**evidence, "INACTIVITY_TIMER": 5.0})
    quick = replay.Player(settings, "day").play(header, iter(events))
    monkeypatch.setattr(replay, "_changes_nothing", lambda *_: False)
    assert replay.Player(settings, "day").play(header, iter(events)) == quick
    assert quick.moves


def test_sound_is_heard_to_the_end_of_each_stretch(tmp_path: Path) -> None:
    """A stretch that begins on a tick takes nothing from the one before it."""
    heard: list[float | None] = []

    class Listening(replay.Fusion):
        def step(self, now: float, readings: Readings) -> Fused:
            heard.append(readings.db)
            return super().step(now, readings)

    path = day(tmp_path, 1.0, trace.Audio(0.0, [-1.0, -2.0, -3.0]), trace.Audio(0.3, [-4.0]), trace.Audio(0.6, [-5.0]))
    header, events = trace.read(path)
    player = replay.Player(Settings(), "day")
    player._fusion = Listening(Settings())
    player.play(header, events)
    assert heard == [-1.0, -2.0, -3.0, -4.0, None, None, -5.0, None, None, None]


def test_a_sensor_that_comes_back_stays_off_where_settings_say_so(tmp_path: Path) -> None:
    """KEYBOARD=off holds for the whole day, whatever was recorded."""
    path = day(tmp_path, 60.0, trace.SensorChange(1.0, "keyboard", True), *typing(10.0, 6.0))
    assert replay.play(path, Settings().replace({"KEYBOARD": False})).preparations == 0


def test_the_table_names_the_worst_file_and_tells_programs_apart(tmp_path: Path) -> None:
    """Prompts, false alarms and time go to the program in front; a preparation to where it began."""
    good = day(
        tmp_path, 100.0, trace.Window(0.0, "assistant"), *typing(10.0, 6.0), trace.Prompt(16.5), trace.Reply(20.0),
        trace.Window(40.0, "messenger"), *typing(42.0, 4.0), trace.Window(50.0, "browser"), name="good.jsonl",
    )  # fmt: skip
    bad = day(tmp_path, 100.0, trace.Prompt(16.5), trace.Reply(20.0), name="bad.jsonl")
    played = [replay.play(path, Settings().replace({"LEARNED": False})) for path in (good, bad)]
    programs = replay_figures.by_program(played)
    assert {app: sum(part.seconds for part in parts) for app, parts in programs.items()} == {
        "(not known)": 100.0, "browser": 50.0, "assistant": 40.0, "messenger": 10.0,
    }  # fmt: skip
    assert [sum(part.prompts for part in programs[app]) for app in ("assistant", "messenger", "(not known)")] == [
        1,
        0,
        1,
    ]
    assert sum(part.false_positives for part in programs["messenger"]) == played[0].false_positives == 1
    assert sum(part.needless for parts in programs.values() for part in parts) == pytest.approx(played[0].needless)
    lines = replay_figures.table(played)
    assert "worst file: bad.jsonl" in lines
    assert any(line.startswith("assistant") for line in lines)
    assert not any("program in front" in line for line in replay_figures.table([played[1]]))


def test_a_recording_at_another_pace_is_replayed_at_that() -> None:
    """P fades by the second at fifty ticks a second, too, and a cough of ten of them is no speech."""

    def fallen(hz: int) -> float:
        watched: list[float] = []
        loud, quiet = [-20.0] * (hz // 5), [-70.0] * 10 * hz
        sound = [trace.Audio(0.0, quiet, [0.0] * 10 * hz), trace.Audio(10.0, loud, [90.0] * (hz // 5))]
        events = sorted([*sound, *typing(5.0, 3.0)], key=lambda event: event.t)
        player = replay.Player(Settings().replace({"LEARNED": False}), "day", lambda _now, p, _m: watched.append(p))
        assert player.play(trace.Header(1, hz, 20.0), iter(events)).preparations == 1
        assert watched[11 * hz :] == sorted(watched[11 * hz :], reverse=True)
        return watched[-1] / watched[13 * hz]

    assert fallen(50) == pytest.approx(fallen(10), rel=0.01)


def test_a_night_is_slept_through(tmp_path: Path) -> None:
    """In a gap nothing is fused, as in the live loop; what was sensed before it says nothing after it."""
    watched: list[float] = []
    path = day(tmp_path, 200.0, *typing(10.0, 6.0), trace.Gap(20.0, 100.0))
    played = replay.play(path, Settings().replace({"LEARNED": False}), lambda now, _p, _m: watched.append(now))
    assert max(b - a for a, b in pairwise(watched)) == pytest.approx(100.0, abs=0.11)
    assert [move.why.value for _, move in played.moves] == ["threshold", "timeout"]
    assert played.spans[0][1] == pytest.approx(120.0, abs=0.11)
