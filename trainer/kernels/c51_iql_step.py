"""c51_iql_step: launches cuda/c51_iql_step.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainer.fused.networks import FusedNetworks
from trainer.fused.step_buffers import StepBuffers
from trainer.fused.workspaces import QSlopes, QWorkspace, VSlopes, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.gradient_norm import NULL
from trainer.kernels.loader import load
from trainer.kernels.relu import ACTIVATION_NAMES

ROWS_PER_BLOCK = 4
THREADS = 32 * ROWS_PER_BLOCK
Defines = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True)
class RowTerms:
    """What every row adds to the step's means, beside its TD error.

    Attributes:
        values: [4, M, B] float32: weighted cross-entropy, both expectile losses, V_high - V_low, share of
            the target outside the support.
    """

    values: Tensor

    @classmethod
    def allocate(cls, members: int, rows: int, device: torch.device) -> RowTerms:
        """Allocates zeros."""
        return cls(torch.zeros((4, members, rows), dtype=torch.float32, device=device))


def loss_defines(num_atoms: int, actions_per_branch: tuple[int, ...], dtype: torch.dtype) -> Defines:
    """Returns the shape of branching C51 as the kernels of the loss are compiled for it."""
    actions = "".join(f"n{count}" for count in actions_per_branch)
    return (("NUM_ATOMS", num_atoms), ("ACTIONS", actions), ("ACTIVATION", ACTIVATION_NAMES[dtype]))


def c51_iql_step(
    networks: FusedNetworks,
    q: QWorkspace,
    value: VWorkspace,
    buffers: StepBuffers,
    hyper: Hyperparameters,
    q_slopes: QSlopes,
    value_slopes: VSlopes,
    terms: RowTerms,
) -> None:
    """Computes the losses of implicit Q-learning and their gradients at the networks' outputs.

    Args:
        networks: Read for the layers whose product is made in the kernel, and for the output bias.
        q: Forward pass of Q on s.
        value: Forward pass of V_high(s), V_low(s) and V_target(s').
        buffers: The batch; ``td_error`` is written.
        hyper: gamma, expectile, v_min and v_max are read on the device.
        q_slopes: ``logits`` is written.
        value_slopes: ``output`` and the last of ``hidden`` are written.
        terms: Written.
    """
    _launch(
        networks,
        q,
        buffers,
        hyper,
        q_slopes,
        terms,
        _ValuePart(
            value.hidden[-1],
            networks.value_output,
            value_slopes.output,
            value_slopes.hidden[-1],
            networks.value_output.stride(0),
        ),
    )


def c51_given_bootstrap(
    networks: FusedNetworks,
    q: QWorkspace,
    bootstrap: Tensor,
    buffers: StepBuffers,
    hyper: Hyperparameters,
    q_slopes: QSlopes,
    terms: RowTerms,
) -> None:
    """Computes the loss of the critic alone, its bootstrap given: what IQL's cost is measured against.

    Args:
        networks: Read for the output bias.
        q: Forward pass of Q on s.
        bootstrap: [M, B] float32, V_target(s').
        buffers: The batch; ``td_error`` is written.
        hyper: gamma, v_min and v_max are read on the device.
        q_slopes: ``logits`` is written.
        terms: Written; those of the value networks are 0.
    """
    given = _ValuePart(NULL, bootstrap, NULL, NULL, 0)
    _launch(networks, q, buffers, hyper, q_slopes, terms, given)


class _ValuePart(NamedTuple):
    """What the kernel reads and writes of the value networks, or a given bootstrap in their place."""

    hidden: Tensor | np.uint64
    output: Tensor  # the last layer; a bootstrap [M, B]
    output_slopes: Tensor | np.uint64
    hidden_slopes: Tensor | np.uint64
    stride: int  # elements from one member's last layer to the next; 0: a bootstrap


def _launch(
    networks: FusedNetworks,
    q: QWorkspace,
    buffers: StepBuffers,
    hyper: Hyperparameters,
    q_slopes: QSlopes,
    terms: RowTerms,
    value: _ValuePart,
) -> None:
    shapes = networks.shapes
    defines = (
        *loss_defines(shapes.num_atoms, shapes.actions_per_branch, q.head.dtype),
        ("HIDDEN", shapes.trunk_columns[-1]),
        ("HAS_VALUE", int(value.stride > 0)),
    )
    load("c51_iql_step", defines).launch(
        (-(-buffers.batch_size // ROWS_PER_BLOCK), buffers.members),
        THREADS,
        q.logits,
        networks.output_bias,
        value.hidden,
        value.output,
        buffers.action,
        buffers.reward,
        buffers.terminated,
        buffers.weight,
        buffers.largest_weight,
        hyper.gamma,
        hyper.expectile,
        hyper.v_min,
        hyper.v_max,
        q_slopes.logits,
        value.output_slopes,
        value.hidden_slopes,
        buffers.td_error,
        terms.values,
        np.int32(buffers.batch_size),
        np.int32(networks.output_bias.stride(0)),
        np.int32(value.stride),
    )
