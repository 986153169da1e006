"""dueling_logits: the branching dueling head (Tavakoli, Pardo & Kormushev 2018, eq. 1, on C51 logits).

    logits_k(a) = v + a_k(a) - (1 / n_k) sum_a' a_k(a')

The head's output holds the value row first, then the advantage rows of branch 0, 1, ...
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def branch_slices(actions_per_branch: tuple[int, ...]) -> tuple[slice, ...]:
    """Returns where each branch's actions stand in an axis of all A = sum n_k actions."""
    stops = [sum(actions_per_branch[: k + 1]) for k in range(len(actions_per_branch))]
    return tuple(slice(stop - n, stop) for stop, n in zip(stops, actions_per_branch, strict=True))


def dueling_logits(head: Tensor, actions_per_branch: tuple[int, ...]) -> Tensor:
    """Returns the logits [M, B, A, Z] of every action from ``head`` [M, B, 1 + A, Z]."""
    logits = head[:, :, 1:] + head[:, :, :1]
    for n, span in zip(actions_per_branch, branch_slices(actions_per_branch), strict=True):
        logits[:, :, span] -= _mean_advantage(head, span, n)[:, :, None]
    return logits


class _ChosenLogits(torch.autograd.Function):
    """The backward is one product per branch instead of a scatter: deterministic on every device."""

    @staticmethod
    def forward(ctx: Any, head: Tensor, action: Tensor, actions_per_branch: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(action)
        ctx.actions_per_branch = actions_per_branch
        members, batch, rows, atoms = head.shape
        spans = branch_slices(actions_per_branch)
        first = torch.arange(0, members * batch * rows, rows, device=head.device).view(members, batch, 1)
        row = torch.cat(
            [first + action[:, :, k : k + 1] + (1 + span.start) for k, span in enumerate(spans)], 2
        )
        chosen = head.view(-1, atoms).index_select(0, row.view(-1)).view(members, batch, len(spans), atoms)
        for k, (n, span) in enumerate(zip(actions_per_branch, spans, strict=True)):
            chosen[:, :, k] -= _mean_advantage(head, span, n)
        return chosen.add_(head[:, :, :1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (action,) = ctx.saved_tensors
        members, batch, _, atoms = gradient.shape
        dhead = gradient.new_empty((members, batch, 1 + sum(ctx.actions_per_branch), atoms))
        torch.sum(gradient, 2, out=dhead[:, :, 0])
        advantage = dhead[:, :, 1:]
        for k, (n, span) in enumerate(
            zip(ctx.actions_per_branch, branch_slices(ctx.actions_per_branch), strict=True)
        ):
            taken = action[:, :, k, None] == torch.arange(n, device=action.device)
            share = taken.to(gradient.dtype).sub_(1.0 / n)  # [M, B, n]
            torch.mul(gradient[:, :, k, None], share[..., None], out=advantage[:, :, span])
        return dhead, None, None


def chosen_logits(head: Tensor, action: Tensor, actions_per_branch: tuple[int, ...]) -> Tensor:
    """Returns the logits of the taken actions only.

    Args:
        head: [M, B, 1 + A, Z] contiguous output of the value and advantage heads.
        action: [M, B, K] int64, below n_k.
        actions_per_branch: n_k of each branch.

    Returns:
        [M, B, K, Z], differentiable once in ``head``.
    """
    chosen: Tensor = _ChosenLogits.apply(head, action, actions_per_branch)  # type: ignore[no-untyped-call]
    return chosen


def _mean_advantage(head: Tensor, span: slice, n: int) -> Tensor:
    return head[:, :, 1 + span.start : 1 + span.stop].sum(2).mul_(1.0 / n)
