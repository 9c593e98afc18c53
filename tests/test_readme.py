"""The README says what the program does."""

from pathlib import Path

from engine.config import table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"


def test_the_table_of_settings_is_the_declared_one() -> None:
    """Between the two marks stands what `zat-scs settings --markdown` prints."""
    text = README.read_text("utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1), f"README.md needs {BEGIN} and {END}, once each"
    between = text.partition(BEGIN)[2].partition(END)[0]
    assert between.strip() == table.markdown().strip()
