import math

import numpy as np
import pytest

from trainer.statistics.bootstrap import block_length, joint_sharpe_intervals
from trainer.statistics.sharpe import annualised_sharpe


def noise(seed, size=400, mean=0.001):
    return np.random.default_rng(seed).normal(mean, 0.01, size)


def interval_of(returns, repetitions=200, seed=0):
    """The interval of one series alone."""
    return joint_sharpe_intervals(returns[:, None], 252, repetitions=repetitions, seed=seed).mean


def test_the_interval_holds_the_estimate_and_repeats_with_its_seed():
    returns = noise(0)
    interval = interval_of(returns, seed=5)
    assert interval.low < annualised_sharpe(returns, 252) < interval.high
    assert interval == interval_of(returns, seed=5)
    assert interval != interval_of(returns, seed=6)


def test_the_width_for_independent_returns_is_that_of_the_standard_error():
    interval = interval_of(noise(2, size=1500), repetitions=400)
    expected = 2 * 1.96 * math.sqrt(252 / 1500)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.15)


def test_persistent_returns_get_longer_blocks():
    shocks = noise(1, size=2000)
    trending = np.convolve(shocks, np.ones(30), mode="valid")
    assert block_length(trending) > 5 * block_length(shocks)


def test_one_trade_in_a_flat_window_has_a_finite_interval():
    returns = np.zeros(100)
    returns[50] = 0.01
    interval = interval_of(returns)
    assert interval.low == 0.0
    assert math.isfinite(interval.high)


def test_a_level_of_one_is_refused():
    with pytest.raises(ValueError, match="level"):
        joint_sharpe_intervals(noise(0)[:, None], 252, level=1.0)


def test_series_that_share_a_market_keep_its_uncertainty_and_opposite_ones_lose_it():
    market = noise(4)
    alone = interval_of(market, repetitions=300)
    alike = joint_sharpe_intervals(np.stack([market, market], axis=1), 252, repetitions=300)
    opposite = joint_sharpe_intervals(np.stack([market, -market], axis=1), 252, repetitions=300)
    assert (alike.mean.low, alike.mean.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
    assert (opposite.mean.low, opposite.mean.high) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_one_series_has_the_interval_of_its_mean():
    joint = joint_sharpe_intervals(noise(3)[:, None], 252, repetitions=300, seed=5)
    assert joint.each == (joint.mean,)


def test_a_series_without_spread_has_no_interval_and_counts_zero_in_the_mean():
    returns = np.stack([noise(5), np.zeros(400)], axis=1)
    joint = joint_sharpe_intervals(returns, 252, repetitions=300)
    assert joint.each[1] is None
    assert (joint.mean.low, joint.mean.high) == pytest.approx((joint.each[0].low / 2, joint.each[0].high / 2))


def test_too_few_or_flat_returns_have_no_intervals():
    assert joint_sharpe_intervals(noise(0, size=15)[:, None], 252) is None
    assert joint_sharpe_intervals(np.zeros((100, 2)), 252) is None
