"""relu_mask: launches cuda/relu_mask.cu."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from trainer.kernels.loader import load
from trainer.kernels.relu import ACTIVATION_NAMES, THREADS, blocks_of


def relu_mask(gradient: Tensor, hidden: Tensor) -> None:
    """Takes ``gradient`` back through the rectifier in place: 0 where the output is not positive.

    Args:
        gradient: [N, R, columns] contiguous, of the rectified columns.
        hidden: [N, R, pitch] contiguous, rectified output of the same type.
    """
    count, batch, columns = gradient.shape
    rows = count * batch
    kernel = load("relu_mask", (("ACTIVATION", ACTIVATION_NAMES[gradient.dtype]),))
    grid = (blocks_of(rows, columns, gradient.dtype),)
    sizes = np.int64(rows), np.int32(columns), np.int32(hidden.shape[2])
    kernel.launch(grid, THREADS, gradient, hidden, *sizes)
