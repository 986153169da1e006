"""The statistics against packages that other people wrote; where a package defines a number differently, the
difference is removed by hand and named."""

import math

import empyrical
import numpy as np
import pandas as pd
import purgedcv
import pytest
from arch.bootstrap import SPA, StationaryBootstrap
from skfolio import measures

from trainer.config import TrainerConfig
from trainer.folds import split
from trainer.statistics.backtest_length import minimum_backtest_length
from trainer.statistics.backtest_overfitting import backtest_overfitting
from trainer.statistics.bootstrap import block_length, joint_sharpe_intervals
from trainer.statistics.compounding import total_return
from trainer.statistics.deflated_sharpe import deflated_sharpe, expected_maximum
from trainer.statistics.drawdown import drawdowns, max_drawdown
from trainer.statistics.moments import Moments, moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe
from trainer.statistics.sharpe import annualised_sharpe, sharpe
from trainer.statistics.superior_predictive_ability import superior_predictive_ability
from trainer.statistics.track_record import minimum_track_record

PERIODS = 252


def skewed_returns(seed: int, rows: int = 750) -> np.ndarray:
    """[rows] daily returns with negative skew and fat tails, a little above zero in the mean."""
    draws = np.random.default_rng(seed)
    return 0.0006 + 0.01 * (draws.standard_t(5, rows) - 1.5 * (draws.exponential(1.0, rows) - 1.0))


def small_sample(returns: np.ndarray) -> tuple[float, Moments]:
    """Ratio and moments as purgedcv takes them: deviation with ddof 0, moments corrected for the sample size.

    The corrections are G1 and G2 of Joanes and Gill (1998).
    """
    rows, shape = len(returns), moments(returns)
    skewness = shape.skewness * math.sqrt(rows * (rows - 1)) / (rows - 2)
    excess = (rows - 1) / ((rows - 2) * (rows - 3)) * ((rows + 1) * (shape.kurtosis - 3.0) + 6.0)
    ratio = sharpe(returns) * math.sqrt(rows / (rows - 1))
    return ratio, Moments(skewness, excess + 3.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_sharpe_ratio_is_empyricals_and_skfolios(seed):
    returns = skewed_returns(seed)
    ours = annualised_sharpe(returns, PERIODS)
    assert ours == pytest.approx(empyrical.sharpe_ratio(returns, annualization=PERIODS), rel=1e-12)
    ratio = measures.mean(returns) / measures.standard_deviation(returns)  # ddof 1, per observation
    assert ours == pytest.approx(ratio * math.sqrt(PERIODS), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_drawdown_and_total_return_are_empyricals_and_skfolios(seed):
    returns = skewed_returns(seed)
    returns[0] = -0.08  # a loss at once: the start capital is a peak in all three
    assert max_drawdown(returns) == pytest.approx(empyrical.max_drawdown(returns), abs=1e-12)
    assert max_drawdown(returns) <= -0.08
    # skfolio leaves the start itself out of the series.
    theirs = measures.get_drawdowns(returns, compounded=True)
    np.testing.assert_allclose(drawdowns(returns)[1:], theirs, atol=1e-12)
    assert total_return(returns) == pytest.approx(empyrical.cum_returns_final(returns), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_moments_are_skfolios_population_moments(seed):
    returns = skewed_returns(seed)
    shape = moments(returns)
    assert shape.skewness == pytest.approx(measures.skew(returns), rel=1e-9)
    assert shape.kurtosis == pytest.approx(measures.kurtosis(returns), rel=1e-9)  # neither is the excess
    assert shape.skewness < -0.05  # so that a wrong sign shows
    assert shape.kurtosis > 3.5


@pytest.mark.parametrize("threshold", [0.0, 0.03])
@pytest.mark.parametrize("seed", range(3))
def test_the_probabilistic_ratio_is_skfolios_and_purgedcvs(seed, threshold):
    returns = skewed_returns(seed)
    ours = probabilistic_sharpe(sharpe(returns), len(returns), moments(returns), threshold)
    assert ours == pytest.approx(measures.probabilistic_sharpe_ratio(returns, threshold), abs=1e-12)
    ratio, shape = small_sample(returns)
    theirs = purgedcv.probabilistic_sharpe_ratio(returns, threshold)
    assert probabilistic_sharpe(ratio, len(returns), shape, threshold) == pytest.approx(theirs, abs=1e-12)
    assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("trials", [2, 10, 200])
def test_the_deflated_ratio_is_skfolios_and_purgedcvs(trials):
    returns = skewed_returns(1)
    ratios = np.random.default_rng(2).normal(0.0, 0.03, trials)
    variance = float(ratios.var(ddof=1))
    ours = deflated_sharpe(sharpe(returns), len(returns), moments(returns), variance, trials)
    assert ours == pytest.approx(measures.deflated_sharpe_ratio(returns, ratios), abs=1e-12)
    ratio, shape = small_sample(returns)
    theirs = purgedcv.deflated_sharpe_ratio(returns, trials, variance)
    again = deflated_sharpe(ratio, len(returns), shape, variance, trials)
    assert again == pytest.approx(theirs, abs=1e-12)
    assert expected_maximum(trials) == pytest.approx(
        measures.expected_max_sharpe_ratio(trials, 1.0), abs=1e-12
    )


def test_the_track_record_is_purgedcvs_rounded_up():
    returns = skewed_returns(3)
    ratio, shape = sharpe(returns), moments(returns)
    theirs = purgedcv.min_track_record_length(ratio, 0.0, 0.05, shape.skewness, shape.kurtosis)
    assert math.ceil(minimum_track_record(ratio, shape)) == theirs
    assert purgedcv.min_track_record_length(0.01, 0.02, 0.05, 0.0, 3.0) == math.inf
    assert minimum_track_record(0.01, moments(returns), threshold=0.02) is None  # the same answer: no length


@pytest.mark.parametrize("trials", [2, 45, 1000])
def test_the_backtest_length_is_purgedcvs(trials):
    theirs = purgedcv.minimum_backtest_length(trials, 1.5)
    assert minimum_backtest_length(trials, 1.5) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("edge", [0.0, 0.004])
def test_the_overfitting_probability_is_purgedcvs(edge):
    returns = np.random.default_rng(4).normal(0.0, 0.01, (320, 9))
    returns[:, 3] += edge
    ours = backtest_overfitting(returns, blocks=8)
    theirs = purgedcv.probability_of_backtest_overfitting(returns.T, n_splits=8)
    # A winner exactly at the median (rank 5 of 9) counts half here and not at all there.
    at_median = float((np.abs(ours.logits) < 1e-12).mean())
    assert ours.probability - at_median / 2 == pytest.approx(theirs.pbo, abs=1e-12)


def test_the_superior_ability_is_archs_on_policies_of_equal_deviation():
    returns = np.random.default_rng(5).normal(0.0002, 0.01, 400)
    # Mirrored in time the deviation under dependence stays, so nothing is left to studentise.
    candidates = np.stack([returns, returns[::-1]], axis=1)
    ours = superior_predictive_ability(np.zeros(400), candidates, seed=7)
    theirs = SPA(np.zeros(400), -candidates, block_size=ours.block, reps=1000, seed=7)  # losses
    theirs.compute()
    assert ours.lower == float(theirs.pvalues["lower"])
    assert ours.consistent == float(theirs.pvalues["consistent"])
    assert ours.upper == float(theirs.pvalues["upper"])


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_of_the_ratio_is_archs(seed):
    returns = skewed_returns(seed)
    ours = joint_sharpe_intervals(returns[:, None], PERIODS, repetitions=300, seed=seed).mean
    draws = StationaryBootstrap(block_length(returns), returns, seed=np.random.default_rng(seed))

    def ratio(sample: np.ndarray) -> np.ndarray:
        return np.array([annualised_sharpe(sample, PERIODS)])

    ends = draws.conf_int(ratio, reps=300, method="percentile", size=0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(ends[:, 0]), abs=1e-9)


def test_the_corrected_moments_are_pandas():
    """Says that the definitions matter: population moments here, corrected ones in pandas and purgedcv."""
    returns = skewed_returns(6, rows=24)
    shape, series = small_sample(returns)[1], pd.Series(returns)
    assert shape.skewness == pytest.approx(series.skew(), rel=1e-9)
    assert shape.kurtosis == pytest.approx(series.kurt() + 3.0, rel=1e-9)  # pandas gives the excess
    assert abs(shape.kurtosis - moments(returns).kurtosis) > 0.1


def test_rolling_folds_are_purgedcvs_walk_forward():
    """There a purge drops training rows whose outcome is known only inside the test window."""
    config = TrainerConfig().with_overrides(
        {"train": 400, "test": 100, "purge": 5, "mode": "rolling", "holdout_frac": 0.0}
    )
    cut = split(805, config.walk_forward)
    times = pd.date_range("2020-01-01", periods=805, freq="D")
    other = purgedcv.WalkForwardSplit(
        4,
        100,
        train_size=400,
        window="sliding",
        prediction_times=times,
        evaluation_times=times + pd.Timedelta(days=6),  # open at its end: rows t .. t + 5
    )
    for fold, (train, test) in zip(cut.folds, other.split(np.arange(805).reshape(-1, 1)), strict=True):
        assert (fold.test_start, fold.test_stop) == (test[0], test[-1] + 1)
        assert (fold.train_start, fold.train_stop) == (train[0], train[-1] + 1)
