"""priority_write: new priorities from temporal-difference errors, q = (min(|delta|, 255) + 1e-6)^alpha.

Schaul et al. 2016, section 3.3, proportional variant.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trainer.reference.prioritised_sample import mass_of

LARGEST_ERROR = 255.0
SMALLEST_ERROR = 1e-6
UNWRITTEN = -1.0  # below every priority, marks slots that no row of the batch writes


def priority_of(error: Tensor, alpha: Tensor) -> Tensor:
    """Returns the priority of temporal-difference errors as float32.

    exp(alpha log x) rather than pow, whose rounding depends on the position inside a vector register.

    Args:
        error: [M, X] float.
        alpha: [M] float in [0, 1].
    """
    base = error.abs().to(torch.float32).clamp(max=LARGEST_ERROR) + SMALLEST_ERROR
    return torch.exp(alpha.to(torch.float32)[:, None] * torch.log(base))


def written_rows(td_error: Tensor, her_size: Tensor, accept: Tensor) -> Tensor:
    """Returns which rows may write: [M, B] bool.

    Relabelled rows do not, for their error belongs to a goal that the stored transition does not have;
    no row of a member does that was refused or holds a non-finite error.

    Args:
        td_error: [M, B] float.
        her_size: [M] int32, rows r < her_size are relabelled.
        accept: [M] bool.
    """
    row = torch.arange(td_error.shape[1], device=td_error.device)
    sound = accept & torch.isfinite(td_error).all(dim=1)
    return (row >= her_size[:, None]) & sound[:, None]


def priority_write(
    priority: Tensor,
    mass: Tensor,
    largest: Tensor,
    index: Tensor,
    td_error: Tensor,
    alpha: Tensor,
    written: Tensor,
) -> None:
    """Writes priorities in place; among rows of one slot the largest new value wins.

    Args:
        priority: [M, C] float32, q.
        mass: [M, C] int64, rint(q 2^32).
        largest: [M] float32, running maximum of |delta|.
        index: [M, B] int64, slot of each row.
        td_error: [M, B] float, delta.
        alpha: [M] float.
        written: [M, B] bool, rows that may write.
    """
    before = priority.gather(1, index)
    unwritten = torch.full_like(before, UNWRITTEN)
    proposed = torch.where(written, priority_of(td_error, alpha), unwritten)
    priority.scatter_reduce_(1, index, proposed, reduce="amax", include_self=False)
    winner = priority.gather(1, index)
    after = torch.where(winner >= 0.0, winner, before)
    # Rows of one slot now agree, so the order of these two writes is of no consequence.
    priority.scatter_(1, index, after)
    mass.scatter_(1, index, mass_of(after))
    seen = torch.where(written, td_error.abs().to(torch.float32), torch.zeros_like(before))
    largest.copy_(torch.maximum(largest, seen.amax(dim=1)))
