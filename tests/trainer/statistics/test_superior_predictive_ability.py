import numpy as np
import pytest
from arch.bootstrap import SPA, StationaryBootstrap

from trainer.statistics.superior_predictive_ability import long_run_deviation, superior_predictive_ability


def columns(seed, trials, shift=0.0):
    values = np.random.default_rng(seed).normal(0, 0.01, (300, trials))
    values[:, 0] += shift
    return values


def test_luck_is_not_superior_and_skill_is():
    luck = superior_predictive_ability(np.zeros(300), columns(0, 10), repetitions=200)
    skill = superior_predictive_ability(np.zeros(300), columns(0, 10, shift=0.004), repetitions=200)
    assert luck.consistent > 0.1
    assert skill.consistent < 0.02
    assert luck.lower <= luck.consistent <= luck.upper
    assert luck.policies == 10


def test_cash_is_easier_to_beat_than_a_rising_market():
    market = np.random.default_rng(9).normal(0.004, 0.01, 300)
    policies = columns(4, 3, shift=0.004)
    cash = superior_predictive_ability(np.zeros(300), policies, repetitions=200)
    held = superior_predictive_ability(market, policies, repetitions=200)
    assert cash.consistent < 0.02 < held.consistent


def test_the_same_seed_gives_the_same_values():
    first = superior_predictive_ability(np.zeros(300), columns(1, 4), repetitions=100, seed=3)
    assert first == superior_predictive_ability(np.zeros(300), columns(1, 4), repetitions=100, seed=3)


@pytest.mark.parametrize("shift", [0.0, 0.002, -0.004])
def test_the_values_are_those_of_the_arch_package_on_studentised_returns(shift):
    market = np.random.default_rng(7).normal(0.0, 0.01, 300)
    policies = columns(6, 8, shift)
    policies[:, 3:] -= 0.01  # far below: the consistent test leaves them out
    found = superior_predictive_ability(market, policies, repetitions=300, seed=5)
    excess = policies - market[:, None]
    losses = -excess / [long_run_deviation(column, found.block) for column in excess.T]
    peer = SPA(np.zeros(300), losses, block_size=found.block, reps=300, seed=5)
    peer.compute()
    assert [found.lower, found.consistent, found.upper] == pytest.approx(peer.pvalues.tolist(), abs=1e-12)
    assert found.consistent < found.upper or shift > 0


def test_a_policy_equal_to_the_benchmark_does_not_enter():
    held = columns(2, 1)[:, 0]
    assert superior_predictive_ability(held, held[:, None]) is None
    both = np.stack([held, held[::-1]], axis=1)
    assert superior_predictive_ability(held, both, repetitions=100).policies == 1


def test_few_observations_have_no_test_and_shapes_must_match():
    assert superior_predictive_ability(np.zeros(10), columns(0, 2)[:10]) is None
    with pytest.raises(ValueError, match=r"policies\.shape"):
        superior_predictive_ability(np.zeros(10), columns(0, 2))


def test_a_policy_at_a_larger_stake_changes_no_p_value():
    policies = columns(5, 4, shift=0.001)
    one = superior_predictive_ability(np.zeros(300), policies, repetitions=200)
    other = superior_predictive_ability(np.zeros(300), policies * [1.0, 20.0, 0.1, 3.0], repetitions=200)
    assert one.consistent == pytest.approx(other.consistent, abs=1e-12)


def test_a_volatile_policy_does_not_drown_a_steady_one():
    policies = columns(6, 2, shift=0.004)
    policies[:, 1] = np.random.default_rng(7).standard_t(3, 300) * 0.1 + 0.01
    assert superior_predictive_ability(np.zeros(300), policies, repetitions=200).consistent < 0.02


def test_the_long_run_deviation_is_that_of_bootstrapped_means():
    draws = np.random.default_rng(8).normal(0.0, 1.0, 201)
    values = draws[1:] + 0.5 * draws[:-1]  # neighbours go together: a larger deviation of the mean
    means = [sample[0][0].mean() for sample in StationaryBootstrap(5, values, seed=1).bootstrap(4000)]
    deviation = long_run_deviation(values, 5)
    assert deviation == pytest.approx(np.sqrt(200) * np.std(means), rel=0.03)
    assert deviation > 1.2 * values.std()


def test_blocks_of_one_observation_leave_the_plain_deviation():
    values = columns(9, 1)[:, 0]
    assert long_run_deviation(values, 1) == pytest.approx(values.std(), rel=1e-12)
