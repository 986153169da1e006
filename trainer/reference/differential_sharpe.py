"""differential_sharpe: the online derivative of the Sharpe ratio with respect to its adaptation rate.

Moody & Saffell 2001, "Learning to Trade via Direct Reinforcement", equations 14-16, in a form without
cancellation. With A the exponential average of the return, V = B - A^2 its variance, eta the rate:

    d = R - A,  s = sqrt(max(V, v_floor)),  z = d / s,  q = A / s
    D = z + q (1 - z^2) / 2,   A += eta d,   V = (1 - eta) (V + eta d^2)

which equals the paper's (B dA - A dB / 2) / (B - A^2)^(3/2) wherever V >= v_floor. The paper's B - A^2
loses every digit when the mean is much larger than the deviation; V never does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

REWARD_LIMIT = 5.0  # rewards are clipped to [-REWARD_LIMIT, REWARD_LIMIT]
FLOOR_SHARE = 0.1  # of sigma: a deviation below this counts as this
SMALLEST_FLOOR = 1e-12


class SharpeStep(NamedTuple):
    """The value of one return and the moments after it; shapes as the input."""

    value: Tensor  # D, not clipped
    first_moment: Tensor  # A
    variance: Tensor  # V


def variance_floor(sigma: Tensor) -> Tensor:
    """Returns v_floor = max((0.1 sigma)^2, 1e-12).

    The floor is needed because V itself fades to nothing over long flat stretches, after which one
    ordinary return would be worth thousands.
    """
    return (FLOOR_SHARE * sigma).square().clamp_min(SMALLEST_FLOOR)


def differential_sharpe(
    first_moment: Tensor, variance: Tensor, bar_return: Tensor, adaptation_rate: Tensor, floor: Tensor
) -> SharpeStep:
    """Values one return against the moments before it, then updates the moments.

    Args:
        first_moment: A.
        variance: V.
        bar_return: R, 0.01 = 1 %.
        adaptation_rate: eta, in (0, 1).
        floor: v_floor; positive wherever V may be 0.

    Returns:
        D and the new A and V. All arguments broadcast against each other.
    """
    deviation = bar_return - first_moment
    scale = torch.maximum(variance, floor).sqrt()
    z = deviation / scale
    value = z + first_moment / scale * (1 - z.square()) / 2
    return SharpeStep(
        value=value,
        first_moment=first_moment + adaptation_rate * deviation,
        variance=(1 - adaptation_rate) * (variance + adaptation_rate * deviation.square()),
    )


def bar_reward(sharpe: Tensor, bar_return: Tensor, sigma: Tensor, reward_is_return: Tensor) -> Tensor:
    """Chooses the reward per member and clips it.

    Args:
        sharpe: D of the bar.
        bar_return: R of the bar.
        sigma: Deviation of the training window's returns.
        reward_is_return: bool; True pays R / sigma, False pays D.

    Returns:
        The reward in [-5, 5].
    """
    return torch.where(reward_is_return, bar_return / sigma, sharpe).clamp(-REWARD_LIMIT, REWARD_LIMIT)
