"""The market environment: windows, starts, restarts, goals and rewards."""

import math

import numpy as np
import pytest
import torch

from trainer.config import TrainerConfig
from trainer.errors import ConfigError
from trainer.folds import Fold
from trainer.market_environment import goal_table
from trainer.market_tables import MarketTables

CPU = torch.device("cpu")
BUY, SELL, FLAT = 4, 0, 2


def act(environment, *indices):
    return torch.tensor(indices).expand(environment.members, environment.lanes, -1)


def test_moves_and_sigma_are_those_of_the_training_window(make_market):
    market = make_market([100, 110, 99, 99, 50, 80], open=[100, 105, 110, 98, 99, 50])
    config = TrainerConfig().with_overrides({"episode_length": 2})
    tables = MarketTables.build(market, [Fold(0, 4, 4, 6)], config, torch.float32, CPU)
    assert tables.bars.moves[:3, 3].tolist() == pytest.approx([0.1, -0.1, 0.0], abs=1e-7)
    assert tables.bars.moves[:3, 0].tolist() == pytest.approx([0.05, 0.0, 98 / 99 - 1], abs=1e-7)
    assert tables.exact_sigma.item() == pytest.approx(np.std([0.1, -0.1, 0.0]), abs=1e-15)
    assert tables.bars.moves.dtype == torch.float32
    assert tables.exact_bars.moves.dtype == torch.float64


def test_sigma_under_difference_returns_is_in_units_of_the_capital_and_never_zero(make_market):
    config = TrainerConfig().with_overrides(
        {"episode_length": 2, "data.returns": "difference", "capital": 50.0}
    )
    tables = MarketTables.build(
        make_market([10, -10, 5, 5, 5, 5, 5, 5]),
        [Fold(0, 4, 4, 6), Fold(3, 6, 6, 8)],
        config,
        torch.float64,
        CPU,
    )
    assert tables.sigma.tolist() == pytest.approx([np.std([-20 / 50, 15 / 50, 0]), 1e-6])
    assert tables.bars.notional.tolist() == pytest.approx([0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.parametrize("last", [100.0, 3.7e-5, 64231.17])
def test_the_smallest_trade_through_the_last_close_is_seen_in_float32(make_market, last):
    low, high = np.nextafter(last, 0), np.nextafter(last, np.inf)
    market = make_market([last] * 6, low=[last, low] * 3, high=[last, high] * 3)
    config = TrainerConfig().with_overrides({"episode_length": 2})
    tables = MarketTables.build(market, [Fold(0, 4, 4, 6)], config, torch.float32, CPU)
    assert (tables.bars.moves[:, 2] < 0).tolist() == [True, False, True, False, True]
    assert (tables.bars.moves[:, 1] > 0).tolist() == [True, False, True, False, True]


def test_a_training_window_without_room_for_a_lane_is_refused(random_market):
    config = TrainerConfig().with_overrides({"episode_length": 20})
    market = random_market(60)
    MarketTables.build(market, [Fold(0, 21, 25, 40)], config, torch.float32, CPU)
    message = r"environment.episode_length: .*20 >= 20 .*walk_forward.train"
    with pytest.raises(ConfigError, match=message):
        MarketTables.build(market, [Fold(0, 40, 42, 60), Fold(1, 21, 25, 40)], config, torch.float32, CPU)
    with pytest.raises(ConfigError, match=r"walk_forward.test: .*but got 1"):
        MarketTables.build(market, [Fold(0, 40, 42, 43)], config, torch.float32, CPU)


def test_starts_are_uniform_over_the_rows_from_which_the_lane_fits(random_market, make_setup):
    setup = make_setup(random_market(60), [Fold(7, 28, 30, 60)], episodes=4000, episode_length=8)
    setup.environment.begin_lanes()
    rows = setup.environment.observation().row[0]
    # 21 rows and 8 bars: starts 7 to 19, the last of which ends at row 27.
    counts = torch.bincount(rows, minlength=28)
    assert counts[:7].sum() == counts[20:].sum() == 0
    expected = 4000 / 13
    chi_square = float(((counts[7:20] - expected) ** 2 / expected).sum())
    assert chi_square < 32.9  # 12 degrees of freedom, 0.1 %


@pytest.mark.parametrize("wild", [False, True])
def test_a_lane_never_reads_outside_its_training_window(make_market, random_market, make_setup, wild):
    inside = random_market(200, wild=wild)
    fold = Fold(60, 90, 92, 140)

    def poisoned(values):
        values = np.array(values, dtype=np.float64)
        values[: fold.train_start] = np.nan
        values[fold.train_stop :] = np.nan
        return values

    bars = inside.bars
    prices = [poisoned(each) for each in (bars.close, bars.open, bars.high, bars.low)]
    market = make_market(*prices, features=poisoned(inside.features))
    environment = make_setup(market, [fold], episodes=64).environment
    ended = 0
    for _ in range(5):
        environment.begin_lanes()
        for position in range(8):
            result = environment.step(act(environment, SELL, 0, 2), position)
            ended += int(result.terminated.sum())
            observation = environment.observation()
            states = environment.table.rows(observation.row)
            shown = (states, observation.prefix, result.next_prefix, result.reward)
            assert all(bool(torch.isfinite(each).all()) for each in shown)
            left = 8 - 1 - position
            assert int(observation.row.min()) >= fold.train_start
            assert int(observation.row.max()) + left <= fold.train_stop - 1
    assert (ended > 10) == wild


def test_a_restart_is_a_fresh_episode_with_a_new_goal_at_a_new_row(random_market, make_setup):
    setup = make_setup(random_market(150, wild=True), [Fold(0, 140, 142, 150)], episodes=256)
    environment = setup.environment
    environment.begin_lanes()
    before = environment.observation().prefix.clone()
    row = environment.observation().row.clone()
    result = environment.step(act(environment, SELL, 0, 2), 0)
    ended = result.terminated
    assert 10 < int(ended.sum()) < 256
    ruined = math.log(1e-6) / (setup.tables.sigma.item() * math.sqrt(8))  # equity counts as 1e-6
    assert result.next_prefix[ended][:, 1].tolist() == pytest.approx([max(ruined, -10)] * int(ended.sum()))
    after = environment.observation()
    assert torch.equal(after.prefix[ended][:, 1:], before[ended][:, 1:])
    assert bool((after.prefix[ended][:, 0] != before[ended][:, 0]).float().mean() > 0.95)
    assert bool((after.row[ended] != row[ended] + 1).float().mean() > 0.9)
    assert len(after.row[ended].unique()) > 5


def test_goals_are_normal_and_kept_over_an_episode(random_market, make_setup):
    environment = make_setup(random_market(60), [Fold(0, 50, 52, 60)], episodes=4000).environment
    environment.begin_lanes()
    first = environment.observation().prefix[0, :, 0].clone()
    assert first.mean().item() == pytest.approx(0, abs=0.06)
    assert first.std().item() == pytest.approx(1, abs=0.06)
    for position in range(8):
        result = environment.step(act(environment, BUY, 0, 2), position)
        assert torch.equal(result.next_prefix[0, :, 0], first)
    environment.begin_lanes()
    assert not torch.equal(environment.observation().prefix[0, :, 0], first)


def test_the_goal_table_holds_the_quantiles_of_the_normal_distribution():
    table = goal_table(torch.float64, CPU)
    assert table.std().item() == pytest.approx(1, abs=1e-3)
    assert torch.equal(table, -table.flip(0)) or torch.allclose(table, -table.flip(0), atol=1e-12)
    assert bool((table[1:] > table[:-1]).all())


def test_the_prefix_after_one_bar_is_the_one_worked_by_hand(make_market, make_setup):
    growth = np.where(np.arange(60) % 2, 1.02, 0.99)
    market = make_market(100 * np.cumprod(growth))
    overrides = {"fee_bp": 10.0, "half_spread_bp": 0.0, "fill": "next_open", "episode_length": 16}
    setup = make_setup(market, [Fold(0, 50, 52, 60)], episodes=32, **overrides)
    environment = setup.environment
    environment.begin_lanes()
    rising = (environment.observation().row[0] + 1) % 2 == 1
    result = environment.step(act(environment, BUY, 0, 1), 0)  # two thirds, at the open = the last close
    sigma = setup.tables.sigma.item()
    move = torch.tensor([-0.01, 0.02], dtype=torch.float64)[rising.long()]
    ret = 2 / 3 * (move - 0.001)
    a, v = 0.005 * ret, 0.995 * (sigma**2 + 0.005 * ret**2)
    columns = result.next_prefix[0].unbind(-1)
    expected = [
        (1 + ret).log() / (sigma * 4),
        torch.full_like(ret, 2 / 3),
        2 / 3 * move / sigma,
        torch.full_like(ret, 1 / 16),
        torch.full_like(ret, 1 / 16),
        a / v.sqrt(),
        (v / sigma**2).log() / 2,
    ]
    for column, value in zip(columns[1:], expected, strict=True):
        assert torch.allclose(column, value, rtol=0, atol=1e-11)
    assert torch.allclose(result.reward[0], (ret / sigma).clamp(-5, 5), rtol=0, atol=1e-11)
    first_moment, variance = environment.moments()
    assert first_moment == pytest.approx(a.mean().item(), abs=1e-15)
    assert variance == pytest.approx(v.mean().item(), abs=1e-15)


def test_members_of_one_stack_may_differ_in_costs_rate_and_reward(random_market, make_setup):
    base = TrainerConfig().with_overrides({"episodes": 16, "episode_length": 8})
    configs = [
        base,
        base.with_overrides({"fee_bp": 50.0}),
        base.with_overrides({"reward": "return"}),
        base.with_overrides({"adaptation_rate": 0.2}),
    ]
    fold = Fold(0, 50, 52, 60)
    market = random_market(60)
    setup = make_setup(market, [fold] * 4, [(0, 0)] * 4, configs=configs)
    environment = setup.environment
    environment.begin_lanes()
    rewards = [environment.step(act(environment, BUY, 0, 2), t).reward.clone() for t in range(4)]
    for member, config in enumerate(configs):
        alone = make_setup(market, [fold], [(0, 0)], configs=[config]).environment
        alone.begin_lanes()
        for position, reward in enumerate(rewards):
            single = alone.step(act(alone, BUY, 0, 2), position).reward
            assert torch.equal(single[0], reward[member])
    assert bool((rewards[0][1] < rewards[0][0]).all())
    assert all(not torch.equal(rewards[3][3], rewards[3][member]) for member in range(3))


def test_costs_written_over_in_place_count_from_the_next_step(random_market, make_setup):
    setup = make_setup(random_market(60), [Fold(0, 50, 52, 60)], reward="return")
    environment = setup.environment
    environment.begin_lanes()
    cheap = environment.step(act(environment, BUY, 0, 2), 0).reward.clone()
    setup.hyper.taker_cost.fill_(0.01)
    environment.steps.zero_()
    environment.begin_lanes()
    dear = environment.step(act(environment, BUY, 0, 2), 0).reward
    moved = cheap - dear
    inside = (cheap.abs() < 5) & (dear.abs() < 5)
    expected = (0.01 - 2e-4) / setup.tables.sigma.item()
    assert bool(inside.any())
    assert torch.allclose(moved[inside], torch.full_like(moved[inside], expected), atol=1e-9)


def test_impact_takes_its_share_of_a_deviation_off_the_reward(random_market, make_setup):
    rewards = []
    for impact in (0.0, 2.0):
        overrides = {"reward": "return", "impact": impact, "participation": 0.04}
        environment = make_setup(random_market(60), [Fold(0, 50, 52, 60)], **overrides).environment
        environment.begin_lanes()
        rewards.append(environment.step(act(environment, BUY, 0, 2), 0).reward.clone())
    inside = (rewards[0].abs() < 5) & (rewards[1].abs() < 5)
    assert bool(inside.any())
    taken = (rewards[0] - rewards[1])[inside]
    assert torch.allclose(taken, torch.full_like(taken, 2.0 * 0.2), atol=1e-9)  # of a whole unit bought


@pytest.mark.parametrize("branches", [(5,), (5, 3), (3, 3, 3, 3), (1, 3, 3), (21, 3, 9, 2)])
def test_any_list_of_branches_trades(random_market, make_setup, branches):
    environment = make_setup(
        random_market(60), [Fold(0, 50, 52, 60)], actions_per_branch=branches
    ).environment
    environment.begin_lanes()
    assert environment.layout.actions_per_branch == branches
    result = environment.step(act(environment, *(count - 1 for count in branches)), 0)
    position = result.next_prefix[..., 2]
    assert bool((position == (0.0 if branches[0] == 1 else 1.0)).all())  # market or adaptive, urgent


def test_an_achieved_offset_of_zero_puts_the_achieved_goal_in_the_goal_slot(random_market, make_setup):
    environment = make_setup(random_market(60), [Fold(0, 50, 52, 60)], achieved_offset=0).environment
    environment.begin_lanes()
    result = environment.step(act(environment, BUY, 0, 2), 0)
    assert environment.layout.achieved_offset == 0
    assert torch.equal(result.next_prefix[..., 0], result.next_prefix[..., 1])
    assert bool((result.next_prefix[..., 0] != 0).all())


@pytest.mark.parametrize(("configured", "at_close"), [(None, False), ("next_close", True)])
def test_the_fill_rule_is_the_markets_own_unless_configured(random_market, configured, at_close):
    config = TrainerConfig().with_overrides({"episode_length": 8, "fill": configured})
    tables = MarketTables.build(random_market(60), [Fold(0, 50, 52, 60)], config, torch.float32, CPU)
    assert tables.at_close is at_close


def test_an_episode_under_difference_returns_starts_at_the_capital(make_market, make_setup):
    market = make_market([10.0, -30.0] * 20)
    setup = make_setup(
        market, [Fold(0, 30, 32, 40)], fee_bp=0.0, half_spread_bp=0.0, **{"data.returns": "difference"}
    )
    environment = setup.environment
    environment.begin_lanes()
    falls = environment.observation().row % 2 == 0
    for position in range(2):
        result = environment.step(act(environment, BUY, 0, 2), position)
    sigma = setup.tables.sigma.item()
    assert torch.allclose(result.next_prefix[..., 1], torch.zeros(1, 4).double(), atol=1e-9)
    result = environment.step(act(environment, BUY, 0, 2), 2)
    growth = torch.where(falls, math.log(0.6), math.log(1.4)).double() / (sigma * math.sqrt(8))
    assert torch.allclose(result.next_prefix[..., 1], growth, atol=1e-9)


def test_a_late_restart_may_start_wherever_the_rest_of_the_lane_fits(make_market, make_setup):
    # 9 rows and 8 bars: the lane itself can start at row 0 alone. Every bar ruins a short position.
    setup = make_setup(make_market(2.0 ** np.arange(30)), [Fold(0, 9, 11, 30)], episodes=512)
    environment = setup.environment
    environment.begin_lanes()
    assert environment.observation().row.unique().tolist() == [0]
    for position in range(8):
        result = environment.step(act(environment, SELL, 0, 2), position)
        assert bool(result.terminated.all())
        assert environment.observation().row.unique().tolist() == list(range(position + 2))


def test_a_branch_of_more_actions_than_a_byte_can_tell_apart_is_refused():
    TrainerConfig().with_overrides({"actions_per_branch": (256, 3)})
    with pytest.raises(ConfigError, match=r"environment.actions_per_branch: .* 256 .*\(3, 257\)"):
        TrainerConfig().with_overrides({"actions_per_branch": (3, 257)})
