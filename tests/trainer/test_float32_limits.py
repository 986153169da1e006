"""Numbers that are legal as written and no longer where training rounds them to float32."""

import pytest

from trainer.config import TrainerConfig
from trainer.errors import ConfigError


def complaint(section, **values):
    with pytest.raises(ConfigError) as caught:
        TrainerConfig.build({section: values})
    return str(caught.value)


def test_a_number_that_float32_rounds_onto_an_open_end_of_its_range_is_refused():
    # The float32 next below 1 is 1 - 2^-24 = 0.99999994; half way above it lies 0.99999997.
    assert complaint("agent", gamma=0.99999998) == (
        "agent.gamma: `gamma` must lie in its range as float32 too (it is 1.0 there), but got 0.99999998; "
        "give a value in [0, 1)"
    )
    assert TrainerConfig.build({"agent": {"gamma": 0.99999994}}).agent.gamma == 0.99999994


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("agent", "iql_expectile_tau", 0.99999999999),
        ("agent", "adam_eps", 1e-300),
        ("agent", "max_norm", 1e-40),  # a GPU counts numbers below 2^-126 as 0
        ("hindsight", "her_threshold", 1e-300),
        ("agent", "iql_advantage_temperature", "1e-300"),
    ],
)
def test_a_number_that_float32_turns_into_a_forbidden_one_is_refused(section, key, value):
    found = complaint(section, **{key: value})
    assert found.startswith(f"{section}.{key}: `{key}` must lie in its range as float32 too")
    assert "; give a value in (0, " in found


@pytest.mark.parametrize(
    ("section", "key"), [("environment", "fee_bp"), ("environment", "impact"), ("agent", "learning_rate")]
)
def test_a_number_too_large_for_float32_is_refused(section, key):
    assert complaint(section, **{key: 1e300}) == (
        f"{section}.{key}: `{key}` must lie below 3.4e38 in size, but got 1e+300; give a value in [0, inf)"
    )


def test_a_temperature_whose_products_with_advantages_would_overflow_is_refused():
    # Advantages go up to 10 and float32 to 3.4e38: the softmax of infinity is not a number.
    assert complaint("agent", iql_advantage_temperature=1e38) == (
        "agent.iql_advantage_temperature: `0 < iql_advantage_temperature <= 1000000000` must hold, "
        "but got 1e+38; give a value in (0, 1000000000]"
    )


def test_a_capital_beyond_float32_is_refused_as_its_returns_would_vanish():
    assert "`capital` must lie below 3.4e38 in size" in complaint("data", capital=1e300)


@pytest.mark.parametrize(
    ("v_min", "v_max", "num_atoms"),
    [
        (1e8, 100000001.0, 51),  # float32 steps by 8 there, and the atoms by .02
        (0.0, 1e-20, 51),
        (-1e20, 1e20, 51),  # squares of such values are beyond float32
        (-6.0, 6.0, 200_002),  # atoms 6e-5 apart, the least is 1e-5 times 6
    ],
)
def test_a_support_whose_atoms_float32_cannot_tell_apart_is_refused(v_min, v_max, num_atoms):
    found = complaint("agent", v_min=v_min, v_max=v_max, num_atoms=num_atoms)
    assert found.startswith("agent.v_min: the atoms of the support must be told apart in float32: ")
    assert f"num_atoms={num_atoms}" in found
    assert found.endswith("; lower agent.num_atoms or move agent.v_min and agent.v_max")


@pytest.mark.parametrize(
    ("v_min", "v_max", "num_atoms"), [(-6.0, 6.0, 10_001), (0.0, 1e-3, 51), (99, 100, 51)]
)
def test_a_narrow_support_that_float32_resolves_is_legal(v_min, v_max, num_atoms):
    agent = TrainerConfig.build({"agent": {"v_min": v_min, "v_max": v_max, "num_atoms": num_atoms}}).agent
    assert (agent.v_min, agent.v_max) == (v_min, v_max)


@pytest.mark.parametrize("value", [1e-300, 1 / 252, 1e300])
def test_periods_per_year_that_no_calendar_has_are_refused(value):
    # 1/252 is a year per bar, not bars per year; 1e300 ended a training with an OverflowError.
    assert complaint("metrics", periods_per_year=value).startswith("metrics.periods_per_year: ")


@pytest.mark.parametrize("value", [11.0, -11.0, 1e308])
def test_an_evaluation_goal_beyond_those_that_an_episode_can_achieve_is_refused(value):
    assert complaint("goal", eval=value) == (
        f"goal.eval: `-10 <= eval <= 10` must hold, but got {value}; give a value in [-10, 10]"
    )


def test_a_truth_value_inside_a_list_of_sizes_is_refused():
    assert "must be another value than true or false" in complaint(
        "environment", actions_per_branch=[True, 3]
    )
