"""What a Folding@home client says of itself: a snapshot first, then single changes to it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEPT = ("groups", "units", "config")  # of all it says
_OF_CONFIG = ("paused", "finish", "gpus")  # and not the passkey beside them
MALFORMED = (AttributeError, IndexError, KeyError, TypeError, ValueError)  # what nonsense leads to here


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of work. `pid`: of the process that computes it, None while there is none; `progress`: 0 to 1."""

    id: str
    state: str
    reason: str  # why it does not run, "" if it may
    pid: int | None
    progress: float

    @property
    def working(self) -> bool:
        """It has the card, or is about to take it."""
        return self.pid is not None or (self.state in ("CORE", "RUN") and not self.reason)


@dataclass(frozen=True, slots=True)
class Group:
    """One resource group: what is paused and folds together. `failed`: why the client paused it by itself."""

    name: str
    paused: bool
    finish: bool
    failed: str
    on_card: bool  # a GPU is enabled in it, or one of its units has one
    units: tuple[Unit, ...]

    @property
    def working(self) -> bool:
        """It is not paused, and a unit of it has the card or is about to take it."""
        return not self.paused and any(unit.working for unit in self.units)


class FoldingState:
    """The client's state as of its last word. What is not understood raises one of MALFORMED."""

    def __init__(self, snapshot: Any) -> None:
        if not isinstance(snapshot, dict):
            raise TypeError
        self._tree: dict[str, Any] = {key: snapshot[key] for key in _KEPT if key in snapshot}
        config = snapshot.get("config") or {}
        self._tree["config"] = {key: config[key] for key in _OF_CONFIG if key in config}
        self.of_old = not isinstance(self._tree.get("groups"), dict)  # 8.1 and 8.2 know no groups

    def take(self, message: Any) -> None:
        """Take in one change; what is of no use here, such as lines of the log and "ping", is passed over."""
        if not isinstance(message, list) or len(message) < 3 or message[0] not in _KEPT:
            return
        if message[0] != "config" or message[1] in _OF_CONFIG:
            _update(self._tree, message)

    def groups(self) -> dict[str, Group]:
        """Return all groups by name; the default one has the name ""."""
        if self.of_old:
            return {"": _group("", self._tree, self._units(None))}
        return {name: _group(name, of, self._units(name)) for name, of in self._tree["groups"].items()}

    def _units(self, group: str | None) -> list[Mapping[str, Any]]:
        units: list[Mapping[str, Any]] = self._tree.get("units") or []
        return [unit for unit in units if group is None or unit.get("group", "") == group]


def _group(name: str, of: Mapping[str, Any], units: list[Mapping[str, Any]]) -> Group:
    config = of["config"]
    enabled = any(gpu.get("enabled") for gpu in (config.get("gpus") or {}).values() if isinstance(gpu, dict))
    return Group(
        name,
        bool(config.get("paused")),
        bool(config.get("finish")),
        str(of.get("failed") or ""),
        enabled or any(unit.get("gpus") for unit in units),
        tuple(_unit(unit) for unit in units),
    )


def _unit(of: Mapping[str, Any]) -> Unit:
    reason = str(of.get("pause_reason") or "") or ("paused" if of.get("paused") else "")
    progress = float(of.get("wu_progress") or 0.0)
    return Unit(str(of.get("id", "")), str(of.get("state", "")), reason, int(of.get("pid") or 0) or None, progress)


def _update(state: dict[str, Any], update: list[Any]) -> None:
    """Apply one change: a path of keys, then the value. null deletes, the index -1 appends, -2 appends several."""
    *path, last, value = update
    at: Any = state
    for key, following in zip(path, [*path[1:], last], strict=True):
        at = _step(at, key, following)
    if isinstance(at, list):
        _change_list(at, last, value)
    elif value is None:
        at.pop(last, None)
    else:
        at[last] = value


def _step(at: Any, key: Any, following: Any) -> Any:
    """Go down by one key, making what is missing."""
    fresh: Any = [] if isinstance(following, int) else {}
    if isinstance(at, list):
        if key == len(at):
            at.append(fresh)
        return at[key]
    if at.get(key) is None:
        at[key] = fresh
    return at[key]


def _change_list(at: list[Any], index: Any, value: Any) -> None:
    if index == -1:
        at.append(value)
    elif index == -2:
        at.extend(value)
    elif not 0 <= index <= len(at):
        raise IndexError
    elif value is None:
        del at[index]
    elif index == len(at):
        at.append(value)
    else:
        at[index] = value
