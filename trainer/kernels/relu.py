"""relu: launches cuda/relu.cu."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainer.kernels.loader import load

THREADS = 256
BYTES_PER_THREAD = 16
ACTIVATION_NAMES = {torch.float32: "float", torch.bfloat16: "foxtune::Bf16"}


def blocks_of(rows: int, columns: int, dtype: torch.dtype) -> int:
    """Returns how many blocks cover ``rows`` rows of ``columns`` values, 16 bytes a thread."""
    packs = rows * columns * dtype.itemsize // BYTES_PER_THREAD
    return -(-packs // THREADS)


def relu(hidden: Tensor, columns: int) -> None:
    """Rectifies the first ``columns`` columns of every row in place; NaN stays NaN.

    Args:
        hidden: [N, R, pitch] float32 or bfloat16, contiguous.
        columns: A multiple of 8.
    """
    rows = hidden.shape[0] * hidden.shape[1]
    kernel = load("relu", (("ACTIVATION", ACTIVATION_NAMES[hidden.dtype]),))
    grid = (blocks_of(rows, columns, hidden.dtype),)
    kernel.launch(grid, THREADS, hidden, np.int64(rows), np.int32(columns), np.int32(hidden.shape[2]))
