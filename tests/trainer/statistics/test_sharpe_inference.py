import math

import numpy as np
import pytest

from trainer.statistics.sharpe import sharpe
from trainer.statistics.sharpe_inference import (
    annualised_standard_error,
    autocorrelations,
    eta,
    sharpe_standard_error,
)


def test_the_standard_error_by_hand():
    assert sharpe_standard_error(0.0, 100) == 0.1
    assert sharpe_standard_error(2.0, 12) == 0.5  # sqrt((1 + 2) / 12)


def test_the_annual_standard_error_has_annual_units():
    # Daily ratio 0.1 over 4 years of 250 days: sqrt(250) * sqrt(1.005 / 1000).
    annual = 0.1 * math.sqrt(250)
    assert annualised_standard_error(annual, 1000, 250) == pytest.approx(0.501248, abs=5e-7)
    assert annualised_standard_error(0.0, 1000, 250) == pytest.approx(0.5)  # 1 / sqrt(years)


def test_the_standard_error_is_the_spread_over_repeated_samples():
    generator = np.random.default_rng(1)
    ratios = [sharpe(generator.normal(0.3, 1.0, 200)) for _ in range(3000)]
    assert np.std(ratios, ddof=1) == pytest.approx(sharpe_standard_error(0.3, 200), rel=0.05)


def test_no_observations_have_no_standard_error():
    with pytest.raises(ValueError, match="observations >= 1"):
        sharpe_standard_error(0.0, 0)


def test_autocorrelations_by_hand():
    # 1, -1, 1, -1: products at lag 1 are 3 times -1, at lag 2 twice 1, over a total of 4.
    np.testing.assert_allclose(autocorrelations([1, -1, 1, -1], 2), [-0.75, 0.5])
    assert autocorrelations([1.0, 2.0], 0).shape == (0,)


def test_autocorrelations_refuse_flat_returns_and_too_many_lags():
    with pytest.raises(ValueError, match="without spread"):
        autocorrelations([0.1, 0.1, 0.1], 1)
    with pytest.raises(ValueError, match="lags < T"):
        autocorrelations([0.1, 0.2], 2)


def test_eta_is_the_square_root_for_uncorrelated_returns():
    assert eta([], 12) == pytest.approx(math.sqrt(12))
    assert eta([0.0] * 11, 12) == pytest.approx(math.sqrt(12))


def test_eta_by_hand():
    # q = 3, rho = .5, .2: 3 / sqrt(3 + 2 (2 * .5 + 1 * .2)) = 3 / sqrt(5.4)
    assert eta([0.5, 0.2], 3) == pytest.approx(3 / math.sqrt(5.4))
    assert eta([0.5, 0.2, 9.0], 3) == eta([0.5, 0.2], 3)
    assert eta([0.3], 1) == 1.0


def test_eta_lowers_the_annual_ratio_of_trending_returns_and_raises_it_for_reverting_ones():
    rho = np.array([0.2**lag for lag in range(1, 12)])
    assert eta(rho, 12) < math.sqrt(12) < eta([-0.2], 12)


def test_eta_refuses_correlations_without_a_positive_variance():
    with pytest.raises(ValueError, match="> 0"):
        eta([-1.0], 2)
    with pytest.raises(ValueError, match="periods >= 1"):
        eta([], 0)
