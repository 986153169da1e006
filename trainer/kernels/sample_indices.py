"""sample_indices: draws slots by priority, one per stratum, without gathering what they hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import load
from trainer.kernels.priority_sums import THREADS, PrioritySums
from trainer.reference.prioritised_sample import stratum_multiplier

FEWEST_ROWS = 8  # of a thread block: one for each warp
MOST_ROWS = 64  # kMostRows of cuda/prioritised_sample.cuh
BLOCKS_PER_MULTIPROCESSOR = 3
MASS_BYTES = 8


@dataclass(frozen=True)
class SampleShape:
    """How a batch is cut into thread blocks, and the constant of its stratum map."""

    grid: tuple[int, int]
    rows_per_block: int
    multiplier: int
    shared_bytes: int

    @classmethod
    def of(cls, members: int, batch_size: int, sums: PrioritySums) -> SampleShape:
        """Gives a block more rows as long as the blocks still fill the GPU: each pays one scan."""
        device = sums.block_mass.device
        wanted = BLOCKS_PER_MULTIPROCESSOR * torch.cuda.get_device_properties(device).multi_processor_count
        rows = FEWEST_ROWS
        while rows < MOST_ROWS and members * batch_size >= 2 * rows * wanted:
            rows *= 2
        grid = (-(-batch_size // rows), members)
        shared_bytes = sums.block_mass.shape[1] * MASS_BYTES
        return cls(grid, rows, stratum_multiplier(batch_size), shared_bytes)


@dataclass(frozen=True)
class DrawInputs:
    """What a draw depends on, all in device memory."""

    priority: Tensor  # [M, C] float32
    sums: PrioritySums  # of that priority
    written: Tensor  # 0-d int64, items written since the start
    keys: Tensor  # [M, 2] int64, (seed, fold)
    step: Tensor  # 0-d int64, gradient step


def sample_indices(
    inputs: DrawInputs, hyper: Hyperparameters, index: Tensor, weight: Tensor, largest_weight: Tensor
) -> None:
    """Draws B slots per member and their raw importance weights (n P)^-beta.

    Args:
        inputs: Priorities with fresh sums, counters and keys.
        hyper: Per-member beta and number of updates.
        index: [M, B] int32, written.
        weight: [M, B] float32, written; divide by the largest for the importance weight.
        largest_weight: [M] int32, raised from 0 to the bits of the largest raw weight.
    """
    members, batch_size = index.shape
    shape = SampleShape.of(members, batch_size, inputs.sums)
    load("sample_indices").launch(
        shape.grid,
        THREADS,
        inputs.priority,
        inputs.sums.group_mass,
        inputs.sums.block_mass,
        inputs.written,
        inputs.keys,
        inputs.step,
        hyper.per_beta,
        hyper.total_updates,
        index,
        weight,
        largest_weight,
        np.int32(inputs.priority.shape[1]),
        np.int32(batch_size),
        np.int32(shape.multiplier),
        np.int32(shape.rows_per_block),
        shared_bytes=shape.shared_bytes,
    )
