"""The search spaces that come with foxtune."""

import pytest

from hpo.sampling.space_files import check_bounds
from search_spaces import packaged
from trainer.config import Choice, Float, TrainerConfig, When

STRATEGIES = ("final", "future", "episode", "random")


def test_the_packaged_spaces_are_found_by_their_file_names():
    assert {name: space.name for name, space in packaged().items()} == {"full": "full", "iql_her": "iql_her"}


def test_iql_her_searches_the_four_agreed_parameters():
    assert packaged()["iql_her"].parameters == (
        Float("iql_expectile_tau", 0.5, 0.95),
        Float("iql_advantage_temperature", 1.0, 30.0, log=True),
        Float("her_ratio", 0.0, 0.8, step=0.1),
        Choice("her_strategy", STRATEGIES, When("her_ratio", above=0.0)),
    )


def test_full_contains_iql_her_and_eight_more():
    spaces = packaged()
    count = len(spaces["iql_her"].parameters)
    assert spaces["full"].parameters[:count] == spaces["iql_her"].parameters
    assert {parameter.name for parameter in spaces["full"].parameters[count:]} == {
        "learning_rate",
        "gamma",
        "batch_size",
        "adaptation_rate",
        "per_alpha",
        "per_beta",
        "trunk_widths",
        "max_norm",
    }


@pytest.mark.parametrize("name", ["full", "iql_her"])
def test_no_bound_of_a_packaged_space_is_refused_by_the_configuration(name):
    check_bounds(packaged()[name])


@pytest.mark.parametrize("name", ["full", "iql_her"])
def test_the_defaults_lie_inside_every_packaged_range(name):
    config = TrainerConfig()
    for parameter in packaged()[name].parameters:
        value = config.get(parameter.name)
        if isinstance(parameter, Choice):
            legal = [TrainerConfig().with_overrides({parameter.name: each}) for each in parameter.values]
            assert value in [each.get(parameter.name) for each in legal]
        else:
            assert parameter.low <= value <= parameter.high


def test_the_strategy_is_searched_only_where_something_is_relabelled():
    when = packaged()["iql_her"].parameters[-1].when
    assert not when.holds({"her_ratio": 0.0})
    assert when.holds({"her_ratio": 0.1})
