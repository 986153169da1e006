"""priority_write: new priorities from temporal-difference errors, the largest of a slot's rows winning."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import load

WARP = 32
MOST_THREADS = 1024
ROWS_OF_ONE_BLOCK = 4096  # above it, a member's rows are spread over several blocks and two launches
CLEAR, RAISE = 1, 2  # phases of cuda/priority_write.cu


def priority_write(
    priority: Tensor,
    largest_error: Tensor,
    index: Tensor,
    td_error: Tensor,
    accept: Tensor,
    hyper: Hyperparameters,
) -> None:
    """Writes priorities in place; relabelled rows and refused members write nothing.

    Args:
        priority: [M, C] float32, q.
        largest_error: [M] float32, running maximum of raw |delta|.
        index: [M, B] int32, slot of each row.
        td_error: [M, B] float32; a member with a non-finite one writes nothing.
        accept: [M] int32, 0 for a member whose step was skipped.
        hyper: Per-member alpha and her_size.
    """
    members, batch_size = index.shape
    threads = min(MOST_THREADS, -(-batch_size // WARP) * WARP)
    spread = batch_size > ROWS_OF_ONE_BLOCK
    grid = (-(-batch_size // threads) if spread else 1, members)
    for phases in (CLEAR, RAISE) if spread else (CLEAR | RAISE,):
        load("priority_write").launch(
            grid,
            threads,
            priority,
            largest_error,
            index,
            td_error,
            hyper.her_size,
            accept,
            hyper.per_alpha,
            np.int32(priority.shape[1]),
            np.int32(batch_size),
            np.int32(phases),
        )
