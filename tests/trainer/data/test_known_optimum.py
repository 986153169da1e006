import numpy as np
import pytest

from trainer.data.known_optimum import best_policy, optimum, walk

EXPOSURES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])


def ar1(rows, seed):
    draws = np.random.default_rng(seed).standard_normal((2, rows))
    x = np.empty(rows)
    x[0] = draws[0, 0]
    for t in range(1, rows):
        x[t] = 0.9 * x[t - 1] + np.sqrt(1 - 0.81) * draws[0, t]
    return x, 0.3 * x + draws[1]


def test_without_cost_or_risk_aversion_the_best_policy_holds_the_sign_of_x():
    grid, policy = best_policy(EXPOSURES, persistence=0.9, strength=0.3, cost=0.0, risk_aversion=0.0)
    assert (policy[grid < -1e-9] == 0).all()
    assert (policy[grid > 1e-9] == 4).all()


def test_a_cost_makes_the_position_worth_keeping():
    grid, policy = best_policy(EXPOSURES, persistence=0.9, strength=0.3, cost=0.7, risk_aversion=0.2)
    kept = policy == np.arange(len(EXPOSURES))
    assert kept[np.abs(grid) < 0.05, 1:4].all(), "half positions survive a signal of 0"
    assert policy[len(grid) // 2].tolist() == [1, 1, 2, 3, 3], "full positions are cut to half"


def test_values_that_do_not_settle_give_no_policy(monkeypatch):
    monkeypatch.setattr("trainer.data.known_optimum.MAX_SWEEPS", 2)
    with pytest.raises(ArithmeticError, match="must settle within 1e-07 in 2 sweeps, but moved by"):
        best_policy(EXPOSURES, persistence=0.9, strength=0.3, cost=0.7, risk_aversion=0.2)


def test_the_walk_pays_for_entry_change_and_the_forced_close():
    grid = exposures = np.array([-1.0, 0.0, 1.0])
    always_long = np.full((3, 3), 2)
    net = walk(always_long, grid, exposures, np.zeros(2), np.ones(2), 0.1)
    assert net.tolist() == pytest.approx([0.9, 0.9])


def test_the_optimum_on_a_long_market_is_near_2_8_a_year():
    x, returns = ar1(20_000, 1)
    best = optimum(x, returns, EXPOSURES, persistence=0.9, strength=0.3, cost=0.7, periods_per_year=252)
    assert 2.5 < best < 3.2


def test_no_threshold_rule_on_the_signal_beats_the_optimum():
    x, returns = ar1(20_000, 2)
    best = optimum(x, returns, EXPOSURES, persistence=0.9, strength=0.3, cost=0.7, periods_per_year=252)
    for threshold in (0.0, 0.5, 1.0, 1.5):
        position = np.where(np.abs(x) > threshold, np.sign(x), 0)
        net = position * returns - 0.7 * np.abs(np.diff(position, prepend=0))
        assert net.mean() / net.std() * np.sqrt(252) < best
