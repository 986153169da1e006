"""fills: from the indices of an action to an order, and from an order to the price it gets.

The decision is made on information up to the close c_t; the bar t -> t+1 then decides the fill. Prices
are moves against c_t (0 is c_t itself), made in float64 on the host, so that float32 sees the same sign
as float64 and decides every fill alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MARKET, LIMIT, ADAPTIVE = 0, 1, 2
ORDER_TYPES = 3
URGENCY_SHARES = (1.0 / 3.0, 2.0 / 3.0, 1.0)  # patient, normal, urgent: part of the gap to close
URGENT = 2


class Bar(NamedTuple):
    """The bar after the decision, as moves of its prices against c_t."""

    open: Tensor
    high: Tensor
    low: Tensor
    close: Tensor


class Order(NamedTuple):
    """What an action asks for; all of one shape."""

    exposure: Tensor  # float in [-1, 1], where the position shall go in the end
    kind: Tensor  # int64: MARKET, LIMIT or ADAPTIVE
    share: Tensor  # float, part of the gap to close in this bar


class Fill(NamedTuple):
    """What the bar gave; all of one shape."""

    filled: Tensor  # bool
    price: Tensor  # float, move of the fill price against c_t; without meaning where not filled
    passive: Tensor  # bool, filled by the limit order: pays the fee only


class OrderBook:
    """Translates action indices; holds the small tables so that no step makes them anew.

    Branch 0 is the exposure: n_0 equally spaced values on [-1, 1], flat for n_0 = 1. Branch 1 is the
    order type and branch 2 the urgency, each modulo 3; absent, they mean market and urgent. Further
    branches do nothing.

    Args:
        actions_per_branch: n_k of the K branches.
        dtype: Floating type of exposure and share.
        device: Where the orders live.
    """

    def __init__(self, actions_per_branch: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
        self._branches = len(actions_per_branch)
        self._exposures = torch.tensor(exposures(actions_per_branch[0]), dtype=dtype, device=device)
        self._shares = torch.tensor(URGENCY_SHARES, dtype=dtype, device=device)

    def decode(self, action: Tensor) -> Order:
        """Translates actions [..., K] int64 to orders [...]."""
        exposure = self._exposures[action[..., 0]]
        kind = action[..., 1] % ORDER_TYPES if self._branches > 1 else torch.zeros_like(action[..., 0])
        if self._branches > 2:
            return Order(exposure, kind, self._shares[action[..., 2] % len(URGENCY_SHARES)])
        return Order(exposure, kind, self._shares[URGENT].expand_as(exposure))


def exposures(count: int) -> tuple[float, ...]:
    """Returns ``count`` equally spaced exposures on [-1, 1]; (0,) for one."""
    if count == 1:
        return (0.0,)
    return tuple((2 * index - (count - 1)) / (count - 1) for index in range(count))


def fill_order(kind: Tensor, change: Tensor, bar: Bar, *, at_close: bool) -> Fill:
    """Decides whether and where an order fills.

    market: at o_{t+1} (``at_close``: at c_{t+1}), never at c_t. limit: limit price c_t; a buy fills iff
    the next bar trades below it, low < c_t, at min(o_{t+1}, c_t), a sell mirrored. adaptive: limit, and
    if that does not fill, market at c_{t+1}.

    Args:
        kind: MARKET, LIMIT or ADAPTIVE.
        change: Wanted change of position; its sign is the side, 0 asks for nothing.
        bar: The next bar.
        at_close: Market orders fill at the next close instead of the next open.
    """
    buys = change > 0
    passive = torch.where(buys, bar.low < 0, bar.high > 0) & (kind != MARKET)
    limit_price = torch.where(buys, bar.open.clamp_max(0), bar.open.clamp_min(0))
    market_price = bar.close if at_close else torch.where(kind == MARKET, bar.open, bar.close)
    return Fill(
        filled=passive | (kind != LIMIT),
        price=torch.where(passive, limit_price, market_price),
        passive=passive,
    )
