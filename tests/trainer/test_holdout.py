"""The hold-out: which bars, which models, which figures."""

from dataclasses import replace

import numpy as np
import pytest

from trainer.errors import ConfigError
from trainer.file_names import WEIGHTS
from trainer.holdout import Performance, evaluate_holdout
from trainer.policy_file import read_policy


@pytest.fixture(scope="module")
def market(random_market):
    return random_market(300)


@pytest.fixture(scope="module")
def policy(market, train_tiny):
    return read_policy(train_tiny(market, seeds=2) / WEIGHTS)


def test_the_last_fifth_is_traded_by_the_last_fold(policy, market):
    result = evaluate_holdout(policy, market)
    assert (result.start, result.stop, result.fold) == (240, 300, 2)
    assert result.train.test_stop <= 240
    assert [each.seed for each in result.seeds] == [0, 1]
    assert [each.performance.bars for each in result.seeds] == [59, 59]


def test_buy_and_hold_is_the_move_of_the_closes(policy, market):
    close = market.bars.close
    held = evaluate_holdout(policy, market).buy_and_hold
    assert held.total_return == pytest.approx(close[299] / close[240] - 1, rel=1e-12)
    assert held == Performance.of(close[241:] / close[240:299] - 1, 252.0)


def test_the_figures_are_those_of_the_walk(policy, market):
    walked = policy.walk(market, 240, 300).evaluation.members
    for found, each in zip(evaluate_holdout(policy, market).seeds, walked, strict=True):
        returns = each.returns
        assert found.trades == each.trades > 0
        ratio = returns.mean() / returns.std(ddof=1)
        assert found.performance.sharpe == pytest.approx(ratio * np.sqrt(252), rel=1e-9)
        error = np.sqrt((1 + ratio**2 / 2) / 59 * 252)
        assert found.performance.standard_error == pytest.approx(error, rel=1e-9)
        equity = np.concatenate([[1.0], np.cumprod(1 + returns)])
        deepest = (equity / np.maximum.accumulate(equity) - 1).min()
        assert found.performance.max_drawdown == pytest.approx(deepest, rel=1e-9)
        assert found.performance.total_return == pytest.approx(equity[-1] - 1, rel=1e-9)


def test_bars_before_the_hold_out_do_not_move_it(policy, market):
    features = market.features.copy()
    features[:240] += 1.0
    assert evaluate_holdout(policy, replace(market, features=features)) == evaluate_holdout(policy, market)


def test_returns_without_spread_have_no_ratio():
    flat = Performance.of(np.zeros(3), 252.0)
    assert flat == Performance(None, None, 0.0, 0.0, 3)


def test_other_data_is_refused(policy, market):
    with pytest.raises(ConfigError, match=r"data\.path: the policy was trained on data with hash test, but"):
        evaluate_holdout(policy, replace(market, data_hash="other"))


def test_no_hold_out_is_said(market, train_tiny):
    policy = read_policy(train_tiny(market, holdout_frac=0.0) / WEIGHTS)
    with pytest.raises(ConfigError, match=r"walk_forward\.holdout_frac: 0 leaves 0 of 300 bars untouched"):
        evaluate_holdout(policy, market)
