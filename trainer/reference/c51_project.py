"""c51_project: the categorical projection of a Bellman target onto the fixed support.

    m_j = sum_i p_i max(0, 1 - |clip(x_i, v_min, v_max) - z_j| / delta_z),   x_i = r + discount z_i

Bellemare, Dabney & Munos 2017, eq. 7 and algorithm 1. This is the scatter form: every source gives its
mass to the two atoms around it. The lower atom is at most Z - 2, so that a source exactly on an atom,
the last one included, keeps all its mass (the two-sided floor and ceil of algorithm 1 lose it there).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trainer.reference.c51_support import delta_z


class Projection(NamedTuple):
    """A projected target."""

    target: Tensor  # [M, B, Z], every row sums to 1
    clipped_share: Tensor  # [M], mean share of the mass that lay outside [v_min, v_max]


def c51_project(probs: Tensor, location: Tensor, v_min: Tensor, v_max: Tensor, num_atoms: int) -> Projection:
    """Projects masses at arbitrary places onto the atoms.

    Args:
        probs: [M, B, I] mass of each source; I = Z for a shifted distribution, 1 for a point target.
        location: [M, B, I] place x_i of each source, reward units. NaN gives a row with NaN.
        v_min: [M] lowest atom.
        v_max: [M] highest atom.
        num_atoms: Z.

    Returns:
        The target distribution and the share of clipped mass.
    """
    low, high = v_min[:, None, None], v_max[:, None, None]
    spacing = delta_z(v_min, v_max, num_atoms)[:, None, None]
    inside = torch.minimum(torch.maximum(location, low), high)
    position = ((inside - low) / spacing).clamp_(0, num_atoms - 1)
    # An index must be legal even where the position is NaN; the masses carry the NaN on.
    lower = position.nan_to_num(0.0).floor_().clamp_(max=num_atoms - 2)
    to_upper = probs * (position - lower)
    index = lower.long()
    target = probs.new_zeros((*probs.shape[:2], num_atoms))
    target.scatter_add_(2, index, probs - to_upper)
    target.scatter_add_(2, index + 1, to_upper)
    outside = (location < low) | (location > high)
    return Projection(target, (probs * outside).sum(2).mean(1))
