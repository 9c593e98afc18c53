"""How long a save is expected to hold the server."""

import pytest

from engine.client.costs import FIRST, FRESH, LIMIT, UNKNOWN_TOKEN, bearable, expect, of_unfinished
from engine.client.index import Cost

NOW = 1_800_000_000.0
MIB = 1_000_000


def cost(tokens: int, megabytes: float, seconds: float, age: float = 0.0) -> Cost:
    """Return what a save took."""
    return Cost(tokens, int(megabytes * MIB), seconds, NOW - age)


def test_of_an_unknown_model_its_file_is_asked_and_of_its_disk_what_others_took() -> None:
    """Small files and old ones say nothing of a disk; without a model's file, what most models take is assumed."""
    assert expect(1000, None, [], NOW, 131_072).size == 131_072_000
    unknown = expect(1000, None, [], NOW, None)
    assert (unknown.size, unknown.seconds) == (1000 * UNKNOWN_TOKEN, 0.2)
    assert expect(1000, None, [cost(9, 200, 2.0), cost(9, 500, 1.0)], NOW, None).seconds == 2.0
    assert expect(1000, None, [cost(9, 99, 99.0), cost(9, 200, 2.0, FRESH), cost(9, 200, 0.0)], NOW, None) == unknown


@pytest.mark.parametrize(
    ("own", "tokens", "seconds"),
    [
        (cost(1000, 200, 0.1), 500, 0.05),
        (cost(1000, 200, 0.1), 2000, 0.3),  # what was not measured goes no faster than memory
        (cost(1000, 200, 2.0), 2000, 4.0),
        (cost(1000, 50, 0.3), 2000, 0.35),  # so small a file has not met the disk
        (cost(1000, 200, 9.0, FRESH), 1000, 0.2),  # it may have been busy
        (cost(1000, 200, 0.1, FRESH), 1000, 0.1),  # it was faster than that
        (cost(30, 75, 0.0), 1530, 0.3),  # most of so small a one was not its tokens
        (cost(1000, 200, 0.0), 2000, 0.2),  # the server does not say how long it took
    ],
)
def test_of_a_known_model_its_last_save_is_the_measure(own: Cost, tokens: int, seconds: float) -> None:
    """Beyond it, the disk's speed as far as it was measured."""
    assert expect(tokens, own, [], NOW, None).seconds == pytest.approx(seconds)


def test_the_first_save_of_a_model_may_take_longer() -> None:
    """It tells what the next ones take; else a long conversation would never be kept."""
    first = expect(30_000, None, [], NOW, 131_072)
    assert LIMIT < first.seconds < FIRST
    assert bearable(first, None)
    assert not bearable(first, cost(30_000, 3932, 3.9))


def test_what_did_not_end_is_reckoned_from_what_was_written() -> None:
    """Where nothing of it can be seen, it took at least the time that was waited."""
    expected = expect(1000, None, [], NOW, None)
    half = of_unfinished(1000, expected, expected.size // 2, 6.0, NOW)
    assert (half.size, half.seconds) == (expected.size, 12.0)
    assert of_unfinished(1000, expected, 2 * expected.size, 6.0, NOW).seconds == 6.0
    assert of_unfinished(1000, expected, 0, 6.0, NOW) == Cost(1000, expected.size, 6.0, NOW)
    assert expect(1000, half, [], NOW, None).seconds > LIMIT
