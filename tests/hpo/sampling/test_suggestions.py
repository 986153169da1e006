from __future__ import annotations

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from hpo.sampling.grouped_sampler import GroupedSampler
from hpo.sampling.suggestions import allows, distribution, make_sampler, startup_trials, suggest
from trainer.config import Choice, Float, Int, SearchSpace, TrainerConfig, When

SPACE = SearchSpace(
    "test",
    (
        Float("iql_expectile_tau", 0.5, 0.95),
        Float("iql_advantage_temperature", 1.0, 30.0, log=True),
        Float("her_ratio", 0.0, 0.8, step=0.1),
        Choice("her_strategy", ("final", "future"), when=When("her_ratio", above=0.0)),
        Int("batch_size", 32, 128, step=32),
    ),
)


def ask(search, number=0):
    study = optuna.create_study(direction="maximize", sampler=make_sampler(search, SPACE, number))
    return suggest(study.ask(), SPACE)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**31 - 1))
def test_every_suggestion_is_allowed_by_its_space_and_is_a_legal_configuration(seed):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    chosen = suggest(study.ask(), SPACE)
    assert allows(SPACE, chosen)
    assert TrainerConfig().with_overrides(chosen).agent.iql_expectile_tau == chosen["iql_expectile_tau"]


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**31 - 1))
def test_a_conditional_parameter_is_suggested_exactly_where_its_condition_holds(seed):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    chosen = suggest(study.ask(), SPACE)
    assert ("her_strategy" in chosen) == (chosen["her_ratio"] > 0)


def test_the_three_kinds_of_parameters_become_the_three_kinds_of_distributions():
    assert distribution(SPACE.parameters[1]) == FloatDistribution(1.0, 30.0, log=True)
    assert distribution(SPACE.parameters[2]) == FloatDistribution(0.0, 0.8, step=0.1)
    assert distribution(SPACE.parameters[3]) == CategoricalDistribution(("final", "future"))
    assert distribution(SPACE.parameters[4]) == IntDistribution(32, 128, step=32)


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({}, True),
        ({"her_ratio": 0.30000000000000004}, True),
        ({"her_ratio": 0.35}, False),
        ({"iql_expectile_tau": 0.96}, False),
        ({"her_strategy": "random"}, False),
        ({"her_ratio": 0.0}, False),
        ({"batch_size": 48}, False),
        ({"gamma": 0.9}, False),
    ],
)
def test_parameters_outside_ranges_grids_choices_or_conditions_are_not_allowed(change, allowed):
    params = {
        "iql_expectile_tau": 0.7,
        "iql_advantage_temperature": 3.0,
        "her_ratio": 0.3,
        "her_strategy": "final",
        "batch_size": 64,
    }
    assert allows(SPACE, {**params, **change}) is allowed


@pytest.mark.parametrize(("trials", "random"), [(1, 3), (8, 3), (12, 4), (30, 10), (500, 10)])
def test_a_third_of_the_trials_is_random_at_least_three_at_most_ten(trials, random):
    assert startup_trials(trials) == random


def test_a_suggestion_depends_on_seed_and_trial_number_alone(make_search):
    first, again = ask(make_search(seed=5), 3), ask(make_search(seed=5), 3)
    other_trial, other_seed = ask(make_search(seed=5), 4), ask(make_search(seed=6), 3)
    assert first == again
    assert first["iql_expectile_tau"] not in (
        other_trial["iql_expectile_tau"],
        other_seed["iql_expectile_tau"],
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tpe", GroupedSampler),
        ("gp", optuna.samplers.GPSampler),
        ("random", optuna.samplers.RandomSampler),
    ],
)
def test_each_sampler_is_seeded_by_seed_and_trial_number(make_search, name, kind):
    search = make_search(sampler=name, seed=5)
    assert type(make_sampler(search, SPACE, 0)) is kind
    assert ask(search, 3) == ask(search, 3)
    assert ask(search, 3) != ask(search, 4)
