"""What a search space is made of: typed ranges of configuration keys, some under a condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from trainer.config.trainer_config import locate
from trainer.errors import ConfigError


@dataclass(frozen=True)
class When:
    """A condition on a parameter that stands earlier in the same space.

    Attributes:
        name: The earlier parameter.
        above: The condition holds where the earlier value is strictly greater than this.
        equals: The condition holds where the earlier value equals this.
    """

    name: str
    above: float | None = None
    equals: Any = None

    def __post_init__(self) -> None:
        if (self.above is None) == (self.equals is None):
            raise ConfigError(
                self.name,
                "a condition needs one of above and equals, "
                f"but got (above={self.above}, equals={self.equals})",
            )
        if self.above is not None and not _is_number(self.above):
            raise ConfigError(self.name, f"a condition's above must be a number, but got {self.above!r}")

    def holds(self, chosen: Mapping[str, Any]) -> bool:
        """Whether the condition holds for the values chosen so far."""
        if self.name not in chosen:
            return False
        value = chosen[self.name]
        if self.above is not None:
            return bool(value > self.above)
        return bool(value == self.equals)


@dataclass(frozen=True)
class Float:
    """A real-valued range [low, high]; ``step`` makes it a grid, ``log`` searches its logarithm."""

    name: str
    low: float
    high: float
    step: float | None = None
    log: bool = False
    when: When | None = None

    def __post_init__(self) -> None:
        _check_range(self.name, self.low, self.high, self.log)
        if self.step is not None and (self.log or self.step <= 0):
            raise ConfigError(
                self.name, f"`step > 0 and not log` must hold, but got (step={self.step}, log={self.log})"
            )
        _check_grid(self.name, self.low, self.high, self.step)


@dataclass(frozen=True)
class Int:
    """An integer range [low, high], both ends included."""

    name: str
    low: int
    high: int
    step: int = 1
    log: bool = False
    when: When | None = None

    def __post_init__(self) -> None:
        _check_range(self.name, self.low, self.high, self.log)
        for edge, value in (("low", self.low), ("high", self.high), ("step", self.step)):
            if value != int(value):
                raise ConfigError(self.name, f"{edge} must be a whole number, but got {value}")
        if self.step < 1 or (self.log and self.step != 1):
            raise ConfigError(
                self.name,
                f"`step >= 1, and 1 with log` must hold, but got (step={self.step}, log={self.log})",
            )
        _check_grid(self.name, self.low, self.high, self.step)


@dataclass(frozen=True)
class Choice:
    """A finite set of values without an order."""

    name: str
    values: tuple[str | int | float | bool | None, ...]
    when: When | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ConfigError(self.name, "a choice needs at least one value, but got ()")
        for value in self.values:
            if not isinstance(value, str | int | float | bool | None):
                raise ConfigError(
                    self.name, f"choices must be words, numbers or truth values, but got {value!r}"
                )
        if len(set(self.values)) < len(self.values):
            raise ConfigError(self.name, f"choices must differ, but got {self.values}")


Parameter = Float | Int | Choice


@dataclass(frozen=True)
class SearchSpace:
    """A named tuple of parameters.

    Raises:
        ConfigError: For an unknown key (naming the nearest known one), a parameter listed twice,
            or a condition on a parameter that does not stand earlier.
    """

    name: str
    parameters: tuple[Parameter, ...]
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError("space", f"a search space's name must be a text, but got {self.name!r}")
        if not self.parameters:
            raise ConfigError(
                "space", f"needs at least one parameter, but search space {self.name!r} has none"
            )
        for parameter in self.parameters:
            if not isinstance(parameter, get_args(Parameter)):
                raise ConfigError(
                    "space",
                    f"search space {self.name!r} may hold Float, Int and Choice only, but got {parameter!r}",
                )
        seen: dict[str, Parameter] = {}
        keys: set[tuple[str, str]] = set()
        for parameter in self.parameters:
            key = locate(parameter.name)
            if key in keys:
                raise ConfigError(parameter.name, f"stands twice in search space {self.name!r}")
            if parameter.when is not None:
                _check_condition(parameter.name, parameter.when, seen, self.name)
            seen[parameter.name] = parameter
            keys.add(key)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_range(name: str, low: float, high: float, log: bool) -> None:
    if not (_is_number(low) and _is_number(high)):
        raise ConfigError(name, f"low and high must be numbers, but got ({low=}, {high=})")
    if not low <= high:
        raise ConfigError(name, f"`low <= high` must hold, but got ({low=}, {high=})")
    if log and low <= 0:
        raise ConfigError(name, f"`low > 0` must hold on a logarithmic range, but got ({low=})")


def _check_grid(name: str, low: float, high: float, step: float | None) -> None:
    steps = 0.0 if step is None else (high - low) / step
    if abs(steps - round(steps)) > 1e-9 * max(1.0, steps):
        raise ConfigError(
            name, f"`high - low` must be a whole number of steps, but got ({low=}, {high=}, {step=})"
        )


def _check_condition(name: str, when: When, earlier: Mapping[str, Parameter], space: str) -> None:
    if when.name not in earlier:
        raise ConfigError(
            name, f"its condition names {when.name!r}, which must stand earlier in search space {space!r}"
        )
    other = earlier[when.name]
    words = isinstance(other, Choice) and not all(isinstance(value, int | float) for value in other.values)
    if when.above is not None and words:
        raise ConfigError(
            name,
            f"its condition asks {when.name!r} to be above {when.above:g}, but that holds words; use equals",
        )
    if not _may_hold(when, other):
        asked = f"above {when.above:g}" if when.above is not None else f"equal to {when.equals!r}"
        raise ConfigError(
            name, f"its condition asks {when.name!r} to be {asked}, which it never is; mend one of the two"
        )


def _may_hold(when: When, other: Parameter) -> bool:
    """Whether some value of ``other`` meets the condition."""
    if isinstance(other, Choice):
        return any(when.holds({other.name: value}) for value in other.values)
    if when.above is not None:
        return bool(other.high > when.above)
    return _is_number(when.equals) and bool(other.low <= when.equals <= other.high)
