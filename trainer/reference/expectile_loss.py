"""expectile_loss: the asymmetric squared loss of implicit Q-learning and its gradient.

    L = (1 / B) sum_b |tau - 1(u_b < 0)| u_b^2,   u = Q(s, a) - V(s)
    d L / d V_b = -(2 / B) |tau - 1(u_b < 0)| u_b

Kostrikov, Nair & Levine 2021, eq. 4 and 5. tau above one half makes V lean to the upper part of Q.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ExpectileLoss(NamedTuple):
    """Loss and gradient of a stack of value networks."""

    loss: Tensor  # [*rows], squared reward units
    gradient: Tensor  # [*rows, B], d loss / d value


def expectile_loss(quantity: Tensor, value: Tensor, expectile: Tensor) -> ExpectileLoss:
    """Fits ``value`` to an expectile of ``quantity``.

    Args:
        quantity: [..., B] regression targets Q(s, a), constants of this loss; broadcast over networks.
        value: [*rows, B] predictions V(s).
        expectile: [*rows] tau in (0, 1).
    """
    difference = quantity - value
    tau = expectile[..., None]
    asymmetry = torch.where(difference < 0, 1.0 - tau, tau)
    weighted = asymmetry * difference
    batch = value.shape[-1]
    loss = (weighted * difference).sum(-1).mul_(1.0 / batch)
    return ExpectileLoss(loss, weighted.mul_(-2.0 / batch))
