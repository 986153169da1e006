import dataclasses
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trainer.errors import NonFiniteError
from trainer.walk_forward import MemberOutcome, combine_folds, score

YEAR = 252.0
WAVE = np.array([0.01, -0.005, 0.007, 0.0, -0.012, 0.009])


def member(returns, seed=0, fold=0, closes=WAVE, trades=2, bankrupt=False):
    return MemberOutcome(seed, fold, np.asarray(returns, np.float64), closes, trades, 3.0, bankrupt)


def scored(*members, objective="wf_sharpe", min_trades=1):
    return score(members, objective=objective, min_trades=min_trades, periods_per_year=YEAR)


def test_the_folds_of_a_seed_are_joined_before_the_ratio_is_taken():
    result = scored(member(WAVE[4:], fold=2), member(WAVE[:2], fold=0), member(WAVE[2:4], fold=1))
    assert result.value == pytest.approx(2.711842, abs=5e-7)
    assert [fold.fold for fold in result.folds] == [0, 1, 2]
    assert result.years == 6 / 252
    # sqrt(252) sqrt((1 + .170830^2 / 2) / 6)
    assert result.standard_error == pytest.approx(6.527842, abs=1e-5)
    assert result.degenerate == ()


def test_the_value_is_the_mean_over_seeds_and_the_error_that_of_one_seed():
    result = scored(member(WAVE, seed=7), member(WAVE * 0.5 + 0.001, seed=8))
    seven, eight = (ratio for _, ratio in result.per_seed)
    assert [seed for seed, _ in result.per_seed] == [7, 8]
    assert result.value == pytest.approx((seven + eight) / 2)
    assert result.seed_spread == pytest.approx(abs(seven - eight) / math.sqrt(2))
    assert result.standard_error == scored(member(WAVE * 0.5 + 0.001)).standard_error


def test_undefined_folds_count_zero_and_are_never_dropped():
    assert combine_folds([1.2, 0.8, math.inf, -0.3], "mean_fold") == (pytest.approx(0.425), 1)
    assert combine_folds([2.1, math.nan, -0.4], "mean_fold") == (pytest.approx(0.5666667, abs=5e-8), 1)
    assert combine_folds([None, 1.0, 3.0, -math.inf], "median_fold") == (0.5, 2)


def test_the_mean_less_half_a_deviation_by_hand():
    # 1, 2, 3: mean 2, deviation 1 (ddof 1).
    assert combine_folds([1.0, 2.0, 3.0], "mean_minus_half_sd") == (1.5, 0)
    assert combine_folds([2.0], "mean_minus_half_sd") == (2.0, 0)


def test_fold_objectives_use_each_folds_own_ratio():
    folds = [member(WAVE, fold=0), member(np.zeros(6), fold=1, trades=0), member(-WAVE, fold=2)]
    ratio = 2.711842
    assert scored(*folds, objective="mean_fold").value == pytest.approx(0.0, abs=1e-9)
    assert scored(*folds, objective="median_fold").value == pytest.approx(0.0, abs=1e-9)
    result = scored(*folds, objective="mean_minus_half_sd")
    assert result.value == pytest.approx(-ratio / 2, abs=5e-7)
    assert result.undefined_folds == 1
    assert result.folds[1].sharpe == 0.0
    assert result.folds[1].sharpe_defined is False
    assert result.folds[1].trades == 0


def test_a_policy_that_never_trades_scores_minus_ten_with_the_reason():
    result = scored(member(np.zeros(6), trades=0))
    assert result.value == -10.0
    assert "seed 0: 0 trades, min_trades is 1" in result.degenerate[0]
    assert "no spread" in result.degenerate[0]
    assert result.folds[0].sharpe == 0.0
    assert not result.folds[0].sharpe_defined


def test_holding_cash_is_degenerate_even_if_no_trades_are_required():
    assert scored(member(np.zeros(6), trades=0), min_trades=0).value == -10.0


@pytest.mark.parametrize("closes", [np.zeros(6), np.full(6, 0.01), 0.01 + np.linspace(0, 1e-12, 6)])
def test_a_market_without_spread_is_degenerate_whatever_the_policy(closes):
    result = scored(member(WAVE, closes=closes), member(WAVE, fold=1, closes=closes))
    assert result.value == -10.0
    assert "closes" in result.degenerate[0]


def test_one_window_with_moving_closes_is_enough():
    still = member(np.zeros(6), closes=np.zeros(6))
    assert scored(still, member(WAVE, fold=1)).degenerate == ()


def test_trades_are_counted_over_all_folds_of_a_seed():
    folds = [member(WAVE, fold=0, trades=1), member(WAVE, fold=1, trades=2)]
    assert scored(*folds, min_trades=3).degenerate == ()
    assert scored(*folds, min_trades=4).degenerate == ("seed 0: 3 trades, min_trades is 4",)


def test_one_bankrupt_seed_makes_the_trial_degenerate():
    fine = [member(WAVE, seed=0), member(WAVE, seed=0, fold=1)]
    ruined = [member(WAVE, seed=1), member([0.01, -1.0], seed=1, fold=1, bankrupt=True)]
    result = scored(*fine, *ruined)
    assert result.value == -10.0
    assert result.degenerate == ("seed 1: bankrupt in fold 1",)
    assert result.folds[3].total_return == -1.0


def test_other_scores_are_clipped_to_ten():
    steady = 0.01 + WAVE * 1e-3
    assert scored(member(steady)).value == 10.0
    negative = scored(member(-steady))
    assert negative.value == -10.0
    assert negative.degenerate == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_return_that_is_not_finite_fails_the_training(bad):
    with pytest.raises(NonFiniteError, match="net return NaN at step 1, member 1"):
        scored(member(WAVE), member([0.1, bad, 0.2], fold=1))


def test_seeds_must_have_the_same_folds_each_once():
    for members in ([], [member(WAVE), member(WAVE)], [member(WAVE), member(WAVE, seed=1, fold=1)]):
        with pytest.raises(ValueError, match=r"same folds|at least one member"):
            scored(*members)


def test_the_joined_objective_cannot_be_combined_from_ratios():
    with pytest.raises(ValueError, match="wf_sharpe"):
        combine_folds([1.0], "wf_sharpe")
    with pytest.raises(ValueError, match="at least one fold"):
        combine_folds([], "mean_fold")


@example(returns=[1e300, 1e300, -1.0], objective="wf_sharpe")
@settings(deadline=None, max_examples=60)
@given(
    returns=st.lists(st.floats(-1.0, 1e300, allow_subnormal=True), min_size=0, max_size=12),
    objective=st.sampled_from(["wf_sharpe", "mean_fold", "median_fold", "mean_minus_half_sd"]),
)
def test_no_field_is_ever_nan_or_infinite(returns, objective):
    result = scored(member(returns), member(returns[:3], fold=1), objective=objective)
    assert -10.0 <= result.value <= 10.0
    assert (result.value == -10.0) or not result.degenerate
    numbers = [result.value, result.standard_error, result.seed_spread, result.years]
    for fold in result.folds:
        numbers += [value for value in dataclasses.astuple(fold) if isinstance(value, float)]
    assert all(math.isfinite(number) for number in numbers)
