"""double_dqn_target: the next state's value distribution under Double DQN for branches.

    a*_k = argmax_a E[Q_k(s', a)] (online),   p = (1 / K) sum_k p_target,k(s', a*_k)

van Hasselt, Guez & Silver 2016, eq. 4; Tavakoli, Pardo & Kormushev 2018, eq. 5 (mean over branches).
The mixture is projected once and shared by all branches.
"""

from __future__ import annotations

import torch
from torch import Tensor


def double_dqn_target(target_logits: Tensor) -> Tensor:
    """Mixes the target network's distributions of the online network's choices.

    Args:
        target_logits: [M, B, K, Z] of the target network at (s', a*).

    Returns:
        [M, B, Z], rows sum to 1.
    """
    probs = torch.softmax(target_logits, -1)
    return probs.sum(2).mul_(1.0 / target_logits.shape[2])


def discounted_location(reward: Tensor, terminated: Tensor, gamma: Tensor, next_value: Tensor) -> Tensor:
    """Returns r + gamma (1 - terminated) x for every x of the next state.

    Args:
        reward: [M, B].
        terminated: [M, B] bool; cuts the bootstrap (a truncated row is not terminated).
        gamma: [M].
        next_value: [M, B, I] places in the next state: its atoms, or I = 1 value.

    Returns:
        [M, B, I], reward units.
    """
    # A terminal row must not see the next value at all: 0 * inf would be NaN.
    bootstrap = torch.where(terminated[..., None], 0.0, gamma[:, None, None] * next_value)
    return reward[..., None] + bootstrap
