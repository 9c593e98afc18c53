"""The comparison of readings: what the ways without evidence show, and that all rows are played on the same files."""

import json
from pathlib import Path

import pytest

from diagnostics import days, prediction
from diagnostics.replay_figures import summary
from engine import trace
from engine.telemetry.evidence import KeyKind

HEADER = trace.Header(1, 10, 100.0)
EVENTS = [
    trace.Key(1.0, KeyKind.MODIFIER),
    trace.Prompt(5.0),
    trace.Key(6.0, KeyKind.TEXT),
    trace.Prompt(6.5),
    trace.Reply(7.0),
    trace.Reply(8.0),
    trace.Key(20.0, KeyKind.TEXT),
    trace.Key(30.0, KeyKind.TEXT),
    trace.Prompt(60.0),
    trace.Reply(61.0),
    trace.Key(99.0, KeyKind.TEXT),
]


def test_any_key_prepares_for_fifteen_seconds() -> None:
    """Each key counts but while a prompt is in work; what no prompt follows is a false positive."""
    day = prediction.without_evidence("day", HEADER, EVENTS, keys=True)
    assert day.spans == [(1.0, 5.0), (20.0, 45.0), (99.0, 100.0)]
    assert (day.prompts, day.foreseeable, day.leads, day.false_positives) == (3, 2, [4.0], 1)


def test_without_a_guess_nothing_is_prepared() -> None:
    """Every prompt is met cold, and nothing is needless."""
    figures = summary([prediction.without_evidence("day", HEADER, EVENTS, keys=False)])
    assert (figures["recall"], figures["prepared"], figures["precision"]) == (0.0, 0.0, None)


def test_all_rows_are_played_on_given_and_on_made_days(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is all traces in it; each row has the figures of a replay, and what was ready by kind of day."""
    days.write(tmp_path, 1, 7, 600.0)
    assert prediction.main([str(tmp_path), "--days", "0", "--json"]) == 0
    (given,) = json.loads(capsys.readouterr().out)
    assert list(given["rows"]) == list(prediction.TITLES)
    assert (given["files"], given["weights"]) == (["normal-7-00.jsonl.gz"], "the shipped weights")
    prompts = {row["prompts"] for row in given["rows"].values()}
    assert len(prompts) == 1
    assert {tuple(row) for row in given["by_kind"].values()} == {("normal",)}


@pytest.mark.parametrize(("markdown", "words"), [(True, "| any key | 0.500, 36.0 |"), (False, "any key")])
def test_the_tables_are_for_people(markdown: bool, words: str) -> None:
    """One of all figures, one by kind of day; markdown for the README."""
    rows = {
        title: summary([prediction.without_evidence("x-1-0", HEADER, EVENTS, keys=True)]) for title in prediction.TITLES
    }
    kinds = {title: {"x": row} for title, row in rows.items()}
    compared = prediction.Compared("given", prediction.SHIPPED, ["x-1-0"], rows, kinds)
    text = "\n".join(prediction.lines(compared, markdown=markdown))
    assert words in text
    assert "ready, FP/h by kind of day" in text
    assert text.startswith("given: 1 files, 0 h, 3 prompts; learned rows by the shipped weights")


def test_learned_rows_can_be_judged_by_weights_that_have_not_seen_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are played as ever; a fit needs more files than are left out."""
    days.write(tmp_path, 3, 31, 900.0)
    assert prediction.main([str(tmp_path), "--days", "0", "--json"]) == 0
    (shipped,) = json.loads(capsys.readouterr().out)
    assert prediction.main([str(tmp_path), "--days", "0", "--unseen", "--json"]) == 0
    (unseen,) = json.loads(capsys.readouterr().out)
    assert unseen["weights"] == prediction.UNSEEN
    differing = {title for title in prediction.TITLES if shipped["rows"][title] != unseen["rows"][title]}
    assert differing
    assert differing <= set(prediction.LEARNED)
    with pytest.raises(SystemExit):
        prediction.main([str(tmp_path / "normal-31-00.jsonl.gz"), "--unseen"])
    assert "--unseen needs more than 2 traces" in capsys.readouterr().err


def test_a_file_that_is_no_trace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence, exit code 1."""
    (tmp_path / "bad.jsonl").write_bytes(b"hello\n")
    assert prediction.main([str(tmp_path / "bad.jsonl"), "--days", "0"]) == 1
    assert "not the header of a trace" in capsys.readouterr().err
