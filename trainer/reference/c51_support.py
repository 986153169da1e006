"""c51_support: the fixed atoms of a categorical value distribution (Bellemare, Dabney & Munos 2017).

z_i = v_min + i delta_z,   delta_z = (v_max - v_min) / (Z - 1),   E[Q] = sum_i p_i z_i
"""

from __future__ import annotations

import torch
from torch import Tensor


def delta_z(v_min: Tensor, v_max: Tensor, num_atoms: int) -> Tensor:
    """Returns the spacing [M] of the atoms."""
    return (v_max - v_min) / (num_atoms - 1)


def support(v_min: Tensor, v_max: Tensor, num_atoms: int) -> Tensor:
    """Returns the atoms [M, Z] of each member.

    Args:
        v_min: [M] lowest atom, reward units.
        v_max: [M] highest atom.
        num_atoms: Z, at least 2.
    """
    step = torch.arange(num_atoms, dtype=v_min.dtype, device=v_min.device)
    return v_min[:, None] + step * delta_z(v_min, v_max, num_atoms)[:, None]


def expected_value(probs: Tensor, atoms: Tensor) -> Tensor:
    """Returns E[Q] [M, B, X] of ``probs`` [M, B, X, Z] on ``atoms`` [M, Z]."""
    return (probs * atoms[:, None, None, :]).sum(-1)
