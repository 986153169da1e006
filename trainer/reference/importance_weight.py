"""importance_weight: the correction for drawing by priority instead of uniformly.

Schaul et al. 2016, section 3.4: w_i = (n P(i))^-beta / max_i w_i, beta annealed to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor


def annealed_beta(step: Tensor, per_beta: Tensor, total_updates: Tensor) -> Tensor:
    """Returns beta at ``step``: linear from ``per_beta`` at step 0 to exactly 1 at the last step.

    Args:
        step: 0-d int64, gradient step counted from 0 over the whole training.
        per_beta: [M] float.
        total_updates: [M] float, gradient steps of the whole training; a single step has beta 1.

    Returns:
        [M] float64.
    """
    last = total_updates.to(torch.float64) - 1.0
    remaining = ((last - step) / last.clamp(min=1.0)).clamp(min=0.0, max=1.0)
    return 1.0 - (1.0 - per_beta.to(torch.float64)) * remaining


def importance_weight(mass: Tensor, total: Tensor, count: Tensor, beta: Tensor) -> Tensor:
    """Returns (n P)^-beta divided by its maximum over all B rows, P = integer mass / integer total.

    P is the probability the draw really had, that of the integer priorities.

    Args:
        mass: [M, B] int64, integer priority of each drawn slot.
        total: [M] int64, sum of the member's integer priorities.
        count: 0-d int64, n, items present.
        beta: [M] float64.

    Returns:
        [M, B] float64 in (0, 1], maximum 1 per member.
    """
    scale = count.to(torch.float64) / total.to(torch.float64)
    log_weight = -beta[:, None] * torch.log(mass.to(torch.float64) * scale[:, None])
    weight = torch.exp(log_weight)
    return weight / weight.amax(dim=1, keepdim=True)
