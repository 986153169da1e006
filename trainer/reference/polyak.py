"""polyak: the exponential moving average that a target network follows.

    target += tau (online - target)

Polyak & Juditsky 1992; Lillicrap et al. 2016, algorithm 1. Runs after the optimiser.
"""

from __future__ import annotations

import torch
from torch import Tensor


def polyak(target: Tensor, online: Tensor, tau: Tensor) -> None:
    """Moves ``target`` [N, P] in place towards ``online`` [N, P] by ``tau`` [N]; tau 0 leaves it."""
    target.add_(torch.sub(online, target).mul_(tau[:, None]))
