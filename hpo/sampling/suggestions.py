"""From a search space to Optuna: suggestions and the sampler."""

from __future__ import annotations

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler

from hpo.config import SearchConfig
from hpo.sampling.grouped_sampler import GroupedSampler
from trainer.config import Choice, Float, Int, Parameter, SearchSpace, When

Value = str | int | float | bool | None


def suggest(trial: optuna.Trial, space: SearchSpace) -> dict[str, Value]:
    """Asks ``trial`` for a value of every parameter whose condition holds, in the space's order.

    Args:
        trial: Values that it already holds are returned as they are.
        space: Names are keys of ``TrainerConfig``.

    Returns:
        Name -> value, an argument for ``TrainerConfig.with_overrides``.
    """
    chosen: dict[str, Value] = {}
    for parameter in space.parameters:
        if parameter.when is None or parameter.when.holds(chosen):
            chosen[parameter.name] = _suggest_one(trial, parameter)
    return chosen


def distribution(parameter: Parameter) -> BaseDistribution:
    """Returns the Optuna distribution of a parameter."""
    if isinstance(parameter, Choice):
        return CategoricalDistribution(parameter.values)
    if isinstance(parameter, Int):
        return IntDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)
    return FloatDistribution(parameter.low, parameter.high, log=parameter.log, step=parameter.step)


def allows(space: SearchSpace, params: dict[str, Value]) -> bool:
    """Whether ``params`` could have been suggested from ``space``: conditions, ranges and grids alike."""
    chosen: dict[str, Value] = {}
    for parameter in space.parameters:
        if parameter.when is not None and not parameter.when.holds(chosen):
            continue
        if parameter.name not in params or not within(parameter, params[parameter.name]):
            return False
        chosen[parameter.name] = params[parameter.name]
    return chosen.keys() == params.keys()


def startup_trials(trials: int) -> int:
    """Trials that are drawn at random before TPE models the rest."""
    return min(10, max(3, trials // 3))


def make_sampler(search: SearchConfig, space: SearchSpace, number: int) -> BaseSampler:
    """Builds the sampler for one trial.

    ``tpe`` (Bergstra et al. 2011; Watanabe 2023) is the default: it models conditional parameters, asks in
    milliseconds after thousands of trials, and takes the running trials for bad ones (constant liar), so that
    parallel trials spread. ``gp`` is a Gaussian process: better where few, dear trials have numbers without
    conditions, slow beyond some hundreds. ``random`` is the baseline that a search should beat, and the
    sampler for questions about the space itself.

    The random stream is a function of (seed, trial number) alone, so that an interrupted and resumed
    search goes on with the values that it would have drawn, instead of repeating the first ones.

    Args:
        search: Gives the sampler's name, the seed and the number of trials.
        space: Its conditions say which parameters TPE models together.
        number: Number of the trial that is going to be asked for.
    """
    seed = int(np.random.SeedSequence((search.seed, number)).generate_state(1)[0])
    if search.sampler == "random":
        return RandomSampler(seed=seed)
    startup = startup_trials(search.trials)
    if search.sampler == "gp":
        return GPSampler(seed=seed, n_startup_trials=startup)
    tpe = TPESampler(n_startup_trials=startup, multivariate=True, constant_liar=True, seed=seed)
    return GroupedSampler(tpe, groups(space))


def groups(space: SearchSpace) -> list[dict[str, BaseDistribution]]:
    """Splits a space into the parameters that are suggested in every trial and those of each condition."""
    by_condition: dict[When | None, dict[str, BaseDistribution]] = {None: {}}
    for parameter in space.parameters:
        by_condition.setdefault(parameter.when, {})[parameter.name] = distribution(parameter)
    return [group for group in by_condition.values() if group]


def _suggest_one(trial: optuna.Trial, parameter: Parameter) -> Value:
    if isinstance(parameter, Choice):
        return trial.suggest_categorical(parameter.name, parameter.values)
    if isinstance(parameter, Int):
        return trial.suggest_int(
            parameter.name, parameter.low, parameter.high, step=parameter.step, log=parameter.log
        )
    return trial.suggest_float(
        parameter.name, parameter.low, parameter.high, step=parameter.step, log=parameter.log
    )


def within(parameter: Parameter, value: Value) -> bool:
    """Whether a parameter could have had a value; its condition is not asked about."""
    if isinstance(parameter, Choice):
        return any(value == choice and type(value) is type(choice) for choice in parameter.values)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if not parameter.low <= value <= parameter.high:
        return False
    if isinstance(parameter, Float) and parameter.step is None:
        return True
    if isinstance(parameter, Int) and parameter.log:
        return float(value).is_integer()
    steps = (value - parameter.low) / (parameter.step or 1)
    return abs(steps - round(steps)) < 1e-8
