"""Prints the law of the machine as the table that ARCHITECTURE.md shows."""

from engine.events import Effect, SetShare
from engine.orchestration.fsm import IGNORED, LAW


def law_as_markdown() -> str:
    """Print the law as the table that ARCHITECTURE.md shows."""
    lines = ["| from | event | when | to | effects | why |", "| --- | --- | --- | --- | --- | --- |"]
    for rule in LAW:
        effects = ", ".join(_words(effect) for effect in rule.effects)
        books = f" ({rule.books.value})" if rule.books else ""
        target = rule.target.value if rule.why else "stays"
        why = f"{rule.why.value}{books}" if rule.why else ""
        row = (rule.source.value, _event_words(rule.event), rule.guard.words, target, effects, why)
        lines.append("| " + " | ".join(row) + " |")
    for state, events in IGNORED.items():
        names = ", ".join(sorted(_event_words(event) for event in events))
        lines.append(f"| {state.value} | else: {names} | | stays | | |")
    return "\n".join(lines) + "\n"


def _words(effect: Effect) -> str:
    name = _event_words(type(effect))
    if not isinstance(effect, SetShare):
        return name
    return f"{name} {effect.percent}{' after LINGER' if effect.linger else ''}"


def _event_words(kind: type) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind.__name__).strip()
