"""priority_sums: integer priorities of every ring, summed over groups and blocks of slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.kernels.loader import load

GROUP_SLOTS = 128
BLOCK_SLOTS = 1024
THREADS = 256
LARGEST_CAPACITY = 2**21  # sums of 2^21 integer priorities stay below 2^62


@dataclass(frozen=True)
class PrioritySums:
    """Two levels of sums; with the slots themselves they answer any prefix sum exactly."""

    group_mass: Tensor  # [M, 8 N] int64, N = ceil(C / 1024)
    block_mass: Tensor  # [M, N] int64

    @classmethod
    def allocate(cls, members: int, capacity: int, device: torch.device) -> PrioritySums:
        """Allocates zeroed sums for M ``members`` and C slots.

        Raises:
            ValueError: If C exceeds 2^21, where totals could overflow.
        """
        if capacity > LARGEST_CAPACITY:
            raise ValueError(f"`capacity <= {LARGEST_CAPACITY}` must hold, but got {capacity}")
        blocks = -(-capacity // BLOCK_SLOTS)

        def zeros(width: int) -> Tensor:
            return torch.zeros((members, width), dtype=torch.int64, device=device)

        return cls(group_mass=zeros(blocks * BLOCK_SLOTS // GROUP_SLOTS), block_mass=zeros(blocks))


def priority_sums(priority: Tensor, sums: PrioritySums, largest_weight: Tensor) -> None:
    """Sums rint(q 2^32) exactly and resets the largest weight of the coming batch.

    Args:
        priority: [M, C] float32, q.
        sums: Overwritten.
        largest_weight: [M] int32, set to 0.
    """
    members, capacity = priority.shape
    load("priority_sums").launch(
        (sums.block_mass.shape[1], members),
        THREADS,
        priority,
        sums.group_mass,
        sums.block_mass,
        largest_weight,
        np.int32(capacity),
    )
