"""The two containers that travel between environment, replay and agent."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.layout import StateLayout


@dataclass(frozen=True)
class Collection:
    """One epoch's experience: E lanes of exactly L transitions for each of M members.

    Buffers are allocated once and overwritten by every collection. An episode is contiguous inside
    its lane; ``episode_start`` and ``episode_stop`` are positions in the lane, stop exclusive.
    """

    prefix: Tensor  # [M, E, L, P] float
    next_prefix: Tensor  # [M, E, L, P] float
    row: Tensor  # [M, E, L] int32, bar index of the state (next state: row + 1)
    action: Tensor  # [M, E, L, K] uint8
    reward: Tensor  # [M, E, L] float
    terminated: Tensor  # [M, E, L] bool, cuts the bootstrap
    truncated: Tensor  # [M, E, L] bool, keeps the bootstrap
    episode_start: Tensor  # [M, E, L] int32
    episode_stop: Tensor  # [M, E, L] int32

    @classmethod
    def allocate(
        cls,
        members: int,
        episodes: int,
        length: int,
        layout: StateLayout,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Collection:
        """Allocates zeroed buffers for M ``members``, E ``episodes`` and L ``length``."""
        lanes = (members, episodes, length)

        def zeros(*tail: int, dtype: torch.dtype) -> Tensor:
            return torch.zeros(*lanes, *tail, dtype=dtype, device=device)

        return cls(
            prefix=zeros(layout.prefix_dim, dtype=dtype),
            next_prefix=zeros(layout.prefix_dim, dtype=dtype),
            row=zeros(dtype=torch.int32),
            action=zeros(layout.num_branches, dtype=torch.uint8),
            reward=zeros(dtype=dtype),
            terminated=zeros(dtype=torch.bool),
            truncated=zeros(dtype=torch.bool),
            episode_start=zeros(dtype=torch.int32),
            episode_stop=zeros(dtype=torch.int32),
        )


@dataclass(frozen=True)
class Batch:
    """B sampled transitions per member; rows r < her_size[m] carry hindsight goals."""

    index: Tensor  # [M, B] int64, slot in the ring
    state: Tensor  # [M, B, S] float
    action: Tensor  # [M, B, K] int64
    reward: Tensor  # [M, B] float
    next_state: Tensor  # [M, B, S] float
    terminated: Tensor  # [M, B] bool
    weight: Tensor  # [M, B] float, importance weights, maximum 1 per member
