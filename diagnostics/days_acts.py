"""What a simulated person does at the desk: each activity takes a while and moves the desk's time on."""

from collections.abc import Callable

from diagnostics.days_desk import KEYS_PER_PROMPT, LAST_KEY_TO_SEND, REPLY_TO_FIRST_KEY, Desk
from engine.telemetry.evidence import KeyKind

Act = Callable[[Desk, float], None]  # the desk, and until when

PASTED = 0.03  # share of prompts
GIVEN_UP = 0.04  # share of prompts that are begun and never sent


def _show_chat(desk: Desk, conversation: str) -> None:
    match desk.chat_in:
        case "own program":
            desk.show("assistant", conversation)
        case "browser tab":
            desk.show("browser", conversation, "chat site")
        case _:
            desk.show("editor", conversation, "chat panel")


def chat(desk: Desk, until: float) -> None:
    """Hold conversations with the model, a few turns each; now and then only read an old one."""
    while desk.now < until and not desk.over:
        conversation = desk.fresh()
        _show_chat(desk, conversation)
        if desk.rng.random() < 0.1:
            desk.now += desk.rng.uniform(20.0, 90.0)
            continue
        for turn in range(1 + int(desk.rng.expovariate(1 / 5))):
            desk.now += desk.draw(REPLY_TO_FIRST_KEY) * desk.pace
            if desk.rng.random() < GIVEN_UP:
                desk.write(desk.rng.randrange(4, 15))
                desk.now += desk.rng.uniform(5.0, 60.0)
            _compose(desk)
            finished = desk.ask()
            desk.now = finished
            if turn == 0 and desk.titles_itself:
                desk.ask_at(finished + desk.rng.uniform(0.1, 1.0), 0.8)
            if desk.rng.random() < 0.25:  # try out what the reply said, then come back
                desk.show(*desk.rng.choice((("editor", "file 1", "project"), ("browser", desk.fresh()))))
                desk.now += desk.rng.uniform(5.0, 40.0)
                _show_chat(desk, conversation)


def _compose(desk: Desk) -> None:
    """Write, paste or say a prompt, and send it."""
    chance = desk.rng.random()
    if desk.microphone and chance < desk.speaks:
        desk.speak(desk.rng.uniform(2.0, 15.0))
        desk.now += desk.rng.uniform(0.5, 2.0)
    else:
        keys = max(1, round(desk.draw(KEYS_PER_PROMPT)))
        if chance > 1 - PASTED:
            desk.press(KeyKind.PASTE)
            keys = desk.rng.randrange(0, 6)
        desk.write(keys)
        desk.now += desk.draw(LAST_KEY_TO_SEND)
    desk.press(KeyKind.ENTER)


def messages(desk: Desk, until: float) -> None:
    """Write to people: typed just like prompts, and no model answers."""
    desk.show("messenger", desk.fresh())
    while desk.now < until and not desk.over:
        if desk.rng.random() < 0.2:
            desk.show("messenger", desk.fresh())
        desk.now += desk.draw(REPLY_TO_FIRST_KEY) * desk.pace
        desk.write(max(1, round(desk.draw(KEYS_PER_PROMPT) * 0.7)))
        desk.now += desk.rng.uniform(0.1, 1.5)
        desk.press(KeyKind.ENTER)


def code(desk: Desk, until: float) -> None:
    """Write a program: lines, moves, short cuts, and pauses to think."""
    file = desk.rng.randrange(1, 6)
    desk.show("editor", f"file {file}", "project")
    while desk.now < until and not desk.over:
        for _ in range(desk.rng.randrange(1, 6)):
            desk.write(desk.rng.randrange(5, 45))
            desk.press(KeyKind.ENTER)
        for _ in range(desk.rng.randrange(0, 12)):
            desk.now += desk.rng.uniform(0.1, 0.4)
            desk.press(KeyKind.NAVIGATION)
        if desk.rng.random() < 0.2:
            desk.hold(desk.rng.choice((KeyKind.NAVIGATION, KeyKind.DELETE)), desk.rng.uniform(0.6, 3.0))
        desk.press(KeyKind.MODIFIER)
        desk.now += 0.1
        desk.press(KeyKind.SHORTCUT)
        desk.now += desk.rng.lognormvariate(2.5, 1.0)
        if desk.rng.random() < 0.25:
            desk.show("editor", f"file {desk.rng.randrange(1, 6)}", "project")


def prose(desk: Desk, until: float) -> None:
    """Write a text: long and steady, with paragraphs."""
    desk.show("writer", desk.fresh())
    while desk.now < until and not desk.over:
        desk.write(desk.rng.randrange(40, 350), slower=0.9)
        desk.press(KeyKind.ENTER)
        desk.now += desk.rng.lognormvariate(2.2, 0.9)


def browse(desk: Desk, until: float) -> None:
    """Read pages, search now and then, watch a video with a voice in it."""
    while desk.now < until and not desk.over:
        desk.show("browser", desk.fresh())
        if desk.rng.random() < 0.25:
            desk.now += desk.rng.uniform(1.0, 5.0)
            desk.write(desk.rng.randrange(6, 30))
            desk.press(KeyKind.ENTER)
        stay = desk.rng.lognormvariate(3.3, 0.9)
        if desk.rng.random() < 0.1:
            desk.sound(stay, above=desk.rng.uniform(8.0, 20.0), voice=desk.rng.choice((3.0, 70.0)))
        for _ in range(desk.rng.randrange(0, 8)):
            desk.now += stay / 8
            desk.press(KeyKind.NAVIGATION)
        desk.now += stay / 8


def meeting(desk: Desk, until: float) -> None:
    """Speak with people, and write down a little."""
    desk.show("meeting", desk.fresh())
    while desk.now < until and not desk.over:
        desk.now += desk.rng.uniform(3.0, 60.0)
        desk.speak(desk.rng.lognormvariate(2.0, 0.9))
        if desk.rng.random() < 0.15:
            desk.write(desk.rng.randrange(5, 40))


def game(desk: Desk, until: float) -> None:
    """Hold keys down, with music."""
    desk.show("game")
    desk.sound(until - desk.now, above=18.0, voice=4.0)
    while desk.now < until and not desk.over:
        desk.hold(KeyKind.TEXT, desk.rng.uniform(0.3, 4.0))
        desk.now += desk.rng.uniform(0.05, 3.0)


def away(desk: Desk, until: float) -> None:
    """Do nothing at all."""
    desk.show("lock screen")
    desk.now = max(desk.now, until)


def agent(desk: Desk, until: float) -> None:
    """Set an agent to work: a prompt of the person's, then a row of its own, while the person does other things."""
    desk.show("terminal", "agent")
    desk.now += desk.draw(REPLY_TO_FIRST_KEY)
    _compose(desk)
    moment = desk.ask()
    while moment < until and not desk.over:
        moment = desk.ask_at(moment + desk.rng.uniform(0.05, 3.0), desk.rng.uniform(2.0, 25.0))
    desk.rng.choice((browse, code, away))(desk, until)
