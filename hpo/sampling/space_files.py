"""Finding a search space: a packaged one by name, a user's own in a Python or a TOML file.

A Python file defines ``SPACE = SearchSpace(...)``. A TOML file has one table per parameter::

    [iql_expectile_tau]
    low = 0.6
    high = 0.9

    [learning_rate]
    low = 1e-4
    high = 1e-3
    log = true

    [her_ratio]
    low = 0.0
    high = 0.4
    step = 0.1

    [her_strategy]
    choices = ["future", "final"]
    when = { her_ratio = { above = 0.0 } }
"""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpo.effective_config import read_toml
from hpo.study.definition import RUNTIME_KEYS
from trainer.config import Choice, Float, Int, Parameter, SearchSpace, TrainerConfig, When, locate, validated
from trainer.errors import ConfigError, FoxtuneError

RANGE_KEYS = {"low", "high", "step", "log", "when"}
CHOICE_KEYS = {"choices", "when"}
# What is measured, and at which cost: trials that differ in these do not compare, and the cheapest wins.
YARDSTICK_SECTIONS = {"data", "walk_forward", "metrics"}
YARDSTICK_KEYS = {"fill", "fee_bp", "half_spread_bp", "slippage_bp", "impact", "participation"}
LUCK_KEYS = {"seed", "seeds"}
INSIDE = 0.381966  # a share of a range at which a value is hardly ever whole


def load_space(name: str, packaged: Mapping[str, SearchSpace]) -> SearchSpace:
    """Finds a search space and checks every bound against the configuration's own limits.

    Args:
        name: A packaged space's name, or a path ending in .py or .toml.
        packaged: The packaged spaces by name.

    Raises:
        ConfigError: For an unknown name, an unreadable file, an unknown parameter (naming the nearest
            known one), or a bound that the configuration would refuse.
    """
    if name in packaged:
        space = packaged[name]
    elif name.endswith(".py"):
        space = _from_python(Path(name))
    elif name.endswith(".toml"):
        space = from_tables(Path(name).stem, read_toml(Path(name)))
    else:
        raise ConfigError(
            "space",
            f"must be one of {', '.join(packaged)} or a path to a .py or .toml file, but got {name!r}",
        )
    check_bounds(space)
    return space


def from_tables(name: str, tables: Mapping[str, Any]) -> SearchSpace:
    """Builds a space from a TOML document, one table per parameter, sections (``[agent.gamma]``) allowed.

    Raises:
        ConfigError: Naming the parameter and what is wrong with its table.
    """
    parameters = tuple(_parameter(key, table) for key, table in _parameter_tables(tables))
    if not parameters:
        raise ConfigError("space", f"needs at least one [parameter] table, but {name}.toml has none")
    return SearchSpace(name, parameters)


def check_bounds(space: SearchSpace) -> None:
    """Refuses what would break or cheat in the middle of a search: illegal values, and a moving yardstick.

    Raises:
        ConfigError: Naming the key, its rule and the value.
    """
    for parameter in space.parameters:
        section, key = locate(parameter.name)
        if (effect := _unsearchable(section, key)) is not None:
            raise ConfigError(
                f"{section}.{key}",
                f"decides {effect}; set it for the whole search "
                f"and take it out of search space {space.name!r}",
            )
        values: tuple[Any, ...]
        if isinstance(parameter, Choice):
            values = parameter.values
        else:
            values = (parameter.low, parameter.high)
            if isinstance(parameter, Float) and parameter.step is None and parameter.low < parameter.high:
                values += (parameter.low + INSIDE * (parameter.high - parameter.low),)
        model = type(TrainerConfig.model_fields[section].default)
        for value in values:
            try:
                validated(model, {key: value})
            except ConfigError as error:
                reason = str(error).removeprefix(f"{error.key}: ")
                raise ConfigError(f"{section}.{key}", f"{reason} in search space {space.name!r}") from None


def _unsearchable(section: str, key: str) -> str | None:
    """What a key decides that no search may vary; ``None`` for a key that may be searched."""
    if section in YARDSTICK_SECTIONS or key in YARDSTICK_KEYS:
        return "what is measured, so that trials would not compare"
    if key in LUCK_KEYS:
        return "which random numbers a trial is trained with, so that the search would look for luck"
    if f"{section}.{key}" in RUNTIME_KEYS:
        return "where and how fast a training runs, not what it learns"
    return None


def _from_python(path: Path) -> SearchSpace:
    if not path.is_file():
        raise ConfigError(str(path), "cannot be read (no such file); check the path")
    try:
        names = runpy.run_path(str(path))
    except FoxtuneError:
        raise
    except SystemExit as error:
        raise ConfigError(
            str(path), f"ends the program (exit code {error.code}); take that out of the file"
        ) from error
    except Exception as error:
        # Any exception may come out of a user's file; with --debug the chain shows its own traceback.
        raise ConfigError(str(path), f"raised {type(error).__name__} ({error}); mend the file") from error
    space = names.get("SPACE")
    if not isinstance(space, SearchSpace):
        raise ConfigError(
            str(path), f"must define SPACE = SearchSpace(...), but SPACE is {type(space).__name__}"
        )
    return space


def _parameter_tables(tables: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    found: list[tuple[str, Mapping[str, Any]]] = []
    for key, table in tables.items():
        name = f"{prefix}{key}"
        if not isinstance(table, dict):
            raise ConfigError(name, f"must be a table with low and high, or with choices, but got {table!r}")
        is_section = key in TrainerConfig.model_fields and not (RANGE_KEYS | CHOICE_KEYS) & set(table)
        found += _parameter_tables(table, f"{name}.") if is_section else [(name, table)]
    return found


def _parameter(name: str, table: Mapping[str, Any]) -> Parameter:
    section, key = locate(name)
    legal = CHOICE_KEYS if "choices" in table else RANGE_KEYS
    unknown = sorted(set(table) - legal)
    if unknown:
        raise ConfigError(name, f"may have the keys {', '.join(sorted(legal))}, but got {unknown[0]!r}")
    when = _condition(name, table.get("when"))
    if "choices" in table:
        if not isinstance(table["choices"], list):
            raise ConfigError(name, f"choices must be a list, but got {table['choices']!r}")
        return Choice(name, tuple(table["choices"]), when)
    low, high, step = (_number(name, edge, table) for edge in ("low", "high", "step"))
    if low is None or high is None:
        raise ConfigError(
            name, f"needs low and high, or choices, but has only {', '.join(table) or 'nothing'}"
        )
    log = table.get("log", False)
    if not isinstance(log, bool):
        raise ConfigError(name, f"log must be true or false, but got {log!r}")
    default = TrainerConfig().get(f"{section}.{key}")
    if isinstance(low, int) and isinstance(high, int) and not isinstance(default, float):
        if step is not None and step != int(step):
            raise ConfigError(name, f"step must be a whole number, but got {step}")
        return Int(name, low, high, 1 if step is None else int(step), log, when)
    return Float(name, float(low), float(high), None if step is None else float(step), log, when)


def _number(name: str, edge: str, table: Mapping[str, Any]) -> int | float | None:
    value = table.get(edge)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(name, f"{edge} must be a number, but got {value!r}")
    return value


def _condition(name: str, when: Any) -> When | None:
    if when is None:
        return None
    shape = "when must look like { her_ratio = { above = 0.0 } } or { use_iql = { equals = true } }"
    if not isinstance(when, dict) or len(when) != 1:
        raise ConfigError(name, f"{shape}, but got {when!r}")
    ((other, test),) = when.items()
    if not isinstance(test, dict) or len(test) != 1 or next(iter(test)) not in ("above", "equals"):
        raise ConfigError(name, f"{shape}, but got {when!r}")
    return When(other, above=test.get("above"), equals=test.get("equals"))
