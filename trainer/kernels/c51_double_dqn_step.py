"""c51_double_dqn_step: launches cuda/c51_double_dqn_step.cu."""

from __future__ import annotations

import numpy as np

from trainer.fused.networks import FusedNetworks
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.c51_iql_step import ROWS_PER_BLOCK, THREADS, RowTerms, loss_defines
from trainer.kernels.loader import load


def c51_double_dqn_step(
    networks: FusedNetworks,
    q: QWorkspace,
    next_q: QWorkspace,
    target_q: QWorkspace,
    buffers: StepBuffers,
    hyper: Hyperparameters,
    q_slopes: QSlopes,
    terms: RowTerms,
) -> None:
    """Computes the loss of branching C51 under Double DQN and its gradient at the head's output.

    Args:
        networks: Read for the biases of the output layers.
        q: Forward pass of Q on s.
        next_q: Forward pass of Q on s', which chooses the next actions.
        target_q: Forward pass of the slow copy on s', which values them.
        buffers: The batch; ``td_error`` is written.
        hyper: gamma, v_min and v_max are read on the device.
        q_slopes: ``logits`` is written.
        terms: Written.
    """
    shapes = networks.shapes
    kernel = load(
        "c51_double_dqn_step", loss_defines(shapes.num_atoms, shapes.actions_per_branch, q.head.dtype)
    )
    kernel.launch(
        (-(-buffers.batch_size // ROWS_PER_BLOCK), buffers.members),
        THREADS,
        q.logits,
        next_q.logits,
        target_q.logits,
        networks.output_bias,
        networks.target_output_bias,
        buffers.action,
        buffers.reward,
        buffers.terminated,
        buffers.weight,
        buffers.largest_weight,
        hyper.gamma,
        hyper.v_min,
        hyper.v_max,
        q_slopes.logits,
        buffers.td_error,
        terms.values,
        np.int32(buffers.batch_size),
        np.int32(networks.output_bias.stride(0)),
    )
