"""greedy_row: launches cuda/greedy_row.cu."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainer.fused.networks import FusedNetworks
from trainer.fused.shapes import ALIGNMENT, FusedShapes
from trainer.hyperparameters import Hyperparameters
from trainer.kernels.c51_iql_step import loss_defines
from trainer.kernels.loader import load

THREADS = 512
CLUSTERS = (8, 4, 2, 1)  # 8 is the most that every GPU with clusters offers
BLOCKS_PER_PROCESSOR = 2  # a stack beyond them gains nothing from more processors per member
FIRST_WITH_CLUSTERS = 9  # major compute capability
PACK_BYTES = 16
MOST_SHARED_BYTES = 96 * 1024  # every supported GPU has 99 KB; the rest is the kernel's static share


def cluster_of(members: int, device: torch.device) -> int:
    """Returns how many processors share a member's networks."""
    processors = torch.cuda.get_device_properties(device)
    if processors.major < FIRST_WITH_CLUSTERS:
        return 1
    room = BLOCKS_PER_PROCESSOR * processors.multi_processor_count
    return next((each for each in CLUSTERS if each * members <= room), 1)


def shared_bytes(shapes: FusedShapes, act_dtype: torch.dtype, cluster: int) -> int:
    """Returns the dynamic shared memory of a block: two layers and the partial sums of the widest spread."""
    layers = (*shapes.trunk_columns, shapes.heads * shapes.head_columns, shapes.logit_width)
    widest = max(shapes.state_pitch, *layers) + ALIGNMENT
    width = PACK_BYTES // act_dtype.itemsize

    def partial(columns: int) -> int:
        packs = min(-(-(columns // width) // cluster), THREADS)
        return (THREADS // packs) * (packs * width + 4)

    return 4 * (2 * widest + max(partial(columns) for columns in layers))


def fits(shapes: FusedShapes, act_dtype: torch.dtype) -> bool:
    """Whether layers of these widths fit into the shared memory of every supported GPU."""
    return max(shared_bytes(shapes, act_dtype, cluster) for cluster in CLUSTERS) <= MOST_SHARED_BYTES


def greedy_row(
    networks: FusedNetworks, state: Tensor, logits: Tensor, hyper: Hyperparameters, action: Tensor
) -> None:
    """Takes the action with the largest E[Q] of every branch for one state per member; ties: lowest index.

    Sums are float32 over operands of the activations' type: with ``tf32`` operands are not rounded here.

    Args:
        networks: The online Q networks.
        state: [M, 1, Sp] act dtype, column S is 1.
        logits: [M, 1, LW] float32, written, without the output bias.
        hyper: v_min and v_max are read on the device.
        action: [M, 1, K] uint8, written.
    """
    shapes, members = networks.shapes, len(state)
    cluster = cluster_of(members, state.device)
    layers = [f"trunk.{layer}" for layer in range(len(shapes.trunk_columns))]
    starts = [networks.q.block.start(name) for name in (*layers, "head.hidden", "head.output")]
    defines = (
        *loss_defines(shapes.num_atoms, shapes.actions_per_branch, state.dtype),
        ("CLUSTER", cluster),
        ("STATE", shapes.state_pitch),
        ("TRUNK", _listed(shapes.trunk_columns)),
        ("HEAD", shapes.head_columns),
        ("STARTS", _listed(starts)),
    )
    load("greedy_row", defines).launch(
        (cluster, members),
        THREADS,
        state,
        networks.q.operand,
        networks.output_bias,
        hyper.v_min,
        hyper.v_max,
        logits,
        action,
        np.int32(networks.q.operand.stride(0)),
        np.int32(networks.output_bias.stride(0)),
        shared_bytes=shared_bytes(shapes, state.dtype, cluster),
    )


def _listed(numbers: tuple[int, ...] | list[int]) -> str:
    return "".join(f"n{number}" for number in numbers)
