"""The first start: what is asked, what is preselected, and what comes of the answer."""

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication, QDialog, QLabel
from pytestqt.qtbot import QtBot

from app import consent
from app.first_run import FirstRun
from engine.config import store
from engine.config.settings import Settings
from engine.config.spec import Value


def dialog_of(qtbot: QtBot, **sources: str) -> FirstRun:
    """Open the dialog, with settings from these variables."""
    environ = {f"ZAT_SCS_{name}": value for name, value in sources.items()}
    dialog = FirstRun(store.load(environ=environ))
    qtbot.addWidget(dialog)
    dialog.show()
    return dialog


def texts_of(dialog: FirstRun) -> str:
    """Return all that can be read, without its marks."""
    return re.sub("<[^>]*>", " ", " ".join(label.text() for label in dialog.findChildren(QLabel)))


def test_it_says_what_is_sensed_and_what_never_is(qtbot: QtBot) -> None:
    """All that is kept, and what never is; contexts hold conversations; nothing leaves the machine."""
    text = texts_of(dialog_of(qtbot))
    sensed = (
        "when keys are pressed",
        "of which kind",
        "how loud",
        "whether it is a voice",
        "which program is in front",
    )
    for words in (*sensed, "its title as a hash", "which keys they are", "what is said", "what a title says"):
        assert words in text
    for words in ("prompts come", "conversations", "Nothing leaves this machine"):
        assert words in text


@pytest.fixture
def type_size() -> Iterator[Callable[[float], None]]:
    """Return what gives the desktop a type of so many points."""
    before = QApplication.font()

    def give(points: float) -> None:
        font = QFont(before)
        font.setPointSizeF(points)
        QApplication.setFont(font)

    yield give
    QApplication.setFont(before)


@pytest.mark.parametrize(
    ("screen", "points", "scrolls"),
    [(QSize(911, 512), 9, False), (QSize(911, 512), 20, True), (QSize(1920, 1080), 20, False)],
)
def test_no_part_of_the_text_is_out_of_reach(
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
    type_size: Callable[[float], None],
    *,
    screen: QSize,
    points: float,
    scrolls: bool,
) -> None:
    """It is scrolled where a screen is too small for it, and only there; the questions stay in sight."""
    type_size(points)
    monkeypatch.setattr(FirstRun, "screen", lambda _: SimpleNamespace(availableSize=lambda: screen))
    dialog = dialog_of(qtbot)
    assert dialog.size().boundedTo(screen) == dialog.size()
    below = dialog._reading.verticalScrollBar().maximum()
    assert (below > 0) is scrolls
    assert below + dialog._reading.height() >= dialog._reading.needs()
    for asked in (*dialog.choices.values(), dialog.start):
        assert asked.visibleRegion().boundingRect() == asked.rect()


def test_the_microphone_is_not_preselected(qtbot: QtBot) -> None:
    """Keyboard and contexts are, and nothing is written before an answer."""
    dialog = dialog_of(qtbot)
    assert {name: box.isChecked() for name, box in dialog.choices.items()} == {
        "KEYBOARD": True,
        "MICROPHONE": False,
        "KEEP_CONTEXT": True,
    }
    assert not consent.answered()
    assert not store.config_file().exists()


def test_the_answer_is_written_down(qtbot: QtBot) -> None:
    """As settings of the user, and as a mark that the questions were answered."""
    dialog = dialog_of(qtbot)
    chosen: list[dict[str, Value]] = []
    dialog.answered.connect(chosen.append)
    dialog.choices["KEEP_CONTEXT"].setChecked(False)
    qtbot.mouseClick(dialog.start, Qt.MouseButton.LeftButton)
    assert chosen == [{"KEYBOARD": True, "MICROPHONE": False, "KEEP_CONTEXT": False}]
    assert consent.answered()
    settings = store.load(environ={}).settings
    assert (settings.keyboard, settings.microphone, settings.keep_context) == (True, False, False)


@pytest.mark.parametrize("key", [Qt.Key.Key_Escape, None], ids=["escape", "not now"])
def test_no_answer_is_no_consent(qtbot: QtBot, key: Qt.Key | None) -> None:
    """It closes, and will be asked again."""
    dialog = dialog_of(qtbot)
    if key is None:
        qtbot.mouseClick(dialog.later, Qt.MouseButton.LeftButton)
    else:
        qtbot.keyClick(dialog, key)
    assert dialog.result() == QDialog.DialogCode.Rejected
    assert not dialog.isVisible()
    assert not consent.answered()


def test_what_is_set_from_outside_is_shown_and_locked(qtbot: QtBot) -> None:
    """Its box cannot be changed, and it is not written into the file."""
    dialog = dialog_of(qtbot, MICROPHONE="on", KEYBOARD="off")
    assert dialog.choices["MICROPHONE"].isChecked()
    assert not dialog.choices["KEYBOARD"].isChecked()
    assert not dialog.choices["KEYBOARD"].isEnabled()
    dialog.accept()
    assert store.load(environ={}).settings == Settings()


def test_what_the_user_wrote_into_the_file_is_preselected(qtbot: QtBot) -> None:
    """Somebody who wrote a file has thought about it."""
    store.save(store.config_file(), {"KEYBOARD": False})
    assert not dialog_of(qtbot).choices["KEYBOARD"].isChecked()


def test_an_answer_that_cannot_be_written_is_no_answer(qtbot: QtBot) -> None:
    """The reason is shown, and the dialog stays."""
    store.config_file().parent.mkdir(parents=True)
    store.config_file().write_text("this is = = no TOML\n", "utf-8")
    dialog = dialog_of(qtbot)
    dialog.accept()
    assert dialog.isVisible()
    assert "could not be written down" in texts_of(dialog)
    assert not consent.answered()


def test_it_is_usable_by_keyboard(qtbot: QtBot) -> None:
    """Each choice has its own letter, Enter starts."""
    dialog = dialog_of(qtbot)
    letters = [re.findall("&(.)", box.text())[0].lower() for box in dialog.choices.values()]
    letters += [re.findall("&(.)", button.text())[0].lower() for button in (dialog.start, dialog.later)]
    assert len(set(letters)) == 5
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert consent.answered()


def test_until_it_is_answered_nothing_is_sensed_or_kept() -> None:
    """Whatever the settings say; the window in front is no exception."""
    gated = consent.gated(Settings())
    assert (gated.keyboard, gated.microphone, gated.keep_context) == (False, False, False)
    assert (gated.window_filter, gated.learned) == (False, False)
    assert gated.replace(dict.fromkeys(consent.GATED, True)) == Settings()
