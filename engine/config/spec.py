"""One setting as declared: what it may be, how it is read, shown and refused. No I/O."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from engine.config import address
from engine.errors import SettingsError

_KIND_IN_WORDS = {int: "whole number", float: "number"}
Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Spec:
    """One setting as declared. `live`: a change applies at once; else the share is given back first, then reopened."""

    name: str
    kind: type[Value]
    default: Value
    title: str
    help: str
    group: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    address: bool = False  # host and port must be able to exist, which no pattern tells
    allowed_text: str = ""
    secret: bool = False
    live: bool = True
    hint: str = ""  # what could be offered beside a field: "process" running programs, "server" a test of the address

    @property
    def attribute(self) -> str:
        """Name of the field of Settings."""
        return self.name.lower()

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        if self.kind is bool:
            return "on or off"
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind in (int, float):
            unit = f" {self.unit}" if self.unit else ""
            return f"a {_KIND_IN_WORDS[self.kind]} from {self.low:g} to {self.high:g}{unit}"
        return self.allowed_text or "text"

    def show(self, value: Value) -> str:
        """Write a value as people and `--set` write it; a secret stays unseen."""
        if self.secret:
            return "(set)" if value else ""
        if isinstance(value, bool):
            return "on" if value else "off"
        return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)  # repr loses no digit

    def toml(self, value: Value) -> str:
        """Write a value as it stands in the file."""
        if isinstance(value, bool):
            return str(value).lower()
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else self.show(value)

    def refuse(self, value: object) -> SettingsError:
        """Build the error for a value that is not allowed; it names setting, value and what is allowed."""
        shown = "(not shown)" if self.secret else re.sub("//.*@", "//(not shown)@", repr(value))
        in_file = " (in settings.toml: true or false)" if self.kind is bool else ""
        return SettingsError(f"{self.name} = {shown:.200} is not allowed: expected {self.allowed}{in_file}")

    def check(self, value: object) -> Value:
        """Return a typed value (from TOML or a field) in its own type, or raise SettingsError."""
        if self.kind is float and type(value) is int and abs(value) < 2**53:  # beyond it a float would differ
            value = float(value)
        if self.name == "SLOT_ID" and type(value) is int:  # written bare in TOML
            value = str(value)
        if self.kind is bool and isinstance(value, str):  # "on": as it is written everywhere but in TOML
            return self.parse(value)
        if type(value) is not self.kind:
            raise self.refuse(value)
        if isinstance(value, str):
            fits = value in self.choices if self.choices else not self.pattern or re.fullmatch(self.pattern, value)
            if not fits or (self.address and not address.can_exist(value)):
                raise self.refuse(value)
        elif self.low is not None and self.high is not None and not self.low <= value <= self.high:  # nan is refused
            raise self.refuse(value)
        return value

    def parse(self, text: str) -> Value:
        """Read a value as the environment and `--set` write it, or raise SettingsError."""
        if self.kind is str:
            return self.check(text)
        if self.kind is bool:
            answer = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}.get(text.lower())
            if answer is None:
                raise self.refuse(text)
            return answer
        # At most 18 digits: Python raises an error of its own for whole numbers of thousands of them.
        number = r"-?[0-9]{1,18}" if self.kind is int else r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
        if not re.fullmatch(number, text):
            raise self.refuse(text)
        return self.check(self.kind(text))


def tunable(
    default: Value,
    title: str,
    help: str,  # noqa: A002 - the domain's word, and only here
    group: str,
    **more: Any,
) -> Any:
    """Declare one field of Settings; `more` are further fields of Spec."""
    seen = not more.get("secret", False)  # a secret must not reach a log by way of repr(settings)
    return field(default=default, repr=seen, metadata={"spec": {"title": title, "help": help, "group": group, **more}})
