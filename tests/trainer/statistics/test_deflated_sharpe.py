import math

import numpy as np
import pytest

from trainer.statistics.deflated_sharpe import (
    deflated_sharpe,
    deflation_threshold,
    effective_trials,
    expected_maximum,
    mean_correlation,
)
from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe

SHAPE = Moments(skewness=-3.0, kurtosis=10.0)


def test_the_expected_maximum_of_ten_and_a_hundred_draws():
    assert expected_maximum(10) == pytest.approx(1.574598, abs=5e-7)
    assert expected_maximum(100) == pytest.approx(2.530603, abs=5e-7)


def test_one_trial_has_nothing_to_select_from():
    assert expected_maximum(1) == 0.0
    expected = probabilistic_sharpe(0.1, 500, SHAPE)
    assert deflated_sharpe(0.1, 500, SHAPE, ratio_variance=0.3, trials=1) == expected


def test_between_one_and_two_effective_trials_the_expected_maximum_is_not_negative():
    values = [expected_maximum(1 + step / 20) for step in range(41)]
    assert min(values) == 0.0
    assert values == sorted(values)


def test_the_expected_maximum_is_near_that_of_simulated_draws():
    draws = np.random.default_rng(0).standard_normal((20_000, 50)).max(axis=1)
    assert expected_maximum(50) == pytest.approx(draws.mean(), abs=0.03)


def test_the_printed_example_of_a_hundred_trials_over_five_years():
    threshold = deflation_threshold(0.5 / 250, 100)
    assert threshold == pytest.approx(0.1131720, abs=5e-8)
    value = deflated_sharpe(2.5 / math.sqrt(250), 1250, SHAPE, 0.5 / 250, 100)
    assert value == pytest.approx(0.9003968, abs=5e-8)


def test_more_trials_deflate_more():
    values = [deflated_sharpe(0.1, 1000, SHAPE, 0.002, trials) for trials in (1, 2, 10, 100, 1000)]
    assert values == sorted(values, reverse=True)


def test_effective_trials_run_from_one_to_all():
    assert effective_trials(100, 1.0) == 1.0
    assert effective_trials(100, 0.0) == 100.0
    assert effective_trials(100, 0.5) == 50.5
    assert effective_trials(100, -0.3) == 100.0


def test_mean_correlation_agrees_with_the_correlation_matrix():
    columns = np.random.default_rng(3).normal(size=(60, 5)) + np.arange(60)[:, None] / 20
    matrix = np.corrcoef(columns.T)
    assert mean_correlation(columns) == pytest.approx((matrix.sum() - 5) / 20)


def test_a_flat_column_has_no_correlation_and_is_left_out():
    ramp = np.arange(6.0)
    assert mean_correlation(np.stack([ramp, -ramp, np.full(6, 0.1)], axis=1)) == pytest.approx(-1.0)
    assert mean_correlation(np.stack([ramp, np.full(6, 0.1)], axis=1)) is None


def test_impossible_counts_and_variances_are_refused():
    with pytest.raises(ValueError, match="trials >= 1"):
        expected_maximum(0.5)
    with pytest.raises(ValueError, match="ratio_variance >= 0"):
        deflation_threshold(-0.1, 2)
