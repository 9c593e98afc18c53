"""The fit of the learned score: what a moment's label is, that the arithmetic is right, and that judging is fair."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from diagnostics import days, fit
from engine import trace
from engine.telemetry import weights
from engine.telemetry.evidence import KeyKind

SECONDS = 900.0


def written(path: Path, events: Sequence[trace.Event], seconds: float) -> Path:
    """Write a day of these events."""
    with path.open("wb") as file:
        writer = trace.Writer(file, trace.Header(1, 10, seconds))
        for event in sorted(events, key=lambda event: event.t):
            writer.write(event)
        writer.flush()
    return path


def keys(start: float, count: int) -> list[trace.Event]:
    """Return so many presses, five a second."""
    return [trace.Key(start + n / 5, KeyKind.TEXT) for n in range(count)]


def test_a_moment_is_labelled_by_how_it_ends(tmp_path: Path) -> None:
    """In a prompt, or in fifteen seconds of silence; a prompt that comes after these belongs to something else."""
    sent, given_up = [*keys(10.0, 15), trace.Prompt(14.0), trace.Reply(15.0)], [*keys(40.0, 15), trace.Prompt(70.0)]
    moments = fit.gather(written(tmp_path / "day.jsonl", [*sent, *given_up], 100.0), windows=False)
    ends = moments.label.tolist()
    assert moments.values.shape == (len(ends), len(weights.PLAIN))
    assert ends == sorted(ends, reverse=True)
    apart = fit.EVERY / 10
    assert sum(ends) * apart == pytest.approx(4.0, abs=2 * apart)  # from the first key to the prompt
    assert (len(ends) - sum(ends)) * apart == pytest.approx(12.8, abs=2 * apart)  # to ten seconds after the last key


def test_moments_far_from_a_prompt_are_thinned_and_count_for_the_rest(tmp_path: Path) -> None:
    """Typing that no prompt follows is most of a day: a fifth of it says as much."""
    moments = fit.gather(written(tmp_path / "day.jsonl", keys(1.0, 1500), 300.0), windows=False)
    assert len(moments.values) == pytest.approx(300.0 * 10 / fit.EVERY / fit.THINNED, abs=3)
    assert set(moments.counts) == {fit.THINNED}


def test_talk_that_goes_on_teaches_though_it_is_not_listened_to(tmp_path: Path) -> None:
    """All five minutes of a meeting are moments without a prompt; else a voice would be trusted."""
    talk = trace.Audio(0.0, [-30.0] * 3000, [95.0] * 3000)
    moments = fit.gather(written(tmp_path / "day.jsonl", [talk], 300.0), windows=False)
    assert moments.counts.sum() == pytest.approx(300.0 * 10 / fit.EVERY, abs=10)
    assert not moments.label.any()


def test_before_a_window_is_named_there_is_nothing_to_learn_of_windows(tmp_path: Path) -> None:
    """Each set of weights is fitted where it will be used."""
    path = written(tmp_path / "day.jsonl", [*keys(1.0, 200), trace.Window(20.0, "editor", ["a"])], 40.0)
    values = fit.gather(path, windows=True).values
    assert values.shape[1] == len(weights.WITH_WINDOW)
    assert len(values) < len(fit.gather(path, windows=False).values)


def test_the_regression_finds_what_made_the_labels() -> None:
    """Bias and weights, with moments that count more than once."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20_000, 3))
    true = np.array([-1.0, 2.0, -0.5, 0.0])
    label = (rng.random(20_000) < 1 / (1 + np.exp(-(true[0] + values @ true[1:])))).astype(float)
    whole = fit.Moments(values, label, np.ones(20_000))
    assert fit.logistic([whole]) == pytest.approx(true, abs=0.1)
    twice, counted = fit.Moments(values, label, np.full(20_000, 2.0)), fit.logistic([whole, whole])
    assert fit.logistic([twice]) == pytest.approx(counted, abs=1e-6)


def test_a_file_is_judged_by_weights_that_have_not_seen_it(tmp_path: Path) -> None:
    """Whatever lies in it, the weights that judge it are the same; those of all files are not."""
    first, second, third = days.write(tmp_path / "a", 3, 31, SECONDS)
    other = days.write(tmp_path / "b", 1, 32, SECONDS)[0]
    one, two = fit.fits([first, second, third], 1), fit.fits([first, second, other], 1)
    assert one.without[third] == two.without[other]
    assert one.without[first] != two.without[first]
    assert one.of_all not in (two.of_all, *one.without.values())
    day = fit.play(first, one.without[first], windows=True)
    assert day.prompts == fit.play(first, one.of_all, windows=False).prompts > 0


def test_the_shipped_weights_are_written_as_the_fit_prints_them() -> None:
    """What it prints takes their place as it stands."""
    assert fit.module(weights.SHIPPED) in Path(weights.__file__).read_text(encoding="utf-8")


def test_it_prints_figures_by_file_and_numbers_of_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without and with windows, then the module of weights."""
    paths = days.write(tmp_path, 3, 31, SECONDS)
    assert fit.main([str(tmp_path)]) == 0
    text = capsys.readouterr().out
    figures, numbers = text[: text.index("PLAIN_BIAS")], text[text.index("PLAIN_BIAS") :]
    assert [figures.count(path.name) for path in paths].count(2) >= 2  # one of them is named as the worst, too
    found: dict[str, dict[str, float]] = {}
    exec(numbers, {}, found)
    assert list(found["PLAIN"]) == list(weights.PLAIN)
    assert list(found["WITH_WINDOW"]) == list(weights.WITH_WINDOW)


def test_what_cannot_be_fitted_is_said_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too few files, or one that is no trace."""
    (tmp_path / "bad.jsonl").write_bytes(b"hello\n")
    assert fit.main([str(tmp_path / "bad.jsonl")]) == 2
    assert "more than 2 files are needed" in capsys.readouterr().err
    assert fit.main([str(tmp_path / "bad.jsonl")] * 3) == 1
    assert "not the header of a trace" in capsys.readouterr().err
