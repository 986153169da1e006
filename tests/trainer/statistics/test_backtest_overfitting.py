import itertools

import numpy as np
import pytest

from trainer.statistics.backtest_overfitting import backtest_overfitting


def slow_probability(returns, blocks):
    """The definition, one split at a time, for columns without ties."""
    cut = np.array_split(returns, blocks)
    below = []
    for chosen in itertools.combinations(range(blocks), blocks // 2):
        inside = np.concatenate([cut[k] for k in chosen])
        outside = np.concatenate([cut[k] for k in range(blocks) if k not in chosen])
        winner = np.argmax(inside.mean(0) / inside.std(0, ddof=1))
        ratios = outside.mean(0) / outside.std(0, ddof=1)
        rank = 1 + (ratios < ratios[winner]).sum()
        relative = rank / (returns.shape[1] + 1)
        below.append(0.5 if relative == 0.5 else float(relative < 0.5))
    return np.mean(below)


@pytest.mark.parametrize(("trials", "blocks"), [(2, 2), (4, 4), (5, 6), (7, 8)])
def test_the_vectorised_form_agrees_with_the_definition(trials, blocks):
    returns = np.random.default_rng(trials).normal(0, 0.01, (blocks * 9, trials))
    result = backtest_overfitting(returns, blocks)
    assert result.probability == pytest.approx(slow_probability(returns, blocks), abs=1e-12)


def test_one_trial_that_is_better_everywhere_is_no_overfitting():
    returns = np.random.default_rng(0).normal(0, 0.01, (320, 6))
    returns[:, 2] += 0.02
    result = backtest_overfitting(returns)
    assert result.probability == 0.0
    assert result.logits == pytest.approx(np.full(12870, np.log(6)))


def test_a_winner_of_one_half_that_loses_the_other_is_overfitting():
    swing = np.tile([0.01, 0.012], 8)
    returns = np.stack([np.r_[swing, -swing], np.r_[-swing, swing]], axis=1)
    assert backtest_overfitting(returns, blocks=2).probability == 1.0


def test_identical_columns_are_not_defined():
    column = np.random.default_rng(0).normal(0, 0.01, 64)
    assert backtest_overfitting(np.stack([column] * 4, axis=1), 4) is None
    assert backtest_overfitting(column[:, None], 4) is None


def test_ties_count_half():
    # Two columns whose ratios are equal on every half: rank 1.5 of 2 is the median of every split.
    column = np.tile([0.01, -0.02, 0.03, 0.01], 8)
    swapped = np.tile([0.03, 0.01, 0.01, -0.02], 8)
    assert backtest_overfitting(np.stack([column, swapped], axis=1), 8).probability == pytest.approx(0.5)


def test_duplicates_of_every_trial_leave_the_order_of_columns_without_effect():
    base = np.random.default_rng(4).normal(0, 0.01, (64, 3))
    doubled = np.concatenate([base, base], axis=1)
    turned = doubled[:, ::-1]
    assert backtest_overfitting(doubled, 8).probability == backtest_overfitting(turned, 8).probability


def test_trials_that_never_trade_tie_exactly_and_give_no_warning():
    returns = np.zeros((64, 4))
    returns[3:40, 0] = np.random.default_rng(0).normal(-0.01, 0.001, 37)
    result = backtest_overfitting(returns, 8)
    assert np.isfinite(result.logits).all()
    # The three flat trials share the win of every split that sees the loser lose, and outrank it again.
    assert result.probability < 0.5


def test_leading_rows_that_fill_no_block_are_left_out():
    returns = np.random.default_rng(2).normal(0, 0.01, (67, 4))
    result = backtest_overfitting(returns, 8)
    assert result.unused_rows == 3
    assert result.probability == backtest_overfitting(returns[3:], 8).probability


@pytest.mark.parametrize(("rows", "blocks"), [(64, 3), (64, 0), (15, 8)])
def test_odd_blocks_and_too_few_rows_are_refused(rows, blocks):
    with pytest.raises(ValueError, match="blocks even"):
        backtest_overfitting(np.zeros((rows, 2)), blocks)
