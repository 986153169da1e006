"""gradient_clip: the norm of each network's gradient and the factor that limits it.

    factor = min(1, max_norm / (||g||_2 + 1e-6))

Pascanu, Mikolov & Bengio 2013, algorithm 1. A network of a member is one row: members never mix.
"""

from __future__ import annotations

import torch
from torch import Tensor

NORM_OFFSET = 1e-6


def gradient_norm(gradient: Tensor) -> Tensor:
    """Returns the Euclidean norms [*rows] of ``gradient`` [*rows, P]."""
    # Row by row, so that a row's order of summation does not depend on the size of the stack.
    norms = [torch.linalg.vector_norm(row) for row in gradient.view(-1, gradient.shape[-1]).unbind()]
    return torch.stack(norms).view(gradient.shape[:-1])


def clip_factor(norm: Tensor, max_norm: Tensor) -> Tensor:
    """Returns the factor [*rows, M] for ``norm`` [*rows, M] under the limits ``max_norm`` [M]."""
    return (max_norm / (norm + NORM_OFFSET)).clamp_(max=1.0)
