"""replay_sample: draws, gathers and relabels a whole batch per member in one launch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainer.fused.step_buffers import StepBuffers
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.loader import Kernel, load
from trainer.kernels.priority_sums import THREADS
from trainer.kernels.sample_indices import DrawInputs, SampleShape
from trainer.layout import FeatureTable, StateLayout
from trainer.replay import Rings

QUAD = 4  # columns of one 16-byte load
QUAD_BYTES = 16


def replay_sample(
    inputs: DrawInputs,
    rings: Rings,
    layout: StateLayout,
    table: FeatureTable | None,
    hyper: Hyperparameters,
    buffers: StepBuffers,
    *,
    second_state: bool = True,
) -> None:
    """Fills ``buffers`` but for td_error and accept.

    Args:
        inputs: Priorities with fresh sums, counters and keys.
        rings: What is stored, [M, C, ...].
        layout: Which columns of a state are stored.
        table: The market part of the states, None where ``layout.table_dim`` is 0.
        hyper: Per-member scalars of importance weights and hindsight.
        buffers: Written; ``largest_weight`` is raised from 0.
        second_state: False leaves ``buffers.state[1]`` as it is, for a step without V_low.
    """
    shape = SampleShape.of(buffers.members, buffers.batch_size, inputs.sums)
    _kernel(layout, buffers.state.dtype, _aligned(layout, table), second_state).launch(
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
        rings.prefix,
        rings.next_prefix,
        rings.row,
        rings.action,
        rings.reward,
        rings.terminated,
        rings.episode_start,
        rings.episode_stop,
        *_table_arguments(table, rings.prefix),
        *_hindsight_arguments(hyper),
        buffers.state,
        buffers.action,
        buffers.reward,
        buffers.terminated,
        buffers.weight,
        buffers.index,
        buffers.donor,
        buffers.largest_weight,
        np.int32(inputs.priority.shape[1]),
        np.int32(buffers.batch_size),
        np.int32(shape.multiplier),
        np.int32(shape.rows_per_block),
        shared_bytes=shape.shared_bytes,
    )


def _table_arguments(table: FeatureTable | None, absent: Tensor) -> tuple[Tensor | np.float32, ...]:
    """The table and its limit; a kernel without table columns never reads the address given instead."""
    if table is None:
        return absent, absent, absent, np.float32(0.0)
    return table.features, table.center, table.inverse_scale, np.float32(table.limit)


def _hindsight_arguments(hyper: Hyperparameters) -> tuple[Tensor, ...]:
    return (
        hyper.her_size,
        hyper.her_strategy,
        hyper.her_future_offset,
        hyper.her_threshold,
        hyper.her_weight_one,
    )


def _aligned(layout: StateLayout, table: FeatureTable | None) -> bool:
    tensors = () if table is None else (table.features, table.center, table.inverse_scale)
    return (
        layout.prefix_dim % QUAD == 0
        and layout.table_dim % QUAD == 0
        and all(tensor.data_ptr() % QUAD_BYTES == 0 for tensor in tensors)
    )


def _kernel(layout: StateLayout, activation_dtype: torch.dtype, aligned: bool, second_state: bool) -> Kernel:
    return load(
        "replay_sample",
        (
            ("PREFIX_DIM", layout.prefix_dim),
            ("TABLE_DIM", layout.table_dim),
            ("GOAL_DIM", layout.goal_dim),
            ("ACHIEVED_OFFSET", layout.achieved_offset),
            ("NUM_BRANCHES", layout.num_branches),
            ("ACTIVATION", "foxtune::Bf16" if activation_dtype == torch.bfloat16 else "float"),
            ("ALIGNED", int(aligned)),
            ("SECOND_STATE", int(second_state)),
        ),
    )
