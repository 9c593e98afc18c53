"""Fusion and the two readings of evidence, in virtual time."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.settings import Settings
from engine.telemetry.evidence import KeyKind, KeyPress, Readings, RuledEvidence
from engine.telemetry.processor import Fused, Fusion, loudness

TICK = 0.1


class Bench:
    """Feeds a Fusion tick by tick from lists of presses and levels."""

    def __init__(self, **settings: object) -> None:
        self.fusion = Fusion(Settings(**{"learned": False, **settings}))
        self.now = 0.0
        self.last: Fused | None = None

    def tick(self, *kinds: KeyKind, db: float | None = None, after: float = TICK) -> Fused:
        """Pass time, with presses spread over it."""
        start, self.now = self.now, self.now + after
        keys = tuple(KeyPress(start + after * (n + 1) / len(kinds), kind) for n, kind in enumerate(kinds))
        self.last = self.fusion.step(self.now, Readings(keys, db=db, microphone=db is not None))
        return self.last

    def run(self, seconds: float, *kinds: KeyKind, db: float | None = None) -> float:
        """Pass many equal ticks; return the highest P seen."""
        return max(self.tick(*kinds, db=db).probability for _ in range(round(seconds / TICK)))


def test_the_equation_with_the_fixed_decay() -> None:
    """P fades by e^(-λ·dt) a tick when nothing is heard."""
    bench = Bench()
    bench.fusion.probability = 1.0
    assert bench.tick().probability == pytest.approx(math.exp(-0.01))
    for _ in range(9):
        bench.tick()
    assert bench.last.probability == pytest.approx(math.exp(-0.1))


def test_a_late_tick_uses_the_true_time() -> None:
    """A tick of 2 s decays 2 s; one within 1.5 ticks decays one tick."""
    bench = Bench()
    bench.fusion.probability = 1.0
    bench.tick()
    assert bench.tick(after=2.0).probability == pytest.approx(math.exp(-0.01) * math.exp(-0.2))
    assert bench.tick(after=0.149).probability == pytest.approx(math.exp(-0.02) * math.exp(-0.2))


def test_a_gap_clears_evidence_and_probability() -> None:
    """After suspend nothing that was sensed before counts, nor what piled up meanwhile."""
    bench = Bench()
    bench.run(3.0, KeyKind.TEXT)
    assert bench.last.probability > 0.65
    fused = bench.tick(*[KeyKind.TEXT] * 8, after=5.1)
    assert (fused.probability, fused.f_c, fused.evidence_at) == (0.0, 0.0, None)


def test_brisk_typing_crosses_within_two_seconds_and_fades_after() -> None:
    """Five keys a second cross the threshold; silence afterwards brings P down again."""
    bench = Bench()
    for _ in range(10):
        bench.tick(KeyKind.TEXT)
        bench.tick()
    assert bench.last.probability >= 0.65
    bench.run(30.0)
    assert bench.last.probability < 0.1


@pytest.mark.parametrize(
    "kind", [KeyKind.REPEAT, KeyKind.MODIFIER, KeyKind.SHORTCUT, KeyKind.NAVIGATION], ids=lambda kind: kind.value
)
def test_held_keys_modifiers_shortcuts_and_navigation_are_no_evidence(kind: KeyKind) -> None:
    """A game with auto-repeat at 30 Hz never prepares anything."""
    bench = Bench()
    assert bench.run(60.0, kind, kind, kind) == 0.0
    assert bench.last.evidence_at is None


def test_slow_typing_counts_less_than_brisk_typing() -> None:
    """One key a second is a fraction of four a second."""
    slow, brisk = Bench(), Bench()
    for _ in range(8):
        slow.run(0.9)
        brisk.run(0.2)
        slowly, briskly = slow.tick(KeyKind.TEXT), brisk.tick(KeyKind.TEXT)
    assert slowly.f_c == pytest.approx(briskly.f_c * 0.3, rel=0.2)


def test_enter_empties_the_window() -> None:
    """What is typed after Enter is another prompt."""
    bench = Bench()
    bench.run(1.0, KeyKind.TEXT)
    assert bench.last.f_c == pytest.approx(RuledEvidence.KEY_HEIGHT)
    assert bench.tick(KeyKind.ENTER).f_c == 0.0
    assert bench.last.evidence_at == bench.now


def test_evidence_grows_stale() -> None:
    """2.5 s after the last key f_c is zero; old keys leave after ten seconds."""
    bench = Bench()
    bench.run(1.0, KeyKind.TEXT)
    bench.run(2.4)
    assert bench.last.f_c > 0
    bench.run(0.3)
    assert bench.last.f_c == 0.0


def test_steady_noise_never_prepares() -> None:
    """A fan at -45 dBFS for ten minutes: the floor follows, and the start does not cross either."""
    bench, noise = Bench(), random.Random(1)
    assert max(bench.tick(db=-45 + noise.uniform(-1.5, 1.5)).probability for _ in range(6000)) < 0.40


def test_speech_over_a_fan_prepares_and_a_monologue_goes_on_counting() -> None:
    """Two minutes of speech with its natural gaps do not lift the floor out of hearing."""
    bench, noise = Bench(), random.Random(2)

    def speech(seconds: float) -> list[float]:
        seen = []
        for n in range(round(seconds / TICK)):
            gap = n % 12 in (5, 10, 11)
            seen.append(bench.tick(db=(-50 if gap else -28) + noise.uniform(-2, 2)).probability)
        return seen

    bench.run(30.0, db=-50.0)
    assert max(speech(6.0)) >= 0.65
    speech(114.0)
    assert min(speech(5.0)) >= 0.65


def test_a_cough_does_not_prepare() -> None:
    """Four loud ticks are not a sentence."""
    bench = Bench()
    bench.run(30.0, db=-60.0)
    assert max(bench.run(0.4, db=-20.0), bench.run(2.0, db=-60.0)) < 0.40


def test_unknown_sound_is_not_silence() -> None:
    """No data makes g_a unknown; digital silence makes it zero and leaves the noise floor alone."""
    bench = Bench()
    bench.run(30.0, db=-60.0)
    assert bench.tick(db=None).g_a is None
    assert bench.tick(db=-math.inf).g_a == 0.0
    bench.run(30.0, db=-math.inf)
    bench.tick(db=-61.0)
    assert bench.last.g_a == 0.0


def test_a_missing_keyboard_drops_its_term_without_rescaling() -> None:
    """Without keys P lives from sound alone, at its own weight."""
    fusion = Fusion(Settings(evidence="seed"))
    fused = fusion.step(0.1, Readings((), keyboard=False, db=-20.0, microphone=True))
    assert fused.f_c is None
    assert fused.probability == pytest.approx(0.35 * 0.1)
    fused = fusion.step(0.2, Readings((), keyboard=False))
    assert (fused.f_c, fused.g_a, fused.sensing) == (None, None, False)


def test_seed_is_the_literal_reading() -> None:
    """Ten presses of any kind, their mean interval, never aged; the RMS as it is."""
    bench = Bench(evidence="seed")
    for _ in range(12):
        bench.tick(KeyKind.MODIFIER)
        bench.run(3.9)
    assert bench.last.f_c == pytest.approx(0.25, rel=0.01)
    bench.run(600.0)
    assert bench.last.f_c == pytest.approx(0.25, rel=0.01)
    assert bench.tick(db=-20.0).g_a == pytest.approx(0.1)


def test_changing_settings_keeps_p_and_changing_the_reading_keeps_no_old_keys() -> None:
    """A live change of a weight applies from the next tick."""
    bench = Bench()
    bench.run(1.0, KeyKind.TEXT)
    before = bench.fusion.probability
    bench.fusion.configure(Settings(learned=False, lambda_decay=0.0, weight_key=0.0))
    assert bench.tick().probability == pytest.approx(before)
    bench.fusion.configure(Settings(evidence="seed"))
    assert bench.tick().f_c == 0.0


def test_loudness_is_the_mean_of_squares() -> None:
    """Full-scale square wave is 0 dBFS, half of it -6; nothing is -inf."""
    assert loudness([1.0, 1.0]) == 0.0
    assert loudness([0.25]) == pytest.approx(-6.02, abs=0.01)
    assert loudness([0.0]) == -math.inf


READINGS = st.builds(
    lambda kinds, keyboard, db: (kinds, keyboard, db),
    st.lists(st.sampled_from(list(KeyKind)), max_size=5),
    st.booleans(),
    st.one_of(st.none(), st.just(-math.inf), st.floats(-120, 6)),
)


READING = st.sampled_from([("adaptive", True), ("adaptive", False), ("seed", False)])


@given(st.lists(st.tuples(st.floats(0, 8), READINGS), max_size=80), READING)
def test_p_and_its_terms_stay_within_bounds(steps: list, reading: tuple[str, bool]) -> None:
    """Whatever is heard, P, f_c and g_a are numbers in [0, 1]; without evidence P only falls."""
    fusion, now, before = Fusion(Settings(evidence=reading[0], learned=reading[1])), 0.0, 0.0
    for wait, (kinds, keyboard, db) in steps:
        now += wait
        keys = tuple(KeyPress(now, kind) for kind in kinds)
        fused = fusion.step(now, Readings(keys, keyboard, db, db is not None))
        for value in (fused.probability, fused.f_c, fused.g_a):
            assert value is None or 0.0 <= value <= 1.0
        if not fused.f_c and not fused.g_a:
            assert fused.probability <= before + 1e-12
        before = fused.probability
