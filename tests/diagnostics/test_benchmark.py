"""The benchmark as people and programs call it: through the real engine, with real processes as the job."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import psutil
import pytest
from helpers.engine_process import ROOT, user_folders
from helpers.wait import wait_until

from diagnostics import bench_stage, benchmark
from diagnostics.bench_races import NEVER
from diagnostics.mock_server import StandIn
from diagnostics.real_server import free_port

CONTRACT = [
    "server",
    "tokens",
    "runs",
    "cold_ms",
    "prepared_ms",
    "warm_ms",
    "cold_over_prepared",
    "prepared_over_warm",
    "samples",
]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep whatever it writes for the user away from the user."""
    for name, folder in {**user_folders(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # the command sets its own, which would outlive the test


def answered(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> dict[str, Any]:
    """Run it with --json and return the object it printed; its exit code is checked."""
    assert benchmark.main([*words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_on_the_stand_in(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All prompts count, prepared and warm computed the same, cold took longer, and the chart is one."""
    chart = tmp_path / "chart.svg"
    words = ["--runs", "2", "--tokens", "600", "--restore-ms", "1000", "--json", "--plot", str(chart)]
    assert benchmark.main(words) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert list(found)[: len(CONTRACT)] == CONTRACT
    assert (found["server"], found["runs"], found["tokens"]) == ("stand-in", 2, 601)
    assert found["cold_over_prepared"] > 2
    assert {sample["failed"] for sample in found["samples"]} == {""}
    reused = {(s["kind"], s["cache_n"], s["prompt_n"]) for s in found["samples"]}
    assert reused == {("cold", 0, 729), ("prepared", 601, 128), ("warm", 601, 128)}
    assert all(s["ready_ms"] > 0 for s in found["samples"] if s["kind"] == "prepared")
    first, *progress = captured.err.splitlines()
    assert re.fullmatch(r"benchmark: about \d+ min on two quiet cores", first)
    assert progress == [f"progress {done} 6" for done in range(7)]
    assert ET.parse(chart).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_curve_and_harm(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each length of context with the other ways to do it, and what help costs when it is in the way."""
    monkeypatch.setattr("diagnostics.bench_plan.CURVE", (300, 600))
    monkeypatch.setattr("diagnostics.bench_harm.BLOCK", 2)
    monkeypatch.setattr("diagnostics.bench_harm.BLOCKS", 1)
    chart = tmp_path / "curve.svg"
    words = ["--runs", "1", "--tokens", "600", "--restore-ms", "500", "--curve", "--harm", "--plot", str(chart)]
    found = answered(capsys, 0, *words)
    assert [point["tokens"] for point in found["curve"]] == [301, 601]
    for point in found["curve"]:
        times = {kind: row["ttft_ms"] for kind, row in point["baselines"].items()}
        assert times["cold"] > times["any_key"]
        assert times["reactive"] > times["prepared"]
    assert found["verdicts"][1].startswith("At 601 tokens preparing saves ")
    assert len(found["harm"]) == 3
    assert {row["unanswered"] for row in found["harm"].values()} == {0}
    assert len(ET.parse(chart).getroot().findall(".//{*}circle")) == 10


def test_harm_alone_measures_no_more(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of the others are null, and it did what it was asked for."""
    monkeypatch.setattr("diagnostics.bench_harm.BLOCK", 1)
    monkeypatch.setattr("diagnostics.bench_harm.BLOCKS", 1)
    found = answered(capsys, 0, "--runs", "1", "--tokens", "600", "--harm")
    assert list(found)[: len(CONTRACT)] == CONTRACT
    assert (found["cold_ms"], found["samples"], found["scenarios"]) == (None, [], [])
    assert all(row["samples"] for row in found["harm"].values())


@pytest.mark.real
@pytest.mark.timeout(600)
def test_interleavings_on_the_real_server(tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompts, restores, saves and kills collide, and nobody is left waiting."""
    assert tiny_model.exists()
    found = answered(capsys, 0, "--real", "--interleavings", "16")["interleavings"]
    assert found["interleavings"] == 16
    assert found["prompts"] >= 24
    assert found["saved"]
    assert {found[name] for name in NEVER} == {0}


@pytest.mark.real
@pytest.mark.timeout(600)  # six servers that start, sleep and wake beside busy processes
def test_on_the_real_server(
    tiny_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarted, asleep and warm, without and beside busy processes: every prompt counts and may be compared."""
    assert tiny_model.exists()
    monkeypatch.setattr(bench_stage, "MODEL", "tiny")
    found = answered(capsys, 0, "--real", "--runs", "1", "--tokens", "600")
    assert found["server"] == "llama.cpp"
    seen = {(part["scenario"], part["jobs"]) for part in found["scenarios"]}
    assert seen == {(name, jobs) for name in ("restarted", "asleep", "default-warm") for jobs in (0, 2)}
    for part in found["scenarios"]:
        reused = {sample["kind"]: (sample["cache_n"], sample["prompt_n"]) for sample in part["samples"]}
        assert reused["prepared"] == reused["warm"] == (601, 128)
        assert reused["cold"] == ((601, 128) if part["scenario"] == "default-warm" else (0, 729))


def test_on_a_server_of_the_user(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is asked for first, its slot holds afterwards what it held, and no file stays."""
    slots = tmp_path / "slots"
    slots.mkdir()
    with StandIn(restore_ms=1000, slot_save_path=slots) as server:
        server._slots.all[0].text = "what the user said"
        words = ["--server", server.url, "--runs", "1", "--tokens", "600", "--set", f"SLOT_SAVE_PATH={slots}"]
        assert benchmark.main(words) == 1
        assert "Nothing was sent. --yes says that it may." in capsys.readouterr().err
        assert server._slots.predicted_tokens == 0
        found = answered(capsys, 0, *words, "--yes")
        assert found["server"] == server.url
        assert found["cold_over_prepared"] > 2
        assert server._slots.all[0].text == "what the user said"
    assert list(slots.iterdir()) == []


def test_what_cannot_be_compared_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """A server without slot actions has nothing to restore: the failed run is shown, the ratios are null, exit 1."""
    with StandIn(restore_ms=1000) as server:
        found = answered(capsys, 1, "--server", server.url, "--runs", "1", "--tokens", "600", "--yes")
    assert found["prepared_ms"] is None
    assert found["cold_over_prepared"] is None
    assert found["prepared_over_warm"] is None
    assert found["cold_ms"] > found["warm_ms"]
    failed = {sample["kind"]: sample["failed"] for sample in found["samples"]}
    reason = "the context was not saved: start the server with --slot-save-path FOLDER to keep its context"
    assert failed == {"cold": "", "prepared": reason, "warm": ""}


def test_no_server_there(capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit 1."""
    url = f"http://127.0.0.1:{free_port()}"
    assert benchmark.main(["--server", url, "--yes"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(rf"benchmark: no llama-server answers at {url}: [^\n]+\n", captured.err)


@pytest.mark.parametrize(
    "words",
    [
        ["--server", "http://127.0.0.1:1", "--real"],
        ["--runs", "0"],
        ["--runs", "many"],
        ["--tokens", "5"],
        ["--restore-ms", "-1"],
        ["--nonsense"],
        ["--set", "WEIGHT_KEY=2"],
        ["--server", "no address"],
        ["--server", "http://127.0.0.1:1", "--harm"],
        ["--interleavings", "5"],
        ["--harm", "--plot", "chart.svg"],
    ],
)
def test_wrong_use(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, and nothing is measured."""
    with pytest.raises(SystemExit) as ended:
        sys.exit(benchmark.main(words))  # what is wrong in a word alone ends the command by itself
    assert ended.value.code == 2
    assert capsys.readouterr().out == ""


def test_broken_off_it_leaves_nobody_behind(tmp_path: Path) -> None:
    """Ctrl+C in the middle: exit 130, job and guardian are gone."""
    command = [sys.executable, "-m", "diagnostics.benchmark", "--runs", "50", "--tokens", "600"]
    with subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("progress 1 "):
                break
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait(30) == 130
    assert "broken off" in said
    wait_until(lambda: not any(child.is_running() for child in children), what="the children's end")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
