"""What a user reads when a configuration is refused: the key, the rule, the value found, the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from trainer.errors import ConfigError

# How pydantic names a type, and how a user does.
WORDS = {"boolean": "true or false", "integer": "a whole number", "number": "a number", "string": "a text"}


@dataclass(frozen=True)
class Bounds:
    """The legal range of a numeric key; ``None`` where a side is unbounded."""

    low: float | None
    low_open: bool
    high: float | None
    high_open: bool

    def hold(self, value: float) -> bool:
        """Whether ``value`` lies in the range."""
        above = self.low is None or value > self.low or (value == self.low and not self.low_open)
        below = self.high is None or value < self.high or (value == self.high and not self.high_open)
        return above and below

    def rule(self, name: str) -> str:
        """Returns the range as an inequality, e.g. ``0 < name <= 1``."""
        low = "" if self.low is None else f"{_number(self.low)} {'<' if self.low_open else '<='} "
        high = "" if self.high is None else f" {'<' if self.high_open else '<='} {_number(self.high)}"
        return f"{low}{name}{high}"

    def fix(self) -> str:
        """Returns what to do, e.g. ``give a value in (0, 1]``."""
        low = "(-inf" if self.low is None else f"{'(' if self.low_open else '['}{_number(self.low)}"
        high = "inf)" if self.high is None else f"{_number(self.high)}{')' if self.high_open else ']'}"
        return f"give a value in {low}, {high}"


def first_complaint(model: type[BaseModel], error: ValidationError) -> ConfigError:
    """Turns the first finding of a failed validation of ``model`` into one sentence."""
    first = error.errors()[0]
    path = [part for part in first["loc"] if isinstance(part, str)]
    key = ".".join(path) or "config"
    if first["type"] == "extra_forbidden":
        return ConfigError(key, f"unknown key; the nearest known one is {nearest_name(key, _keys_of(model))}")
    entries = "".join(f"[{part}]" for part in first["loc"] if isinstance(part, int))
    name = f"{path[-1] if path else 'config'}{entries}"
    value = first["input"]
    bounds = bounds_of(model, path)
    if first["type"].startswith(("less_than", "greater_than")) and bounds is not None:
        return ConfigError(key, f"`{bounds.rule(name)}` must hold, but got {value}; {bounds.fix()}")
    expected = first.get("ctx", {}).get("expected")
    wanted = f"be {expected}" if expected else _in_words(first["msg"])
    fix = f"; {bounds.fix()}" if bounds is not None else ""
    got = "nothing" if value is None else repr(value)
    return ConfigError(key, f"`{name}` must {wanted}, but got {got}{fix}")


def _in_words(message: str) -> str:
    rule = message.removeprefix("Input should ").split(",")[0]
    for kind, words in WORDS.items():
        rule = rule.replace(f"a valid {kind}", words)
    return rule


def bounds_of(model: type[BaseModel], path: list[str]) -> Bounds | None:
    """Reads the bounds that the annotation at ``path`` carries; None without any."""
    field: FieldInfo | None = None
    for part in path:
        field = model.model_fields.get(part)
        if field is None:
            return None
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            model = field.annotation
    if field is None:
        return None
    found: dict[str, float] = {}
    for constraint in _constraints(field):
        for side in ("gt", "ge", "lt", "le"):
            if (end := getattr(constraint, side, None)) is not None:
                found[side] = end
    low, high = found.get("gt", found.get("ge")), found.get("lt", found.get("le"))
    return Bounds(low, "gt" in found, high, "lt" in found) if found else None


def _constraints(field: FieldInfo) -> Iterator[Any]:
    """Yields the constraints of a field, also those inside an optional or a tuple."""
    yield from field.metadata
    yield from _nested_constraints(field.annotation)


def _nested_constraints(annotation: Any) -> Iterator[Any]:
    for argument in get_args(annotation):
        if isinstance(argument, FieldInfo):
            yield from argument.metadata
        else:
            yield from _nested_constraints(argument)


def _keys_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        keys.append(f"{prefix}{name}")
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys += _keys_of(annotation, f"{prefix}{name}.")
    return keys


def nearest_name(typed: str, names: Sequence[str]) -> str:
    """Returns the name whose initials ``typed`` is (lr: learning_rate), else the one spelt most like it."""
    for name in names:
        if "_" in name and "".join(word[:1] for word in name.split("_")) == typed:
            return name
    return difflib.get_close_matches(typed, names, n=1, cutoff=0.0)[0]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
