import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.statistics.moments import Moments
from trainer.statistics.probabilistic_sharpe import probabilistic_sharpe

NORMAL = Moments(skewness=0.0, kurtosis=3.0)


def test_two_years_of_monthly_hedge_fund_returns():
    shape = Moments(skewness=-2.448, kurtosis=10.164)
    assert probabilistic_sharpe(1.585 / math.sqrt(12), 24, shape) == pytest.approx(0.9132343069, abs=5e-11)


def test_a_ratio_at_its_threshold_is_even_odds():
    assert probabilistic_sharpe(0.1, 50, NORMAL, 0.1) == 0.5


@settings(deadline=None, max_examples=30)
@given(st.floats(0.01, 1.0), st.integers(3, 1000))
def test_more_data_and_less_skew_make_a_positive_ratio_more_believable(ratio, observations):
    base = probabilistic_sharpe(ratio, observations, NORMAL)
    assert base <= probabilistic_sharpe(ratio, 2 * observations, NORMAL)
    assert probabilistic_sharpe(ratio, observations, Moments(-2.0, 9.0)) <= base


def test_excess_kurtosis_given_by_mistake_is_refused():
    with pytest.raises(ValueError, match="not the excess"):
        probabilistic_sharpe(0.1, 50, Moments(skewness=0.0, kurtosis=0.0))


def test_two_equal_points_have_no_estimated_variance():
    # Returns on two points: kurtosis = 1 + skewness^2, factor (1 - g3 SR / 2)^2 = 0 at SR = 2 / g3.
    assert probabilistic_sharpe(2.0, 50, Moments(skewness=1.0, kurtosis=2.0)) is None


def test_one_observation_is_refused():
    with pytest.raises(ValueError, match="observations >= 2"):
        probabilistic_sharpe(0.1, 1, NORMAL)
