"""The groups that the space gives are those that Optuna would find, and so are the values."""

from __future__ import annotations

import math
import warnings

import optuna
import pytest
from optuna.samplers import TPESampler

from hpo.sampling.grouped_sampler import GroupedSampler
from hpo.sampling.suggestions import groups, suggest
from search_spaces import packaged
from trainer.config import Choice, Float, SearchSpace, When

STARTUP = 10
NESTED = SearchSpace(
    "nested",
    (
        Choice("use_iql", (True, False)),
        Float("iql_expectile_tau", 0.5, 0.95, when=When("use_iql", equals=True)),
        Float("iql_advantage_temperature", 1.0, 30.0, log=True, when=When("use_iql", equals=True)),
        Float("her_ratio", 0.0, 0.8, step=0.1),
        Choice("her_strategy", ("final", "future"), when=When("her_ratio", above=0.0)),
        Choice("reward", ("dsr",)),
    ),
)


def objective(values):
    """Any function of the values that has a best point."""
    numbers = [value for value in values.values() if isinstance(value, float)]
    return -math.fsum((number - 0.5) ** 2 for number in numbers)


def search(space, make_tpe, trials=50):
    """What is suggested when each trial gets a sampler of its own, seeded by its number."""
    study = optuna.create_study(direction="maximize")
    suggested = []
    for number in range(trials):
        study.sampler = make_tpe(number)
        trial = study.ask()
        suggested.append(suggest(trial, space))
        study.tell(trial, objective(suggested[-1]))
    return suggested


def optunas_own(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return TPESampler(
            n_startup_trials=STARTUP, multivariate=True, group=True, constant_liar=True, seed=seed
        )


def ours(space):
    def make(seed):
        tpe = TPESampler(n_startup_trials=STARTUP, multivariate=True, constant_liar=True, seed=seed)
        return GroupedSampler(tpe, groups(space))

    return make


@pytest.mark.parametrize("space", [packaged()["iql_her"], packaged()["full"]], ids=lambda space: space.name)
def test_the_values_are_those_of_optunas_own_groups(space):
    assert search(space, ours(space)) == search(space, optunas_own)


def test_every_condition_has_a_group_of_its_own():
    assert [sorted(group) for group in groups(NESTED)] == [
        ["her_ratio", "reward", "use_iql"],
        ["iql_advantage_temperature", "iql_expectile_tau"],
        ["her_strategy"],
    ]


def test_parameters_whose_condition_does_not_hold_are_not_suggested_and_the_others_are_learned():
    suggested = search(NESTED, ours(NESTED), trials=80)
    assert all(("iql_expectile_tau" in values) == values["use_iql"] for values in suggested)
    assert all(("her_strategy" in values) == (values["her_ratio"] > 0) for values in suggested)
    late = [abs(values["her_ratio"] - 0.5) for values in suggested[40:]]
    assert sum(late) / len(late) < 0.2  # 0.225 on average if drawn at random


def test_start_up_trials_are_drawn_at_random():
    study = optuna.create_study()
    trial = study.ask()
    tpe = TPESampler(n_startup_trials=STARTUP, multivariate=True, seed=0)
    sampler = GroupedSampler(tpe, groups(NESTED))
    space = sampler.infer_relative_search_space(study, study.trials[trial.number])
    assert sorted(space) == [
        "her_ratio",
        "her_strategy",
        "iql_advantage_temperature",
        "iql_expectile_tau",
        "use_iql",
    ]
    assert sampler.sample_relative(study, study.trials[trial.number], space) == {}
