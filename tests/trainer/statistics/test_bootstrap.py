import math

import numpy as np
import pytest

from trainer.statistics.bootstrap import block_length, sharpe_interval
from trainer.statistics.sharpe import annualised_sharpe


def noise(seed, size=400, mean=0.001):
    return np.random.default_rng(seed).normal(mean, 0.01, size)


def test_the_interval_holds_the_estimate_and_repeats_with_its_seed():
    returns = noise(0)
    interval = sharpe_interval(returns, 252, repetitions=200, seed=5)
    assert interval.low < annualised_sharpe(returns, 252) < interval.high
    assert interval == sharpe_interval(returns, 252, repetitions=200, seed=5)
    assert interval != sharpe_interval(returns, 252, repetitions=200, seed=6)


def test_the_width_for_independent_returns_is_that_of_the_standard_error():
    interval = sharpe_interval(noise(2, size=1500), 252, repetitions=400)
    expected = 2 * 1.96 * math.sqrt(252 / 1500)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.15)


def test_persistent_returns_get_longer_blocks():
    shocks = noise(1, size=2000)
    trending = np.convolve(shocks, np.ones(30), mode="valid")
    assert block_length(trending) > 5 * block_length(shocks)


def test_too_few_or_flat_returns_have_no_interval():
    assert sharpe_interval(noise(0, size=15), 252) is None
    assert sharpe_interval(np.zeros(100), 252) is None


def test_one_trade_in_a_flat_window_has_a_finite_interval():
    returns = np.zeros(100)
    returns[50] = 0.01
    interval = sharpe_interval(returns, 252, repetitions=200)
    assert interval.low == 0.0
    assert math.isfinite(interval.high)


def test_a_level_of_one_is_refused():
    with pytest.raises(ValueError, match="level"):
        sharpe_interval(noise(0), 252, level=1.0)
