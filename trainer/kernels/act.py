"""act: launches cuda/act.cu."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from trainer.fused.networks import FusedNetworks
from trainer.fused.workspaces import QWorkspace, VWorkspace
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.c51_iql_step import ROWS_PER_BLOCK, THREADS, loss_defines
from trainer.kernels.loader import Kernel, load


@dataclass(frozen=True)
class ActionDraws:
    """What the random numbers of sampled actions depend on, in device memory.

    Attributes:
        keys: [M, 2] int64, (seed, fold).
        acted: 0-d int64, environment steps before the present collection.
        position: [M, R] int32, steps made since.
    """

    keys: Tensor
    acted: Tensor
    position: Tensor


def act(
    networks: FusedNetworks,
    q: QWorkspace,
    value: VWorkspace | None,
    hyper: Hyperparameters,
    draws: ActionDraws,
    action: Tensor,
) -> None:
    """Samples the advantage-weighted policy of every branch.

    Args:
        networks: Read for the output bias and the last layer of V_high.
        q: Forward pass of Q.
        value: Forward pass of V_high; None measures advantages from the mean of Q over a branch's actions.
        hyper: v_min, v_max and the inverse temperature are read on the device.
        draws: Keys and counters.
        action: [M, R, K] uint8, written.
    """
    # Where no value network exists, its arguments are addresses that the kernel never reads.
    hidden, output = (q.logits, q.logits) if value is None else (value.hidden[-1], networks.value_output)
    _kernel(networks, q, greedy=False, has_value=value is not None).launch(
        (-(-action.shape[1] // ROWS_PER_BLOCK), action.shape[0]),
        THREADS,
        q.logits,
        networks.output_bias,
        hyper.v_min,
        hyper.v_max,
        hidden,
        output,
        hyper.inverse_temperature,
        draws.keys,
        draws.acted,
        draws.position,
        action,
        np.int32(action.shape[1]),
        np.int32(networks.output_bias.stride(0)),
        np.int32(output.stride(0)),
    )


def act_greedily(networks: FusedNetworks, q: QWorkspace, hyper: Hyperparameters, action: Tensor) -> None:
    """Takes the action with the largest E[Q] of every branch; ties: the lowest index.

    Args:
        networks: Read for the output bias.
        q: Forward pass of Q.
        hyper: v_min and v_max are read on the device.
        action: [M, R, K] uint8, written.
    """
    unread = q.logits
    _kernel(networks, q, greedy=True, has_value=False).launch(
        (-(-action.shape[1] // ROWS_PER_BLOCK), action.shape[0]),
        THREADS,
        q.logits,
        networks.output_bias,
        hyper.v_min,
        hyper.v_max,
        *(unread,) * 6,
        action,
        np.int32(action.shape[1]),
        np.int32(networks.output_bias.stride(0)),
        np.int32(0),
    )


def _kernel(networks: FusedNetworks, q: QWorkspace, *, greedy: bool, has_value: bool) -> Kernel:
    shapes = networks.shapes
    return load(
        "act",
        (
            *loss_defines(shapes.num_atoms, shapes.actions_per_branch, q.head.dtype),
            ("HIDDEN", shapes.trunk_columns[-1]),
            ("GREEDY", int(greedy)),
            ("HAS_VALUE", int(has_value)),
        ),
    )
