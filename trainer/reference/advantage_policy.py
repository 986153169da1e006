"""advantage_policy: the behaviour policy of each branch, sampled by inverse distribution function.

    pi_k(a | s) ~ exp(beta clip(Q_k(s, a) - V(s), -10, 10))

Kostrikov, Nair & Levine 2021, eq. 7, applied to discrete branches. Evaluation is greedy on the
unclipped Q: clipped advantages tie, and then the lowest index would win whatever its value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.reference.dueling_logits import branch_slices

ADVANTAGE_LIMIT = 10.0


def policy_probs(q: Tensor, baseline: Tensor, inverse_temperature: Tensor) -> Tensor:
    """Returns one branch's action probabilities [M, E, n].

    Args:
        q: [M, E, n] expected values of the branch's actions.
        baseline: [M, E] value V(s) that advantages are measured from.
        inverse_temperature: [M] beta.
    """
    advantage = (q - baseline[..., None]).clamp_(-ADVANTAGE_LIMIT, ADVANTAGE_LIMIT)
    # softmax subtracts the row's maximum before it exponentiates
    return torch.softmax(inverse_temperature[:, None, None] * advantage, -1)


def sample_actions(
    q: Tensor,
    baseline: Tensor | None,
    inverse_temperature: Tensor,
    draws: Tensor,
    actions_per_branch: tuple[int, ...],
) -> Tensor:
    """Draws an action of every branch.

    Args:
        q: [M, E, A] expected values of all branches' actions, A = sum n_k.
        baseline: [M, E] value V(s); None: the mean of Q over the branch's actions.
        inverse_temperature: [M] beta.
        draws: [M, E, K] uniform numbers in [0, 1).
        actions_per_branch: n_k.

    Returns:
        [M, E, K] int64: the first action whose cumulative probability exceeds the draw.
    """
    actions = []
    for k, (n, span) in enumerate(zip(actions_per_branch, branch_slices(actions_per_branch), strict=True)):
        of_branch = q[:, :, span].contiguous()
        level = of_branch.sum(-1).mul_(1.0 / n) if baseline is None else baseline
        cumulative = policy_probs(of_branch, level, inverse_temperature).cumsum(-1)
        # Rounding may leave the total below the largest draw: then the last action is meant.
        passed = (cumulative <= draws[:, :, k : k + 1]).sum(-1)
        actions.append(passed.clamp_(max=n - 1))
    return torch.stack(actions, -1)


def greedy_actions(q: Tensor, actions_per_branch: tuple[int, ...]) -> Tensor:
    """Returns each branch's best action [M, E, K] int64 of ``q`` [M, E, A]; ties: the lowest index."""
    return torch.stack([q[:, :, span].argmax(-1) for span in branch_slices(actions_per_branch)], -1)
