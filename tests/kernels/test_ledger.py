"""The ledger against numbers worked by hand, and against a scalar loop in absolute prices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.reference.fills import ADAPTIVE, LIMIT, MARKET, URGENCY_SHARES, Bar, Order
from trainer.reference.ledger import Account, Costs, settle, target_position, trade, unrealised_return

F64 = torch.float64


def flat(shape=(1,), dtype=F64):
    zero = torch.zeros(shape, dtype=dtype)
    return Account(zero, zero, zero + 1)


def run_at_closes(closes, positions, cost, capital=None):
    """Follows given positions with every fill at c_t; returns net returns and the last account."""
    account, returns = flat(), []
    for t, position in enumerate(positions):
        change = closes[t + 1] - closes[t]
        close = change / closes[t] if capital is None else change / capital
        notional = None if capital is None else torch.tensor([abs(closes[t]) / capital], dtype=F64)
        settled = settle(
            account,
            torch.tensor([position], dtype=F64),
            torch.zeros(1, dtype=F64),
            torch.tensor([close], dtype=F64),
            notional,
            torch.tensor([cost], dtype=F64),
        )
        account = settled.account
        returns.append(settled.bar_return.item())
    return returns, account


def test_positions_filled_at_the_close_earn_the_returns_worked_by_hand():
    returns, account = run_at_closes([100, 101, 99, 102, 102, 100], [1, 1, -1, -1, 0], 1e-3)
    assert returns == pytest.approx([0.009, -0.01980198, -0.03230303, 0, -0.001], abs=1e-8)
    assert account.equity.item() - 1 == pytest.approx(-0.0438856061, abs=1e-10)


@pytest.mark.parametrize("side", [1, -1])
def test_a_round_trip_at_one_price_loses_half_a_per_cent_twice(side):
    _, account = run_at_closes([100, 100, 100], [side, 0], 0.005)
    assert account.equity.item() - 1 == pytest.approx(-0.009975, abs=1e-12)


def test_a_flip_pays_for_two_units():
    returns, _ = run_at_closes([100, 100, 100], [-1, 1], 0.001)
    assert returns == pytest.approx([-0.001, -0.002], abs=1e-15)


def test_a_contract_through_negative_prices_earns_its_price_differences():
    returns, account = run_at_closes([18.27, -37.63, 10.01], [1, 1], 0.0, capital=100)
    assert returns == pytest.approx([-0.559, 1.080272], abs=1e-6)
    assert account.equity.item() == pytest.approx(0.9174, abs=1e-12)


def test_a_contract_pays_its_cost_on_the_absolute_price():
    returns, _ = run_at_closes([-50, -50], [1], 0.01, capital=100)
    assert returns == pytest.approx([-0.005], abs=1e-15)


def test_a_short_position_through_a_doubling_price_is_bankrupt_with_equity_zero():
    returns, account = run_at_closes([100, 250], [-1], 0.0)
    assert returns == [-1.0]
    assert account.equity.item() == 0.0


def test_a_forced_close_pays_the_closing_cost_on_the_new_position():
    half = torch.tensor([0.5], dtype=F64)
    zero = torch.zeros(1, dtype=F64)
    settled = settle(flat(), half, zero, zero, None, zero + 0.001, closing_cost=zero + 0.004)
    assert settled.bar_return.item() == pytest.approx(-0.0025, abs=1e-15)
    assert settled.paid.item() == pytest.approx(0.0025, abs=1e-15)
    assert settled.traded.item() == 0.5


@pytest.mark.parametrize(
    ("position", "exposure", "share", "expected"),
    [
        (0.0, 1.0, 1 / 3, 1 / 3),
        (0.0, 1.0, 2 / 3, 2 / 3),
        (-1.0, 1.0, 1.0, 1.0),
        (0.99, 1.0, 1 / 3, 1.0),
        (0.9899, 1.0, 1 / 3, 0.9899 + 0.0101 / 3),
        (0.3, 0.3, 2 / 3, 0.3),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_target_closes_its_share_of_the_gap_and_a_small_gap_whole(
    position, exposure, share, expected, dtype
):
    order = Order(torch.tensor(exposure, dtype=dtype), torch.tensor(0), torch.tensor(share, dtype=dtype))
    target = target_position(torch.tensor(position, dtype=dtype), order)
    assert target.item() == pytest.approx(expected, abs=1e-7)


def test_a_grid_of_hundredths_is_closed_whole_in_either_precision():
    for dtype in (torch.float32, torch.float64):
        grid = torch.tensor([(index - 100) / 100 for index in range(201)], dtype=dtype)
        share = torch.full((200,), 1 / 3, dtype=dtype)
        order = Order(grid[1:], torch.zeros(200, dtype=torch.int64), share)
        assert torch.equal(target_position(grid[:-1], order), grid[1:])


def test_the_entry_price_averages_what_adds_keeps_what_reduces_and_restarts_on_a_flip():
    account = flat()
    prices = [100.0, 110.0, 121.0, 121.0, 121.0]
    unrealised = []
    for t, position in enumerate([0.5, 1.0, 0.5, -0.5]):
        close = prices[t + 1] / prices[t] - 1
        zero = torch.zeros(1, dtype=F64)
        new = torch.tensor([position], dtype=F64)
        account = settle(account, new, zero, zero + close, None, zero).account
        unrealised.append(unrealised_return(account, relative=True).item())
    # entries 100; (100 + 110) / 2 = 105; 105; 121
    assert unrealised == pytest.approx([0.5 * 0.1, 121 / 105 - 1, 0.5 * (121 / 105 - 1), 0.0], abs=1e-12)


def scalar_walk(bars, orders, maker, taker, at_close, capital):
    """The rules of the ledger in plain Python, in absolute prices.

    Args:
        bars: [T + 1] tuples (open, high, low, close).
        orders: [T] tuples (exposure, kind, urgency index).
        capital: None for percent returns.

    Returns:
        Per bar (position, return, equity in units of the start, unrealised return); ends at ruin.
    """
    equity = start = 1.0 if capital is None else capital
    position, entry, rows = 0.0, 0.0, []
    for t, (exposure, kind, urgency) in enumerate(orders):
        last = bars[t][3]
        opened, high, low, close = bars[t + 1]
        gap = exposure - position
        part = (1 / 3, 2 / 3, 1)[urgency]
        wanted = exposure if abs(gap) <= 0.01 or part == 1 else position + part * gap
        new, price, cost = position, last, 0.0
        crossed = low < last if wanted > position else high > last
        if kind == MARKET:
            new, price, cost = wanted, close if at_close else opened, taker
        elif crossed:
            new, cost = wanted, maker
            price = min(opened, last) if wanted > position else max(opened, last)
        elif kind == ADAPTIVE:
            new, price, cost = wanted, close, taker
        pnl = position * (price - last) + new * (close - price)
        if capital is None:
            ret = pnl / last - cost * abs(new - position)
        else:
            ret = (pnl - cost * abs(last) * abs(new - position)) / equity
        equity *= 1 + ret
        if equity <= 0:
            rows.append((new, -1.0, 0.0, 0.0))
            return rows
        if position * new <= 0:
            entry = price
        elif abs(new) > abs(position):
            entry = (abs(position) * entry + abs(new - position) * price) / abs(new)
        position = new
        open_gain = position * ((close / entry - 1) if capital is None else (close - entry) / capital)
        rows.append((position, ret, equity / start, open_gain if position else 0.0))
    return rows


def random_bars(generator, length, deviation, capital):
    """Bars whose opens and lows now and then equal the last close exactly."""
    if capital is None:
        close = 100 * np.exp(np.cumsum(generator.normal(0, deviation, length)))
        spread = close * deviation
    else:
        close = np.cumsum(generator.normal(0, 20 * deviation, length))
        spread = np.full(length, 20 * deviation)
    last = np.roll(close, 1)
    opened = np.where(generator.random(length) < 0.3, last, last + spread * generator.normal(0, 0.3, length))
    if capital is None:
        opened = np.maximum(opened, 0.2 * last)
    reach = spread * np.where(generator.random((2, length)) < 0.4, 0, np.abs(generator.normal(0, 1, length)))
    low = np.minimum(opened, close) - reach[0]
    high = np.maximum(opened, close) + reach[1]
    if capital is None:
        low = np.maximum(low, 0.5 * np.minimum(opened, close))
    return np.stack([opened, high, low, close], axis=1)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    at_close=st.booleans(),
    capital=st.sampled_from([None, 100.0]),
    deviation=st.sampled_from([0.01, 0.1, 0.5]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_ledger_of_many_lanes_follows_the_scalar_rules(seed, at_close, capital, deviation, dtype):
    generator = np.random.default_rng(seed)
    lanes, length = 6, 25
    bars = np.stack([random_bars(generator, length + 1, deviation, capital) for _ in range(lanes)])
    exposure = generator.choice([-1, -0.5, 0, 0.5, 1], (lanes, length))
    kind = generator.choice([MARKET, LIMIT, ADAPTIVE], (lanes, length))
    urgency = generator.integers(0, 3, (lanes, length))
    maker, taker = 1e-3, 3e-3
    expected = [
        scalar_walk(
            bars[e].tolist(),
            list(zip(exposure[e].tolist(), kind[e].tolist(), urgency[e].tolist(), strict=True)),
            maker,
            taker,
            at_close,
            capital,
        )
        for e in range(lanes)
    ]
    last = bars[:, :-1, 3:]
    moves = bars[:, 1:] / last - 1 if capital is None else (bars[:, 1:] - last) / capital
    table = torch.tensor(moves, dtype=dtype)
    account = flat((1, lanes), dtype)
    costs = Costs(torch.tensor([[maker]], dtype=dtype), torch.tensor([[taker]], dtype=dtype))
    shares = torch.tensor(URGENCY_SHARES, dtype=dtype)
    tolerance = 1e-9 if dtype == F64 else 2e-4
    for t in range(length):
        order = Order(
            torch.tensor(exposure[None, :, t], dtype=dtype),
            torch.tensor(kind[None, :, t]),
            shares[torch.tensor(urgency[None, :, t])],
        )
        notional = None if capital is None else torch.tensor(np.abs(last[None, :, t, 0]) / capital).to(dtype)
        bar = Bar(*(table[None, :, t, column] for column in range(4)))
        settled = trade(account, order, bar, notional, costs, at_close=at_close)
        account = settled.account
        gains = unrealised_return(account, relative=capital is None)
        for e in range(lanes):
            if t >= len(expected[e]):
                continue
            position, ret, equity, gain = expected[e][t]
            assert settled.bankrupt[0, e].item() == (equity == 0.0)
            assert account.position[0, e].item() == pytest.approx(position, abs=1e-6)
            close = {"rel": 10 * tolerance, "abs": tolerance}
            assert settled.bar_return[0, e].item() == pytest.approx(ret, **close)
            assert account.equity[0, e].item() == pytest.approx(equity, **close)
            if equity:
                assert gains[0, e].item() == pytest.approx(gain, **close)


def number(value):
    return torch.tensor([value], dtype=F64)


def test_impact_grows_with_the_root_of_the_size_and_is_paid_on_all_of_it():
    zero = number(0.0)
    settled = settle(flat(), number(-0.25), zero, zero, None, number(0.001), impact=number(0.02))
    # .001 * .25 of costs and .02 * sqrt(.25) on each of .25 units
    assert settled.pressure.item() == pytest.approx(0.0025, abs=1e-15)
    assert settled.paid.item() == pytest.approx(0.00275, abs=1e-15)
    assert settled.bar_return.item() == pytest.approx(-0.00275, abs=1e-15)


def test_a_forced_close_moves_the_price_by_the_new_position_alone():
    zero, account = number(0.0), Account(number(0.75), number(0.0), number(1.0))
    settled = settle(account, number(1.0), zero, zero, None, zero, zero, number(0.02), number(0.03))
    assert settled.pressure.item() == pytest.approx(0.02 * 0.25 * 0.5 + 0.03, abs=1e-15)


def test_the_impact_on_a_contract_is_a_price_difference_and_knows_no_notional():
    zero, account = number(0.0), Account(number(0.0), number(0.0), number(0.5))
    settled = settle(account, number(1.0), zero, zero, number(3.0), number(0.01), impact=number(0.02))
    assert settled.pressure.item() == pytest.approx(0.02 / 0.5, abs=1e-15)
    assert settled.paid.item() == pytest.approx(0.01 * 3.0 / 0.5 + 0.02 / 0.5, abs=1e-15)


@pytest.mark.parametrize(("kind", "paid"), [(MARKET, 0.003 + 0.04), (LIMIT, 0.001), (ADAPTIVE, 0.001)])
def test_a_limit_fill_has_no_impact(kind, paid):
    order = Order(number(1.0), torch.tensor([kind]), number(1.0))
    bar = Bar(number(0.0), number(0.01), number(-0.01), number(0.0))
    costs = Costs(number(0.001), number(0.003), number(0.04))
    settled = trade(flat(), order, bar, None, costs, at_close=False)
    assert settled.paid.item() == pytest.approx(paid, abs=1e-15)


def test_an_adaptive_order_that_missed_its_limit_has_impact():
    order = Order(number(1.0), torch.tensor([ADAPTIVE]), number(1.0))
    bar = Bar(number(0.01), number(0.02), number(0.01), number(0.02))
    settled = trade(
        flat(), order, bar, None, Costs(number(0.001), number(0.003), number(0.04)), at_close=False
    )
    assert settled.paid.item() == pytest.approx(0.043, abs=1e-15)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), contract=st.booleans(), dtype=st.sampled_from([torch.float32, F64]))
def test_an_impact_of_zero_changes_no_bit(seed, contract, dtype):
    draws = torch.Generator().manual_seed(seed)
    old, new, fill, close, size = torch.rand((5, 50), generator=draws, dtype=dtype)
    account = Account(2 * old - 1, torch.zeros_like(old), 0.5 + old)
    arguments = (account, 2 * new - 1, fill - 0.5, close - 0.5, size if contract else None, size * 0.01)
    zero = torch.zeros(50, dtype=dtype)
    without, with_zero = settle(*arguments, zero + 0.001), settle(*arguments, zero + 0.001, zero, zero)
    for before, after in zip((*without[0], *without[1:]), (*with_zero[0], *with_zero[1:]), strict=True):
        assert torch.equal(before, after)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), at_close=st.booleans())
def test_final_equity_falls_strictly_as_costs_rise(seed, at_close):
    generator = np.random.default_rng(seed)
    bars = torch.tensor(random_bars(generator, 31, 0.01, None))
    cost = torch.tensor([[0.0], [5e-4], [1e-3], [5e-3]], dtype=F64)
    account, traded = flat((4, 1)), torch.zeros(4, 1, dtype=F64)
    for t in range(30):
        moves = bars[t + 1] / bars[t, 3] - 1
        exposure = torch.full((4, 1), float(generator.choice([-1, 0, 1])), dtype=F64)
        order = Order(exposure, torch.full((4, 1), MARKET), torch.ones(4, 1, dtype=F64))
        bar = Bar(*(moves[column].expand(4, 1) for column in range(4)))
        settled = trade(account, order, bar, None, Costs(cost, cost), at_close=at_close)
        account, traded = settled.account, traded + settled.traded
    assert bool((traded > 0).all())
    assert bool((account.equity[1:] < account.equity[:-1]).all())


@settings(deadline=None, max_examples=25)
@given(
    returns=st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=20),
    position=st.sampled_from([-1.0, 0.5, 1.0]),
)
def test_equity_compounds_one_plus_each_return(returns, position):
    account, product = flat(), 1.0
    new = torch.tensor([position], dtype=F64)
    for each in returns:
        zero = torch.zeros(1, dtype=F64)
        settled = settle(account, new, zero, zero + each, None, zero + 1e-3)
        account = settled.account
        product *= 1 + settled.bar_return.item()
    assert account.equity.item() == pytest.approx(product, rel=1e-12)


def test_flat_bars_return_exactly_zero_whatever_the_market_does():
    zero = torch.zeros(3, dtype=F64)
    move = torch.tensor([0.3, -0.7, 5.0], dtype=F64)
    settled = settle(flat((3,)), zero, move / 2, move, None, zero + 0.01)
    assert torch.equal(settled.bar_return, zero)


def test_a_closed_position_leaves_no_entry_price_behind():
    zero = torch.zeros(1, dtype=F64)
    account = settle(flat(), zero + 1, zero + 0.01, zero + 0.02, None, zero).account
    assert account.entry.item() == pytest.approx(1.01 / 1.02 - 1, abs=1e-15)
    assert settle(account, zero, zero + 0.01, zero + 0.02, None, zero).account.entry.item() == 0.0
