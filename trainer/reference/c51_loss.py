"""c51_loss: the cross-entropy of branching C51, its gradient and the priority signal.

    loss = (1 / B) sum_b w_b (1 / K) sum_k CE(m_b, p_bk),   CE(m, p) = - sum_j m_j log p_j
    d loss / d logits_bk = w_b / (B K) (softmax(logits_bk) - m_b)
    delta_b = (1 / K) sum_k KL(m_b || p_bk)

Bellemare, Dabney & Munos 2017, algorithm 1; Tavakoli, Pardo & Kormushev 2018 (mean over branches, one
shared target); Schaul et al. 2016, section 3.4 (importance weights).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class C51Loss(NamedTuple):
    """Loss, gradient and what the rest of the update needs of the same forward pass."""

    loss: Tensor  # [M], importance-weighted mean over the batch, nats
    td_error: Tensor  # [M, B], mean over branches of KL(target || prediction), unweighted, nats
    gradient: Tensor  # [M, B, K, Z], d loss / d logits; sums to 0 over the atoms
    probs: Tensor  # [M, B, K, Z], softmax of the logits


def c51_loss(logits: Tensor, target: Tensor, weight: Tensor) -> C51Loss:
    """Compares the predictions of all branches with their shared target.

    Args:
        logits: [M, B, K, Z] of the taken actions.
        target: [M, B, Z], rows sum to 1.
        weight: [M, B] importance weights.
    """
    _, batch, branches, _ = logits.shape
    log_probs = torch.log_softmax(logits, -1)
    mean_log_probs = log_probs.sum(2).mul_(1.0 / branches) if branches > 1 else log_probs[:, :, 0]
    cross_entropy = (target * mean_log_probs).sum(-1).neg_()
    # 0 log 0 = 0: the smallest normal number keeps the logarithm finite
    log_target = target.clamp_min(torch.finfo(target.dtype).tiny).log_()
    negative_entropy = log_target.mul_(target).sum(-1)
    loss = (weight * cross_entropy).sum(1).mul_(1.0 / batch)
    probs = torch.softmax(logits, -1)
    scale = weight * (1.0 / (batch * branches))
    gradient = (probs - target[:, :, None]).mul_(scale[:, :, None, None])
    return C51Loss(loss, cross_entropy + negative_entropy, gradient, probs)
