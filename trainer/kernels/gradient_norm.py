"""gradient_norm: launches cuda/gradient_norm.cu."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trainer.kernels.loader import load

THREADS = 256
PIECE = 2048  # parameters of one block: two float4 a thread
NULL = np.uint64(0)


def pieces_of(width: int) -> int:
    """Returns in how many pieces a network of ``width`` parameters is summed."""
    return -(-width // PIECE)


def pieces_of_member(q_width: int, value_width: int) -> int:
    """Returns the pieces of a member: those of Q, V_high and V_low; ``value_width`` 0 without IQL."""
    return pieces_of(q_width) + 2 * pieces_of(value_width)


def gradient_norm(q: Tensor, value: Tensor | None, part: Tensor) -> None:
    """Adds the slices of every gradient into slice 0 and writes the squared norm of every piece.

    Args:
        q: [M, slices, P] float32 gradient of Q.
        value: [2M, slices, P'] float32 of V_high and V_low; None without IQL.
        part: [M, pieces_of_member] float32, out.
    """
    members, slices, width = q.shape
    value_width = 0 if value is None else value.shape[2]
    load("gradient_norm").launch(
        (part.shape[1], members),
        THREADS,
        q,
        NULL if value is None else value,
        part,
        np.int32(slices),
        np.int32(width),
        np.int32(value_width),
    )
