from dataclasses import replace

import numpy as np
import pytest
import torch

from hpo.report.cost_sweep import Terms, break_even, cost_sweep, returns_at, sweep_lines, terms_of
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.evaluation import evaluate
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows, read_evaluation
from trainer.folds import split
from trainer.hyperparameters import Hyperparameters
from trainer.market_tables import MarketTables
from trainer.statistics.sharpe import annualised_sharpe
from trainer.training import run_training

SMALL = {
    "data.path": "synthetic:known_answer:600:1",
    "folds": 2,
    "min_folds": 2,
    "seeds": 2,
    "epochs": 1,
    "updates": 4,
    "episodes": 4,
    "episode_length": 16,
    "batch_size": 16,
    "capacity": 256,
    "trunk_widths": [8],
    "head_width": 8,
    "training.backend": "reference",
}


def rows(position, ret, cost):
    """One seed, two folds of equal length."""
    count = len(position)
    return EvaluationRows(
        seed=np.zeros(count, np.int64),
        fold=np.arange(count) * 2 // count,
        time=np.arange(count),
        ret=np.array(ret),
        position=np.array(position),
        benchmark=np.zeros(count),
        cost=np.array(cost),
        impact=np.zeros(count),
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(config, folder, result) of one training at 2 basis points."""
    config = TrainerConfig().with_overrides(SMALL)
    folder = tmp_path_factory.mktemp("trained")
    return config, folder, run_training(config, load_market(config), folder)


def test_at_the_cost_of_training_the_returns_and_the_score_are_those_of_the_trial(trained):
    config, folder, result = trained
    stored = read_evaluation(folder / EVALUATION_FILE)
    assert stored.cost.sum() > 0
    assert not stored.impact.any()  # none by default
    np.testing.assert_array_equal(returns_at(stored, 2.0, Terms(2.0)), stored.ret)
    year = load_market(config).periods_per_year
    (point,) = (each for each in cost_sweep(stored, [0.0, 10.0], Terms(2.0), year) if each.trained)
    assert point.cost == 2.0
    per_seed = [ratio for _, ratio in result.score.per_seed]
    assert point.ratio == pytest.approx(np.mean(per_seed), abs=1e-6)  # the file keeps seven digits


def test_every_cost_grows_in_the_ratio_of_the_two():
    """Half a position bought at 3 basis points: 1.5 paid of the equity; at 12 it is 6."""
    bought = rows([0.5, 0.5], [0.01 - 1.5e-4, 0.02], [1.5e-4, 0.0])
    np.testing.assert_allclose(returns_at(bought, 12.0, Terms(3.0)), [0.01 - 6e-4, 0.02], atol=1e-15)
    np.testing.assert_allclose(returns_at(bought, 0.0, Terms(3.0)), [0.01, 0.02], atol=1e-15)


def test_a_trial_without_costs_pays_for_every_change_of_position_and_for_the_close():
    # fold 0 holds .5, -.5: it trades .5 and 1 and closes .5; fold 1 holds 0, 1 and closes 1
    free = rows([0.5, -0.5, 0.0, 1.0], [0.01] * 4, [0.0] * 4)
    np.testing.assert_allclose(returns_at(free, 10.0, Terms(0.0)), [0.0095, 0.0085, 0.01, 0.008], atol=1e-15)
    assert break_even(free, Terms(0.0)) == pytest.approx(0.04 / (4.0 * 1e-4))


def test_rows_in_any_order_pay_the_same():
    free = rows([0.5, -0.5, 0.0, 1.0], [0.01] * 4, [0.0] * 4)
    order = [2, 0, 3, 1]
    mixed = EvaluationRows(*(getattr(free, name)[order] for name in EvaluationRows.__dataclass_fields__))
    np.testing.assert_array_equal(
        returns_at(mixed, 10.0, Terms(0.0)), returns_at(free, 10.0, Terms(0.0))[order]
    )


def test_the_sharpe_ratio_falls_with_the_cost_and_crosses_zero_at_the_break_even():
    draws = np.random.default_rng(0)
    cost = np.full(400, 2e-4)
    stored = rows(np.ones(400), draws.normal(0.0006, 0.01, 400) - cost, cost)
    limit = break_even(stored, Terms(4.0))
    points = cost_sweep(stored, [0.0, 1.0, limit, 40.0], Terms(4.0), 252.0)
    ratios = [point.ratio for point in points]
    assert ratios == sorted(ratios, reverse=True)
    assert next(point.ratio for point in points if point.cost == limit) == pytest.approx(0.0, abs=1e-9)
    gross = stored.ret + stored.cost
    assert points[0].ratio == pytest.approx(annualised_sharpe(gross, 252.0))
    assert points[0].drag == 0.0
    assert next(point for point in points if point.trained).drag == pytest.approx(2e-4 * 252.0)


def test_positions_that_lose_without_costs_have_no_break_even():
    losing = rows([1.0, 1.0], [-0.01, -0.01], [1e-4, 1e-4])
    assert break_even(losing, Terms(1.0)) is None
    assert sweep_lines(cost_sweep(losing, [0.0], Terms(1.0), 252.0), None)[-1] == "no break-even cost"


def test_no_bar_loses_more_than_everything():
    assert returns_at(rows([1.0, 1.0], [-0.5, -0.9], [0.1, 0.1]), 100.0, Terms(1.0)).tolist() == [-1.0, -1.0]


def test_a_market_order_costs_fee_half_spread_and_slippage():
    bars = rows([0.0], [0.0], [0.0])
    environment = {"fee_bp": 1.0, "half_spread_bp": 0.5, "slippage_bp": 0.25}
    contract = {"returns": "difference"}
    assert terms_of({"environment": environment}, bars) == Terms(1.75)
    assert terms_of({"environment": environment, "data": contract}, bars) == Terms(1.75, relative=False)
    assert terms_of({}, bars) is None
    free = dict.fromkeys(environment, 0.0)
    assert terms_of({"environment": free}, bars) == Terms(0.0)
    assert terms_of({"environment": free, "data": contract}, bars) is None
    assert terms_of({"environment": environment}, replace(bars, cost=np.array([np.nan]))) is None


def test_what_impact_took_stays_at_every_cost():
    bought = replace(rows([0.5, 0.5], [0.01, 0.02], [5e-4, 0.0]), impact=np.array([2e-4, 0.0]))
    np.testing.assert_allclose(returns_at(bought, 0.0, Terms(3.0)), [0.0103, 0.02], atol=1e-15)
    np.testing.assert_allclose(returns_at(bought, 6.0, Terms(3.0)), [0.0097, 0.02], atol=1e-15)
    assert break_even(bought, Terms(3.0)) == pytest.approx(3.0 * 0.0303 / 3e-4)


def test_a_window_that_loses_everything_ends_there_and_a_bankrupt_one_stays_so():
    lost = rows([1.0] * 4, [-0.5, 0.2, -1.0, 0.0], [0.1, 0.0, 0.1, 0.0])
    assert returns_at(lost, 10.0, Terms(1.0)).tolist() == [-1.0, 0.0, -1.0, 0.0]
    assert returns_at(lost, 0.0, Terms(1.0))[2] == -1.0


def test_contracts_follow_their_money_anew():
    """.1 of 1 earned and .01 paid, then .2 and .02 of 1.09; at twice the cost 1.08 is left to begin with."""
    ret, cost = [0.09, 0.18 / 1.09], [0.01, 0.02 / 1.09]
    stored = replace(rows([1.0, 1.0], ret, cost), fold=np.zeros(2, np.int64))
    terms = Terms(5.0, relative=False)
    np.testing.assert_allclose(returns_at(stored, 5.0, terms), ret, atol=1e-15)
    np.testing.assert_allclose(returns_at(stored, 10.0, terms), [0.08, 0.16 / 1.08], atol=1e-15)
    assert break_even(stored, terms) == pytest.approx(5.0 * 0.3 / 0.03)


@pytest.mark.parametrize("returns", ["percent", "difference"])
def test_positions_walked_at_another_cost_earn_what_the_sweep_says(returns):
    """The same exposures through the ledger at 2 and at 12 basis points, market orders and limit orders."""
    base = TrainerConfig().with_overrides(
        {**SMALL, "data.returns": returns, "impact": 0.3, "training.dtype": "float64"}
    )
    market = load_market(base)
    folds = split(len(market.bars), base.walk_forward).folds
    walks = []
    for share in (1.0, 6.0):
        config = base.with_overrides({"fee_bp": share, "half_spread_bp": share})
        tables = MarketTables.build(market, folds, config, torch.float64, torch.device("cpu"))
        hyper = Hyperparameters.stack([config] * len(folds), torch.float64, torch.device("cpu"))
        draws = torch.Generator().manual_seed(0)
        limit = torch.tensor([5, 3, 3])
        walks.append(
            evaluate(
                tables,
                hyper,
                config,
                lambda state: (torch.rand((*state.shape[:2], 3), generator=draws) * limit).long(),  # noqa: B023
            ).members
        )
    for fold, (cheap, dear) in enumerate(zip(*walks, strict=True)):
        np.testing.assert_array_equal(cheap.positions, dear.positions)
        assert cheap.impact.sum() > 0
        size = cheap.returns.size
        stored = EvaluationRows(
            seed=np.zeros(size, np.int64),
            fold=np.full(size, fold),
            time=cheap.bars,
            ret=cheap.returns,
            position=cheap.positions,
            benchmark=cheap.buy_and_hold,
            cost=cheap.costs,
            impact=cheap.impact,
        )
        terms = terms_of(base.model_dump(), stored)
        np.testing.assert_allclose(returns_at(stored, 12.0, terms), dear.returns, rtol=0, atol=1e-12)
