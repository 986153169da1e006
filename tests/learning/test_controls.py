"""The two ends of the scale: a market with nothing to learn, and one whose future is told."""

import numpy as np
import pytest

from trainer.data.synthetic import NOISE, no_signal, planted
from trainer.folds import Fold

FOLD = Fold(train_start=0, train_stop=6000, test_start=6002, test_stop=9002)
YEAR = 252
COST_BP = 0.02 * NOISE * 1e4  # .02 noise deviations per unit traded


def sharpe(returns):
    return float(returns.mean() / returns.std(ddof=1) * np.sqrt(YEAR))


@pytest.mark.slow
def test_without_a_signal_the_gross_sharpe_is_noise_and_the_net_is_lower_by_the_costs(
    proof_config, train_on_market, backend
):
    configs = [proof_config(fee_bp=COST_BP, seed=seed) for seed in range(8)]
    members = train_on_market(
        no_signal(FOLD.test_stop, seed=5), FOLD, configs, steps=500, backend=backend
    ).members
    gross = [each.returns + each.costs for each in members]
    standard_error = np.sqrt(YEAR / len(gross[0]))
    assert abs(np.mean([sharpe(each) for each in gross])) <= 2 * standard_error
    for each, before_costs in zip(members, gross, strict=True):
        closing = np.zeros_like(each.traded)
        closing[-1] = abs(each.positions[-1])
        drag = COST_BP * 1e-4 * (each.traded + closing)
        assert each.trades > 0
        np.testing.assert_allclose(before_costs - each.returns, drag, atol=1e-9)
        assert sharpe(each.returns) < sharpe(before_costs)


@pytest.mark.slow
def test_a_feature_that_tells_the_sign_of_the_next_return_is_found(proof_config, train_on_market, backend):
    configs = [proof_config(fee_bp=COST_BP, seed=seed) for seed in range(2)]
    members = train_on_market(
        planted(FOLD.test_stop, seed=6), FOLD, configs, steps=500, backend=backend
    ).members
    assert min(sharpe(each.returns) for each in members) >= 8
