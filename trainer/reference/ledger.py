"""ledger: what a change of position costs and earns over one bar.

One accounting for training, evaluation and report. With fill price f and all prices divided by c_t:

    r = p_old (f - 1) + p_new (c - f) - cost |p_new - p_old|        (data.returns = percent)

written below as p_old (c - 1) + (p_new - p_old) (c - f), the same sum with one rounding less where
nothing is traded. Under data.returns = difference a unit of exposure is one contract: moves are price
differences over data.capital, costs are paid on |c_t| / data.capital, and r is that sum divided by the
equity (in units of data.capital), which makes sense for prices of any sign.

A market fill may also move the price against itself by the square-root law: |p_new - p_old| units pay
impact sqrt(|p_new - p_old|) each, in moves of the price, so that no notional enters under difference.

The functions are pure; arguments of shape [M, E] or broadcastable to it, any floating type.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.reference.fills import Bar, Order, fill_order

CLOSE_WHOLE = 0.01  # a gap of at most this is closed whole
GRID_TOLERANCE = 1e-6  # exposures .01 apart must count as .01 apart in float32 as in float64
SMALLEST_DIVISOR = 1e-6  # keeps ratios finite next to a worthless entry price or equity


class Account(NamedTuple):
    """What survives from bar to bar."""

    position: Tensor  # exposure in [-1, 1]
    entry: Tensor  # move of the size-weighted entry price against c_t; 0 where flat
    equity: Tensor  # in units of the capital at the start


class Costs(NamedTuple):
    """Fractions of the traded value, per side."""

    maker: Tensor  # a limit fill: the fee
    taker: Tensor  # a market fill: fee + half spread + slippage
    impact: Tensor | None = None  # move of the price by a market fill of size 1; None: none


class Settlement(NamedTuple):
    """One bar, settled at c_{t+1}."""

    account: Account
    bar_return: Tensor  # net of costs, at least -1
    traded: Tensor  # |p_new - p_old|, without a forced close
    paid: Tensor  # costs as a fraction of equity
    bankrupt: Tensor  # bool, equity reached 0
    pressure: Tensor  # the part of ``paid`` that the impact took


def target_position(position: Tensor, order: Order) -> Tensor:
    """Moves ``share`` of the gap to the chosen exposure; a gap of at most .01 is closed whole."""
    gap = order.exposure - position
    whole = (gap.abs() <= CLOSE_WHOLE + GRID_TOLERANCE) | (order.share >= 1)
    return torch.where(whole, order.exposure, position + order.share * gap)


def trade(
    account: Account,
    order: Order,
    bar: Bar,
    notional: Tensor | None,
    costs: Costs,
    *,
    at_close: bool,
    closing_cost: Tensor | None = None,
    closing_impact: Tensor | None = None,
) -> Settlement:
    """Carries one order through one bar: target, fill, settlement.

    Args:
        account: At c_t.
        order: Decided at c_t.
        bar: Moves of the next bar.
        notional: |c_t| / capital under data.returns = difference, None for percent returns.
        costs: Per member.
        at_close: Market orders fill at the next close instead of the next open.
        closing_cost: Cost of closing the new position at c_{t+1}; None where no window ends.
        closing_impact: Impact of that, for a size of 1.
    """
    target = target_position(account.position, order)
    fill = fill_order(order.kind, target - account.position, bar, at_close=at_close)
    position = torch.where(fill.filled, target, account.position)
    cost = torch.where(fill.passive, costs.maker, costs.taker)
    impact = None if costs.impact is None else torch.where(fill.passive, 0, costs.impact)
    return settle(
        account, position, fill.price, bar.close, notional, cost, closing_cost, impact, closing_impact
    )


def settle(
    account: Account,
    position: Tensor,
    fill_price: Tensor,
    close: Tensor,
    notional: Tensor | None,
    cost: Tensor,
    closing_cost: Tensor | None = None,
    impact: Tensor | None = None,
    closing_impact: Tensor | None = None,
) -> Settlement:
    """Settles a bar for a given new position and fill price.

    Args:
        account: At c_t.
        position: p_new, held until c_{t+1}.
        fill_price: Move of f against c_t.
        close: Move of c_{t+1} against c_t.
        notional: See :func:`trade`.
        cost: Fraction of the traded value.
        closing_cost: See :func:`trade`.
        impact: Move of the price against a fill of size 1; None: none.
        closing_impact: See :func:`trade`.

    Returns:
        The settlement; a bar that loses all equity returns exactly -1 and leaves equity 0.
    """
    change = position - account.position
    traded = change.abs()
    paid = cost * traded
    if closing_cost is not None:
        paid = paid + closing_cost * position.abs()
    earned = account.position * close + change * (close - fill_price)
    pressure = _pressure(impact, traded) + _pressure(closing_impact, position.abs())
    if notional is not None:
        equity = account.equity.clamp_min(SMALLEST_DIVISOR)
        paid = paid * notional / equity
        pressure = pressure / equity
        earned = earned / equity
    paid = paid + pressure
    bar_return = (earned - paid).clamp_min(-1)
    equity = account.equity * (1 + bar_return)
    entry = _entry_after(account, position, change, fill_price, close, relative=notional is None)
    return Settlement(Account(position, entry, equity), bar_return, traded, paid, equity <= 0, pressure)


def _pressure(impact: Tensor | None, size: Tensor) -> Tensor:
    """Cost of ``size`` units by the square-root law, 0 without impact."""
    return torch.zeros_like(size) if impact is None else impact * size * size.sqrt()


def unrealised_return(account: Account, *, relative: bool) -> Tensor:
    """Returns position (c_t / entry - 1), or position (c_t - entry) / capital if not ``relative``."""
    if not relative:
        return -account.position * account.entry
    return -account.position * account.entry / (1 + account.entry).clamp_min(SMALLEST_DIVISOR)


def _entry_after(
    account: Account, position: Tensor, change: Tensor, fill_price: Tensor, close: Tensor, *, relative: bool
) -> Tensor:
    """Averages the fill into the entry price where it adds to the position, and moves on to c_{t+1}.

    A fill that opens or flips a position is all of its entry; one that reduces it leaves the entry alone.
    """
    adds = position * change > 0
    weight = torch.where(adds, (change / position).clamp_max(1), 0)
    entry = account.entry + weight * (fill_price - account.entry) - close
    if relative:
        entry = entry / (1 + close).clamp_min(SMALLEST_DIVISOR)
    return torch.where(position == 0, 0, entry)
