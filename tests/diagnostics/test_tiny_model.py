"""The random model: written once, the same each time, and a clear word where its package is missing."""

import sys
from pathlib import Path

import pytest

from diagnostics import tiny_model
from engine.errors import ZatError


@pytest.fixture(autouse=True)
def _packages(request: pytest.FixtureRequest) -> None:
    """Skip where the packages for the real server are missing."""
    request.getfixturevalue("tiny_model")


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    """And another one gives others, in the same shape."""
    files = [tmp_path / f"{number}.gguf" for number in range(3)]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        tiny_model.write(file, seed=seed)
    first, same, other = (file.read_bytes() for file in files)
    assert first == same != other
    assert len(first) == len(other)
    assert len(first) < 2_000_000
    assert sorted(tmp_path.iterdir()) == files  # no draft is left behind


def test_eight_bits_take_half_the_room(tmp_path: Path) -> None:
    """Of the same weights."""
    tiny_model.write(tmp_path / "16.gguf")
    tiny_model.write(tmp_path / "8.gguf", bits=8)
    large, small = ((tmp_path / name).stat().st_size for name in ("16.gguf", "8.gguf"))
    assert 0.5 < small / large < 0.6


def test_a_model_is_made_once(tmp_path: Path) -> None:
    """The second call finds the first one's file."""
    path = tiny_model.cached(tmp_path / "new")
    path.write_bytes(b"kept")
    assert tiny_model.cached(tmp_path / "new") == path
    assert path.read_bytes() == b"kept"


def test_the_large_size_is_as_large_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shape reaches the writer."""
    asked: dict[str, int] = {}
    monkeypatch.setattr(tiny_model, "write", lambda _, **shape: asked.update(shape))
    assert tiny_model.cached(tmp_path, "80m-q8").name == "random-80m-q8.gguf"
    assert (asked["dim"], asked["layers"], asked["bits"]) == (768, 12, 8)


def test_without_its_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In our own error."""
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ZatError, match=r"pip install 'zat-scs\[real-server\]'"):
        tiny_model.write(tmp_path / "a.gguf")
    assert list(tmp_path.iterdir()) == []
