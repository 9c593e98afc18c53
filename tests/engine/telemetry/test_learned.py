"""The learned reading: cold start, trust after the first prompt, and its way through the founding equation."""

import pytest

from engine.config.settings import Settings
from engine.telemetry.evidence import KeyKind, KeyPress, Readings, Window
from engine.telemetry.habits import PROBABLE, Habits
from engine.telemetry.learned import CHANCES, COLD
from engine.telemetry.processor import Fusion

CHAT = Window("chat", ("talk", "chat"))
CODE = Window("editor", ("file", "project"))
TAB, MAIL = Window("browser", ("talk", "model")), Window("browser", ("inbox", "mail"))


class Desk:
    """A fusion with somebody at it."""

    def __init__(self, habits: Habits | None = None, settings: Settings | None = None) -> None:
        self.fusion = Fusion(settings or Settings(), habits)
        self.now = 0.0

    def wait(self, seconds: float, window: Window | None = None) -> float:
        """Do nothing; return P at the end."""
        for _ in range(round(seconds * 10)):
            self.now += 0.1
            fused = self.fusion.step(self.now, Readings(window=window))
        return fused.probability

    def write(self, seconds: float, window: Window | None = None) -> float:
        """Write five characters a second; return the highest P seen."""
        highest = 0.0
        for n in range(round(seconds * 10)):
            self.now += 0.1
            keys = (KeyPress(self.now, KeyKind.TEXT),) if n % 2 else ()
            highest = max(highest, self.fusion.step(self.now, Readings(keys, window=window)).probability)
        return highest

    def send(self, window: Window | None = None) -> None:
        """Press Enter; the prompt is answered after three seconds."""
        self.now += 0.1
        self.fusion.step(self.now, Readings((KeyPress(self.now, KeyKind.ENTER),), window=window))
        self.fusion.prompted(self.now + 0.05)
        self.wait(3.0, window)
        self.fusion.replied(self.now)
        self.fusion.probability = 0.0


def test_before_the_first_prompt_typing_is_enough() -> None:
    """A new user sees at once that it works, in whatever window."""
    assert Desk().write(4.0) >= 0.65
    assert Desk().write(4.0, CODE) >= 0.65


def test_disappointment_ends_the_cold_start() -> None:
    """Somebody who writes and does not prompt is left alone."""
    desk = Desk()
    for _ in range(CHANCES):
        assert desk.write(4.0, CODE) >= 0.65
        desk.fusion.disappointed()
        desk.fusion.probability = 0.0
        desk.wait(40.0, CODE)
    assert desk.write(6.0, CODE) < 0.40


def test_the_cold_start_ends_by_itself() -> None:
    """Ten minutes without a prompt say enough."""
    desk = Desk()
    desk.wait(COLD + 1.0, CODE)
    assert desk.write(6.0, CODE) < 0.40


def test_a_lock_begins_no_cold_start_anew_and_forgetting_does() -> None:
    """Ten minutes and one false alarm at most, however often the evidence is cleared."""
    disappointed, slow = Desk(), Desk()
    assert disappointed.write(4.0, CODE) >= 0.65
    disappointed.fusion.disappointed()
    slow.wait(COLD + 1.0, CODE)
    for desk in (disappointed, slow):
        desk.fusion.clear()
        assert desk.wait(40.0, CODE) == 0.0
        assert desk.write(6.0, CODE) < 0.40
        desk.now += 3600.0
        desk.wait(1.0, CODE)
        assert desk.write(6.0, CODE) < 0.40
        desk.fusion.forget()
        assert desk.write(4.0, CODE) >= 0.65


@pytest.mark.parametrize("learned", [True, False])
def test_turns_outlast_a_lock_and_not_a_gap(learned: bool) -> None:
    """A screen that is locked while a reply is read hides nothing of when it came; a night does."""
    seen = {}
    for cleared in ("not", "lock", "gap"):
        desk = Desk(settings=Settings(learned=learned))
        for _ in range(3):
            desk.write(5.0)
            desk.send()
        desk.wait(40.0 if learned else 200.0)
        if cleared == "lock":
            desk.fusion.clear()
        desk.now += 60.0 if cleared == "gap" else 0.0
        desk.wait(1.0)
        seen[cleared] = desk.write(2.0)
    assert seen["lock"] == pytest.approx(seen["not"], abs=0.1)
    assert abs(seen["gap"] - seen["not"]) > 0.2


def test_a_lock_lets_no_television_count_again() -> None:
    """It was still on behind the locked screen."""
    habits = Habits()
    habits.prompts = 1
    desk = Desk(habits)
    for _ in range(2):
        for _ in range(1200):
            desk.now += 0.1
            fused = desk.fusion.step(desk.now, Readings(db=-30.0, microphone=True, voice=0.95))
        assert fused.touched_at is None or desk.now - fused.touched_at > 30.0
        desk.fusion.clear()
    assert fused.touched_at is None


def test_before_the_first_prompt_speech_prepares_and_does_not_prolong() -> None:
    """To somebody who has keys it may be a meeting, and would keep all prepared for as long as that lasts."""
    for keyboard in (True, False):
        desk, highest = Desk(), 0.0
        for _ in range(60):
            desk.now += 0.1
            readings = Readings(keyboard=keyboard, db=-30.0, microphone=True, voice=0.95)
            fused = desk.fusion.step(desk.now, readings)
            highest = max(highest, fused.probability)
        assert highest >= 0.65
        assert fused.touched_at == desk.now
        assert fused.evidence_at == (None if keyboard else desk.now)


def test_a_pause_for_thought_is_still_evidence() -> None:
    """For as long as the score speaks for a prompt; then the user's patience begins to run."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    desk.write(5.0, CHAT)
    typed = desk.fusion.touched_at
    desk.wait(1.5, CHAT)
    assert desk.fusion.touched_at == typed
    assert desk.fusion.evidence_at > typed + 1.0
    desk.wait(20.0, CHAT)
    assert desk.fusion.evidence_at <= typed + 10.0


def test_without_windows_a_high_score_stands_for_a_known_one() -> None:
    """So that after a false alarm in the middle of a talk the next key is enough."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0)
        desk.send()
    assert not desk.fusion.fused.known_window
    desk.write(5.0)
    assert desk.fusion.fused.known_window
    desk.wait(15.0)
    assert not desk.fusion.fused.known_window


def test_it_learns_where_prompts_come_from() -> None:
    """After two prompts from a window, writing there prepares and writing elsewhere does not."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    desk.wait(30.0, CHAT)
    assert desk.write(6.0, CHAT) >= 0.65
    desk.fusion.probability = 0.0
    desk.wait(90.0, CODE)
    assert desk.write(8.0, CODE) < 0.40


def test_a_tab_that_prompts_come_from_is_told_from_another_in_the_same_browser() -> None:
    """By what came of writing in each, though one goes on where the other ended."""
    desk = Desk()
    for _ in range(4):
        for _ in range(3):
            desk.write(8.0, MAIL)
            desk.wait(30.0, MAIL)
        desk.write(3.0, MAIL)
        desk.write(5.0, TAB)
        desk.send(TAB)
    desk.wait(30.0, MAIL)
    mail, tab = (desk.fusion.habits.standing(window, desk.now) for window in (MAIL, TAB))
    assert mail.share < PROBABLE < tab.share
    assert (mail.exact, tab.exact) == (pytest.approx(0.0, abs=0.1), pytest.approx(1.0, abs=0.1))


def test_what_was_learned_outlives_a_gap() -> None:
    """Suspend clears evidence and P, not habits."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    habits = desk.fusion.habits
    desk.now += 3600.0
    assert desk.wait(0.1, CHAT) == 0.0
    assert desk.fusion.habits is habits
    assert habits.prompts == 3


def test_it_enters_through_f_c_and_the_equation_holds() -> None:
    """P = P·e^(-λ·dt) + w_key·f_c + w_aud·g_a, tick by tick, with f_c and g_a in [0, 1]."""
    desk, settings = Desk(), Settings()
    for _ in range(2):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    before = desk.fusion.probability
    decay = 2.718281828459045 ** (-settings.lambda_decay / settings.telemetry_hz)
    for n in range(40):
        desk.now += 0.1
        keys = (KeyPress(desk.now, KeyKind.TEXT),) if n % 2 else ()
        fused = desk.fusion.step(desk.now, Readings(keys, db=-60.0, microphone=True, voice=0.0, window=CHAT))
        expected = before * decay + settings.weight_key * fused.f_c + settings.weight_aud * fused.g_a
        assert fused.probability == pytest.approx(min(1.0, expected))
        before = fused.probability
    assert fused.known_window


def test_without_a_keyboard_speech_carries_it() -> None:
    """The term of a sensor that is not there is not used."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    desk.wait(5.0, CHAT)
    highest = 0.0
    for _ in range(60):
        desk.now += 0.1
        readings = Readings(keyboard=False, db=-30.0, microphone=True, voice=0.95, window=CHAT)
        fused = desk.fusion.step(desk.now, readings)
        assert fused.f_c is None
        highest = max(highest, fused.probability)
    assert highest >= 0.65


def test_what_led_to_a_prompt_does_not_prepare_the_next_one() -> None:
    """A reply comes a second after the last key or word: nothing is prepared until something new is heard."""
    desk = Desk()
    for _ in range(3):
        desk.write(5.0, CHAT)
        desk.send(CHAT)
    desk.write(5.0, CHAT)
    desk.fusion.prompted(desk.now)
    desk.wait(1.0, CHAT)
    desk.fusion.replied(desk.now)
    desk.fusion.probability = 0.0
    assert desk.wait(2.0, CHAT) < 0.40
    assert desk.write(6.0, CHAT) >= 0.65
