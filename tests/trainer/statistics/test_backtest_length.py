import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.statistics.backtest_length import minimum_backtest_length


def test_forty_five_trials_need_five_years_to_keep_luck_below_a_ratio_of_one():
    assert minimum_backtest_length(45) == pytest.approx(5.0, abs=0.01)


def test_ten_trials_by_hand():
    assert minimum_backtest_length(10) == pytest.approx(1.574598**2, abs=5e-6)
    assert minimum_backtest_length(10, annual_ratio=2.0) == pytest.approx(1.574598**2 / 4, abs=5e-6)
    assert minimum_backtest_length(1) == 0.0


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 100_000), st.floats(0.1, 5.0))
def test_the_length_never_exceeds_its_closed_bound(trials, ratio):
    assert minimum_backtest_length(trials, ratio) <= 2 * math.log(trials) / ratio**2


def test_a_target_ratio_of_zero_is_refused():
    with pytest.raises(ValueError, match="annual_ratio > 0"):
        minimum_backtest_length(10, 0.0)
