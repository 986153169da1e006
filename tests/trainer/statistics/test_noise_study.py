"""A search among worthless trials, many times over: how often does each test call its winner skilled?"""

import numpy as np
import pytest
from scipy.special import ndtr

from trainer.statistics.deflated_sharpe import deflated_sharpe, deflation_threshold
from trainer.statistics.moments import Moments, moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe
from trainer.statistics.sharpe import sharpe

STUDIES, TRIALS, ROWS = 400, 50, 500


@pytest.fixture(scope="module")
def winners() -> list[tuple[np.ndarray, float]]:
    """Per study the winner's [T] returns and the variance of all trials' ratios."""
    draws = np.random.default_rng(20)
    found = []
    for _ in range(STUDIES):
        returns = draws.normal(0.0, 0.01, (TRIALS, ROWS))
        ratios = returns.mean(axis=1) / returns.std(axis=1, ddof=1)
        found.append((returns[ratios.argmax()], float(ratios.var(ddof=1))))
    return found


def share(probabilities: list[float]) -> float:
    """Share of the studies whose winner is called skilled at the level of .95."""
    return float((np.array(probabilities) > 0.95).mean())


def test_the_best_of_fifty_worthless_trials_looks_skilled_in_nine_studies_of_ten(winners):
    naive = share([probabilistic_sharpe(sharpe(row), ROWS, moments(row)) for row, _ in winners])
    assert naive == pytest.approx(1.0 - 0.95**TRIALS, abs=0.04)  # one of fifty passes by luck: 92 %


def test_the_deflated_ratio_calls_it_skilled_in_five_percent_or_fewer(winners):
    deflated = share(
        [deflated_sharpe(sharpe(row), ROWS, moments(row), variance, TRIALS) for row, variance in winners]
    )
    assert deflated <= 0.05


def test_the_threshold_is_the_mean_ratio_of_the_winners(winners):
    thresholds = [deflation_threshold(variance, TRIALS) for _, variance in winners]
    ratios = [sharpe(row) for row, _ in winners]
    assert np.mean(thresholds) == pytest.approx(np.mean(ratios), rel=0.03)


def test_a_skilled_winner_still_passes():
    """An annual ratio of 4.8 over two years stands well above the best of fifty noise trials."""
    normal = Moments(0.0, 3.0)
    value = deflated_sharpe(0.3, ROWS, normal, 1.0 / ROWS, TRIALS)
    assert value > 0.99
    assert value == pytest.approx(
        ndtr((0.3 - deflation_threshold(1.0 / ROWS, TRIALS)) * np.sqrt(499) / np.sqrt(1.045)), abs=1e-12
    )
