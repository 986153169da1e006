"""The greedy walk over the test windows."""

import math

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.evaluation import evaluate
from trainer.folds import Fold
from trainer.members import Member

BUY, SELL, FLAT = 4, 0, 2
FREE = {"fee_bp": 0.0, "half_spread_bp": 0.0}


def walk(setup, policy):
    return evaluate(setup.tables, setup.hyper, setup.config, policy).members


def by_script(*exposure_indices):
    """Takes the given exposure at each bar, market and urgent, whatever the state."""
    calls = iter(exposure_indices)

    def policy(state):
        return torch.tensor([next(calls), 0, 2]).expand(*state.shape[:2], -1)

    return policy


def with_history(closes):
    """Forty training rows before the test window's own closes."""
    return np.concatenate([100 * 1.01 ** (np.arange(40) % 2), closes])


def test_a_window_of_n_rows_has_one_return_less_and_pays_for_the_forced_close(make_market, make_setup):
    market = make_market(with_history([100, 110, 99, 99]))
    setup = make_setup(market, [Fold(0, 38, 40, 44)], fee_bp=10.0, half_spread_bp=20.0, slippage_bp=20.0)
    (result,) = walk(setup, by_script(BUY, BUY, SELL))
    # opens equal the closes before: every market order fills where it was decided
    assert result.returns.tolist() == pytest.approx([0.1 - 0.005, -0.1, -0.01 - 0.005], abs=1e-12)
    assert result.positions.tolist() == [1.0, 1.0, -1.0]
    assert result.traded.tolist() == [1.0, 0.0, 2.0]
    assert result.costs.tolist() == pytest.approx([0.005, 0.0, 0.015], abs=1e-12)
    assert result.bars.tolist() == [41, 42, 43]
    assert result.buy_and_hold.tolist() == pytest.approx([0.1, -0.1, 0.0], abs=1e-12)
    assert (result.trades, result.turnover, result.bankrupt) == (2, 4.0, False)


def test_impact_is_counted_in_deviations_of_the_training_window(make_market, make_setup):
    market = make_market(with_history([100, 110, 99, 99]))
    fold = Fold(0, 38, 40, 44)
    setup = make_setup(market, [fold], **FREE, impact=2.0, participation=0.25)
    (result,) = walk(setup, by_script(BUY, BUY, SELL))
    unit = 2.0 * 0.5 * float(setup.tables.exact_sigma[0])
    assert unit > 0.005
    expected = [unit, 0.0, unit * 2 * math.sqrt(2) + unit]
    assert result.impact.tolist() == pytest.approx(expected, rel=1e-7)
    assert result.costs.tolist() == result.impact.tolist()
    assert result.returns.tolist() == pytest.approx(np.subtract([0.1, -0.1, 0.0], expected), rel=1e-7)


@pytest.mark.parametrize("side", [BUY, SELL])
def test_a_round_trip_loses_what_it_costs(make_market, make_setup, side):
    market = make_market(with_history([100, 100, 100, 100]))
    setup = make_setup(market, [Fold(0, 38, 40, 44)], fee_bp=50.0, half_spread_bp=0.0)
    (result,) = walk(setup, by_script(side, FLAT, FLAT))
    assert np.prod(1 + result.returns) - 1 == pytest.approx(-0.009975, abs=1e-9)


def test_a_contract_through_negative_prices_compounds_its_money(make_market, make_setup):
    market = make_market(with_history([18.27, -37.63, 10.01]))
    setup = make_setup(market, [Fold(0, 38, 40, 43)], **FREE, **{"data.returns": "difference"})
    (result,) = walk(setup, by_script(BUY, BUY))
    assert result.returns.tolist() == pytest.approx([-0.559, 1.080272], abs=1e-6)
    assert np.prod(1 + result.returns) == pytest.approx(0.9174, abs=1e-12)
    assert result.buy_and_hold.tolist() == pytest.approx([-0.559, 1.080272], abs=1e-6)
    assert result.close_returns.tolist() == pytest.approx([-0.559, 0.4764], abs=1e-12)


def test_a_policy_that_holds_cash_has_returns_of_zero_and_no_trades(
    random_market, make_setup, constant_policy
):
    setup = make_setup(random_market(80), [Fold(0, 38, 40, 80)])
    (result,) = walk(setup, constant_policy(FLAT, 0, 2))
    assert result.returns.tolist() == [0.0] * 39
    assert (result.trades, result.turnover, result.bankrupt) == (0, 0.0, False)


def test_final_equity_falls_strictly_as_the_fee_rises(random_market, make_setup):
    base = TrainerConfig().with_overrides({"episodes": 2, "episode_length": 8})
    configs = [base.with_overrides({"fee_bp": fee}) for fee in (0.0, 5.0, 10.0, 50.0)]
    fold = Fold(0, 38, 40, 80)
    setup = make_setup(random_market(80), [fold] * 4, [(0, 0)] * 4, configs=configs)
    results = walk(setup, by_script(*([BUY, SELL, FLAT] * 13)))
    final = [float(np.prod(1 + result.returns)) for result in results]
    assert final == sorted(final, reverse=True)
    assert len(set(final)) == 4
    assert results[0].trades == 39


def test_a_bankrupt_member_is_cut_after_the_bar_that_ruined_it(make_market, make_setup):
    market = make_market(with_history([100, 101, 350, 100, 100]))
    setup = make_setup(market, [Fold(0, 38, 40, 45)], **FREE)
    (result,) = walk(setup, by_script(SELL, SELL, SELL, SELL))
    assert result.returns.tolist() == pytest.approx([-0.01, -1.0], abs=1e-12)
    assert np.prod(1 + result.returns) == 0.0
    assert result.bankrupt
    assert result.positions.tolist() == [-1.0, -1.0]
    assert result.buy_and_hold.size == result.bars.size == 2
    assert result.close_returns.size == 4
    assert result.turnover == 1.0


def test_buy_and_hold_under_difference_returns_ends_at_zero_equity(make_market, make_setup, constant_policy):
    market = make_market(with_history([50, -60, 50, 60]))
    setup = make_setup(market, [Fold(0, 38, 40, 44)], **FREE, **{"data.returns": "difference"})
    (result,) = walk(setup, constant_policy(FLAT, 0, 2))
    assert result.buy_and_hold.tolist() == [-1.0, 0.0, 0.0]


def test_windows_of_other_lengths_are_each_walked_as_if_alone(random_market, make_setup):
    market = random_market(120)
    folds = [Fold(0, 38, 40, 60), Fold(10, 60, 62, 110), Fold(0, 70, 72, 74)]

    def policy(state):
        return ((state[..., 8:] * 10).abs().long() % torch.tensor([5, 3, 3])).long()

    together = walk(make_setup(market, folds, dtype=torch.float32), policy)
    for fold, result in zip(folds, together, strict=True):
        (alone,) = walk(make_setup(market, [fold], dtype=torch.float32), policy)
        assert result.returns.size == fold.test_stop - fold.test_start - 1
        for name in ("bars", "returns", "positions", "traded", "costs", "buy_and_hold", "close_returns"):
            assert np.array_equal(getattr(result, name), getattr(alone, name))
        assert (result.trades, result.turnover) == (alone.trades, alone.turnover)
    assert together[1].trades > 5


def test_a_walk_never_reads_outside_the_test_windows(make_market, random_market, make_setup, constant_policy):
    fold = Fold(0, 38, 40, 60)
    source = random_market(80)

    def poisoned(values):
        values = np.array(values, dtype=np.float64)
        values[38:40] = np.nan
        values[60:] = np.nan
        return values

    bars = source.bars
    prices = [poisoned(each) for each in (bars.close, bars.open, bars.high, bars.low)]
    setup = make_setup(make_market(*prices, features=poisoned(source.features)), [fold])
    seen = []

    def policy(state):
        seen.append(bool(torch.isfinite(state).all()))
        return constant_policy(BUY, 2, 0)(state)

    (result,) = walk(setup, policy)
    assert all(seen)
    assert len(seen) == 19
    assert np.isfinite(result.returns).all()


def test_bookkeeping_restarts_every_episode_length_while_position_and_equity_carry_over(
    make_market, make_setup
):
    market = make_market(with_history(100 * 1.01 ** np.arange(12)))
    setup = make_setup(market, [Fold(0, 38, 40, 52)], episode_length=4, **FREE)
    states = []

    def policy(state):
        states.append(state[0, 0, :8].clone())
        return torch.tensor([BUY, 0, 2]).expand(1, 1, 3)

    (result,) = walk(setup, policy)
    sigma = setup.tables.sigma.item()
    shown = torch.stack(states)
    step = math.log(1.01) / (sigma * 2)
    assert shown[:, 0].tolist() == [1.0] * 11  # goal.eval
    achieved = [step * (bar % 4) for bar in range(11)]
    assert shown[:, 1].tolist() == pytest.approx(achieved, abs=1e-9)
    assert shown[:, 2].tolist() == [0.0] + [1.0] * 10
    unrealised = [min((1.01**bar - 1) / sigma, 10) for bar in range(11)]
    assert shown[:, 3].tolist() == pytest.approx(unrealised, abs=1e-9)
    assert shown[:, 4].tolist() == [0.25 * (bar % 4) for bar in range(11)]
    assert shown[:, 5].tolist() == [0.25 * (bar % 4) for bar in range(11)]
    for bar in (0, 4, 8):
        assert shown[bar, 6:].tolist() == [0.0, 0.0]
    assert result.trades == 1
    assert result.returns.tolist() == pytest.approx([0.01] * 11, abs=1e-12)


def test_training_and_evaluation_show_a_policy_the_same_states(random_market, make_setup, constant_policy):
    market = random_market(60)
    setup = make_setup(market, [Fold(0, 20, 20, 60)], episodes=1, episode_length=19)
    environment = setup.environment
    environment.begin_lanes()
    while environment.observation().row.item() != 0:  # one start fits at row 0 alone
        environment.steps += 1
        environment.begin_lanes()
    replica = make_setup(market, [Fold(0, 20, 0, 20)], episodes=1, episode_length=19)
    seen = []

    def policy(state):
        seen.append(state[..., 1:8].clone())
        return constant_policy(BUY, 2, 1)(state)

    (result,) = walk(replica, policy)
    for position in range(19):
        assert torch.allclose(environment.observation().prefix[..., 1:], seen[position], atol=1e-12)
        environment.step(constant_policy(BUY, 2, 1)(environment.observation().prefix), position)
    assert result.returns.size == 19


def test_outcomes_carry_seed_and_fold_in_stack_order(random_market, make_setup, constant_policy):
    folds = [Fold(0, 38, 40, 50), Fold(0, 48, 50, 62)]
    setup = make_setup(random_market(80), folds)
    evaluation = evaluate(setup.tables, setup.hyper, setup.config, constant_policy(BUY, 0, 2))
    outcomes = evaluation.outcomes([Member(3, 0), Member(3, 1)])
    assert [(each.seed, each.fold, each.returns.size, each.trades) for each in outcomes] == [
        (3, 0, 9, 1),
        (3, 1, 11, 1),
    ]
    with pytest.raises(ValueError, match="longer"):
        evaluation.outcomes([Member(3, 0)])


def test_a_short_window_at_the_end_of_the_data_waits_for_a_longer_one_on_its_last_bar(
    random_market, make_setup, constant_policy
):
    setup = make_setup(random_market(80), [Fold(0, 38, 40, 70), Fold(0, 38, 76, 80)])
    rows = []

    def policy(state):
        rows.append(state[1, 0, 8:].clone())
        return constant_policy(BUY, 0, 2)(state)

    results = walk(setup, policy)
    assert [result.returns.size for result in results] == [29, 3]
    assert all(torch.equal(row, rows[2]) for row in rows[2:])
    assert not torch.equal(rows[1], rows[2])
