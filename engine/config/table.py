"""All settings as people read them: the README's table, and the list of `zat-scs settings`. No I/O."""

from itertools import groupby

from engine.config.settings import specs
from engine.config.spec import Spec
from engine.config.store import Loaded

_HEAD = "| name | default | allowed | what it does |\n|---|---|---|---|"


def markdown() -> str:
    """Return one table per group, each under its name; ends with a line end."""
    groups = groupby(specs(), key=lambda spec: spec.group)
    return "\n".join(f"**{name}**\n\n{_HEAD}\n{''.join(map(_line, members))}" for name, members in groups)


def rows(loaded: Loaded) -> list[str]:
    """Return "NAME = value  # source" for every setting, as lines of the file; a secret shows only that it is set."""
    return [_row(spec, loaded) for spec in specs()]


def _row(spec: Spec, loaded: Loaded) -> str:
    value, source = getattr(loaded.settings, spec.attribute), loaded.sources.get(spec.name, "default")
    if spec.secret and value:  # a whole comment: what is shown in its place must not be taken for it
        return f"# {spec.name} = {spec.show(value)}  # {source}"
    return f"{spec.name} = {spec.toml(value)}  # {source}"


def _line(spec: Spec) -> str:
    default = spec.show(spec.default)
    shown = f"`{default}`" if default else "(empty)"
    cells = (f"`{spec.name}`", shown, spec.allowed, spec.help)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n"
