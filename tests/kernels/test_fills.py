"""Orders and fills: what the indices mean, and at which price each order type trades."""

import pytest
import torch

from trainer.reference.fills import ADAPTIVE, LIMIT, MARKET, Bar, OrderBook, exposures, fill_order

CPU = torch.device("cpu")


def bar(opened, high, low, close):
    return Bar(*(torch.tensor([value], dtype=torch.float64) for value in (opened, high, low, close)))


def fill(kind, change, prices, at_close=False):
    result = fill_order(
        torch.tensor([kind]), torch.tensor([change], dtype=torch.float64), bar(*prices), at_close=at_close
    )
    return result.filled.item(), result.price.item(), result.passive.item()


BELOW = (0.01, 0.03, -0.02, 0.02)  # opens above c_t, trades below it, closes above
GAP_DOWN = (-0.01, 0.0, -0.02, -0.015)  # opens below c_t, high exactly c_t
TOUCH = (0.0, 0.02, 0.0, 0.01)  # opens at c_t, low exactly c_t


@pytest.mark.parametrize("change", [1.0, -1.0])
def test_a_market_order_fills_at_the_next_open_or_the_next_close_and_never_at_the_last(change):
    assert fill(MARKET, change, BELOW) == (True, 0.01, False)
    assert fill(MARKET, change, BELOW, at_close=True) == (True, 0.02, False)


def test_a_limit_buy_fills_at_the_last_close_only_where_the_next_bar_trades_below_it():
    assert fill(LIMIT, 1.0, BELOW) == (True, 0.0, True)
    assert fill(LIMIT, 1.0, TOUCH)[0] is False


def test_a_limit_buy_that_opens_lower_fills_at_the_open():
    assert fill(LIMIT, 1.0, GAP_DOWN) == (True, -0.01, True)


def test_a_limit_sell_mirrors_the_buy():
    mirrored = (-0.01, 0.02, -0.03, -0.02)
    assert fill(LIMIT, -1.0, mirrored) == (True, 0.0, True)
    assert fill(LIMIT, -1.0, (0.01, 0.02, 0.0, 0.015)) == (True, 0.01, True)
    assert fill(LIMIT, -1.0, GAP_DOWN)[0] is False


@pytest.mark.parametrize("at_close", [False, True])
def test_an_adaptive_order_is_a_limit_order_first_and_a_market_order_at_the_close_then(at_close):
    assert fill(ADAPTIVE, 1.0, BELOW, at_close) == (True, 0.0, True)
    assert fill(ADAPTIVE, 1.0, TOUCH, at_close) == (True, 0.01, False)
    assert fill(ADAPTIVE, -1.0, GAP_DOWN, at_close) == (True, -0.015, False)


def test_exposures_are_equally_spaced_and_one_exposure_is_flat():
    assert exposures(5) == (-1.0, -0.5, 0.0, 0.5, 1.0)
    assert exposures(3) == (-1.0, 0.0, 1.0)
    assert exposures(2) == (-1.0, 1.0)
    assert exposures(1) == (0.0,)


def test_order_type_and_urgency_are_indexed_modulo_three():
    book = OrderBook((5, 7, 7), torch.float64, CPU)
    order = book.decode(torch.tensor([[4, 0, 0], [4, 1, 1], [4, 2, 2], [0, 4, 3], [2, 5, 6]]))
    assert order.exposure.tolist() == [1.0, 1.0, 1.0, -1.0, 0.0]
    assert order.kind.tolist() == [MARKET, LIMIT, ADAPTIVE, LIMIT, ADAPTIVE]
    assert order.share.tolist() == [1 / 3, 2 / 3, 1.0, 1 / 3, 1 / 3]


def test_absent_branches_mean_market_and_urgent():
    alone = OrderBook((3,), torch.float64, CPU).decode(torch.tensor([[2], [0]]))
    assert (alone.exposure.tolist(), alone.kind.tolist(), alone.share.tolist()) == ([1, -1], [0, 0], [1, 1])
    two = OrderBook((3, 3), torch.float64, CPU).decode(torch.tensor([[2, 1]]))
    assert (two.kind.tolist(), two.share.tolist()) == ([LIMIT], [1.0])


def test_a_fourth_branch_does_nothing():
    book = OrderBook((3, 3, 3, 3), torch.float64, CPU)
    first, other = (book.decode(torch.tensor([[2, 1, 0, last]])) for last in (0, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))
