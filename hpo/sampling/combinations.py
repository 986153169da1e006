"""Refusing a search space whose values are legal each, and illegal together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hpo.sampling.suggestions import Value
from trainer.config import COUPLED_KEYS, Choice, Parameter, SearchSpace, TrainerConfig, When, locate
from trainer.errors import ConfigError

if TYPE_CHECKING:
    from trainer.data.market_data import MarketData

LANE = "environment.episode_length"


def require_legal_combinations(space: SearchSpace, trainer: TrainerConfig) -> None:
    """Refuses a space from which a trial could draw values that break a rule between keys.

    Such a trial would FAIL the moment it starts, and a search that draws ten of them in a row ends. Every
    rule between keys is monotone in each of them, so that it holds in a whole range if it holds at its ends.

    Args:
        space: Each of its values is legal by itself.
        trainer: The configuration that trials start from.

    Raises:
        ConfigError: Naming the key, the rule, the values and the space.
    """
    for group in COUPLED_KEYS:
        for chosen in _extremes(space, group):
            try:
                trainer.with_overrides(chosen)
            except ConfigError as error:
                reason = str(error).removeprefix(f"{error.key}: ")
                raise ConfigError(error.key, _in_space(reason, space, chosen)) from None


def require_room_for_lanes(space: SearchSpace, trainer: TrainerConfig, market: MarketData) -> None:
    """Refuses an episode that fits no training window: every trial with it would fail.

    Raises:
        ConfigError: Naming ``environment.episode_length`` and the window, or a test window without a return.
    """
    from trainer.data.market_data import MarketData
    from trainer.folds import split
    from trainer.market_tables import require_windows

    if isinstance(market, MarketData):
        parts = split(len(market.bars), trainer.walk_forward)
        require_windows(parts.folds, longest_lane(space, trainer))


def longest_lane(space: SearchSpace, trainer: TrainerConfig) -> int:
    """Returns the largest ``environment.episode_length`` that a trial may have."""
    lengths = []
    for chosen in _extremes(space, (LANE,)):
        found = [value for name, value in chosen.items() if ".".join(locate(name)) == LANE]
        lengths.append(int(str(found[0])) if found else trainer.environment.episode_length)
    return max(lengths)


def _in_space(reason: str, space: SearchSpace, chosen: dict[str, Value]) -> str:
    if not chosen:
        return reason
    values = ", ".join(f"{name} = {value}" for name, value in chosen.items())
    return f"{reason}, or narrow search space {space.name!r}, which allows {values}"


def _extremes(space: SearchSpace, keys: Sequence[str]) -> Iterator[dict[str, Value]]:
    """Yields what a trial may draw for ``keys`` at the ends of the ranges, and for what conditions name."""
    wanted = {parameter.name for parameter in space.parameters if ".".join(locate(parameter.name)) in keys}
    for parameter in reversed(space.parameters):
        if parameter.name in wanted and parameter.when is not None:
            wanted.add(parameter.when.name)
    asked = [parameter for parameter in space.parameters if parameter.name in wanted]
    conditions = [parameter.when for parameter in asked if parameter.when is not None]
    yield from _assignments(asked, conditions, {})


def _assignments(
    left: Sequence[Parameter], conditions: Sequence[When], chosen: dict[str, Value]
) -> Iterator[dict[str, Value]]:
    if not left:
        yield chosen
        return
    parameter, rest = left[0], left[1:]
    if parameter.when is not None and not parameter.when.holds(chosen):
        yield from _assignments(rest, conditions, chosen)
        return
    for value in _ends(parameter, conditions):
        yield from _assignments(rest, conditions, {**chosen, parameter.name: value})


def _ends(parameter: Parameter, conditions: Sequence[When]) -> tuple[Value, ...]:
    """The ends of a range, and the values inside it at which conditions begin to hold or cease to."""
    if isinstance(parameter, Choice):
        return parameter.values
    ends: list[Value] = [parameter.low, parameter.high]
    for condition in conditions:
        if condition.name == parameter.name:
            border = condition.above if condition.above is not None else condition.equals
            if parameter.low < border < parameter.high:
                ends.append(border)
    return tuple(ends)
