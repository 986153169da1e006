"""Learning against a market whose best Sharpe ratio is known, and which a myopic agent cannot solve.

The bounds leave room for seeds; a working learner reaches about .80 of the optimum with either target,
and without bootstrapping about .40.
"""

import numpy as np
import pytest

from trainer.data.known_optimum import optimum
from trainer.data.synthetic import COST_BP, NOISE, PERSISTENCE, STRENGTH, known_answer
from trainer.folds import Fold

EXPOSURES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
FOLD = Fold(train_start=0, train_stop=20_000, test_start=20_002, test_stop=24_002)
SEEDS = range(3)
YEAR = 252


@pytest.fixture(scope="module")
def market():
    return known_answer(FOLD.test_stop, seed=1)


@pytest.fixture(scope="module")
def best_sharpe(market):
    close = market.bars.close[FOLD.test_start : FOLD.test_stop]
    signal = market.features[FOLD.test_start : FOLD.test_stop - 1, 0].astype(np.float64)
    return optimum(
        signal,
        (close[1:] / close[:-1] - 1) / NOISE,
        EXPOSURES,
        persistence=PERSISTENCE,
        strength=STRENGTH,
        cost=COST_BP * 1e-4 / NOISE,
        periods_per_year=YEAR,
    )


def mean_sharpe(members):
    return float(
        np.mean([each.returns.mean() / each.returns.std(ddof=1) * np.sqrt(YEAR) for each in members])
    )


@pytest.mark.slow
def test_iql_reaches_the_optimum_with_return_and_with_differential_sharpe(
    proof_config, train_on_market, backend, market, best_sharpe
):
    configs = [
        proof_config(fee_bp=COST_BP, reward=reward, seed=seed)
        for reward in ("return", "dsr")
        for seed in SEEDS
    ]
    members = train_on_market(market, FOLD, configs, steps=3000, backend=backend).members
    assert mean_sharpe(members[:3]) >= 0.60 * best_sharpe
    assert mean_sharpe(members[3:]) >= 0.60 * best_sharpe


@pytest.mark.slow
def test_double_dqn_reaches_the_optimum_and_without_a_discounted_future_it_does_not(
    proof_config, train_on_market, backend, market, best_sharpe
):
    far_sighted = {"gamma": 0.95, "polyak_tau": 0.02}
    myopic = {"gamma": 0.0, "polyak_tau": 0.01}
    configs = [
        proof_config(fee_bp=COST_BP, reward="return", use_iql=False, seed=seed, **rule)
        for rule in (far_sighted, myopic)
        for seed in SEEDS
    ]
    members = train_on_market(market, FOLD, configs, steps=2000, backend=backend).members
    assert mean_sharpe(members[:3]) >= 0.65 * best_sharpe
    assert mean_sharpe(members[3:]) <= 0.55 * best_sharpe
