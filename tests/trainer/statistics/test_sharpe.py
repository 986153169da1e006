import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.statistics.sharpe import annualised_sharpe, has_spread, sharpe

MONTHLY = (
    ".003 .026 .011 -.01 .015 .025 .016 .067 -.014 .04 -.005 .081 "
    ".04 -.037 -.061 .017 -.049 -.022 .07 .058 -.065 .024 -.005 -.009"
)


def test_the_ratio_is_taken_of_returns_and_not_of_net_worth():
    worth = np.array([1000.0, 900.0, 800.0, 700.0])
    assert sharpe(worth[1:] / worth[:-1] - 1) == pytest.approx(-8.944577, abs=5e-7)


def test_six_daily_returns_with_ddof_one_and_252_days():
    returns = [0.01, -0.005, 0.007, 0, -0.012, 0.009]
    assert sharpe(returns) == pytest.approx(0.170830, abs=5e-7)
    assert annualised_sharpe(returns, 252) == pytest.approx(2.711842, abs=5e-7)


def test_twenty_four_monthly_returns():
    returns = [float(each) for each in MONTHLY.split()]
    assert annualised_sharpe(returns, 12) == pytest.approx(0.7883202548, abs=5e-11)


@pytest.mark.parametrize("returns", [[], [0.1], [0, 0, 0], [0.1] * 7, [0.01, 0.01 + 1e-12, 0.01]])
def test_returns_without_spread_have_no_ratio(returns):
    assert not has_spread(returns)
    assert sharpe(returns) is None
    assert annualised_sharpe(returns, 252) is None


def test_spread_is_relative_so_tiny_returns_count():
    assert has_spread([1e-200, -1e-200])
    assert not has_spread([1.0, 1.0 + 1.4e-6, 1.0, 1.0])
    assert has_spread([1.0, 1.0 + 2.5e-6, 1.0, 1.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_return_that_is_not_finite_is_refused_with_its_place(bad):
    with pytest.raises(ValueError, match="at index 1"):
        sharpe([0.1, bad, 0.2])


def test_a_matrix_and_a_year_of_no_periods_are_refused():
    with pytest.raises(ValueError, match="ndim"):
        sharpe([[0.1, 0.2]])
    with pytest.raises(ValueError, match="periods_per_year > 0"):
        annualised_sharpe([0.1, 0.2], 0.0)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(-0.5, 0.5, allow_subnormal=False), min_size=3, max_size=40).filter(has_spread),
    st.sampled_from([1e-150, 1e-3, 1e3, 1e150]),
)
def test_the_ratio_does_not_depend_on_the_scale_and_turns_sign_with_the_returns(returns, scale):
    values = np.array(returns)
    expected = sharpe(values)
    if np.abs(values).max() > 1e-100:
        assert sharpe(values * scale) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert sharpe(-values) == pytest.approx(-expected)
