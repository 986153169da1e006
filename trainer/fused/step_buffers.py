"""StepBuffers: the tensors through which the kernels of one gradient step speak to each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.fused.shapes import round_up
from trainer.layout import StateLayout


@dataclass(frozen=True)
class StepBuffers:
    """B rows per member, allocated once; a captured step reads and writes these addresses.

    Attributes:
        state: [3, M, B, Sp] float32 or bfloat16: s, s again, s'; so that V_high, V_low and V_target are one
            batch of 3M.
        action: [M, B, K] uint8.
        reward: [M, B] float32, the environment's or, on relabelled rows, the goal's.
        terminated: [M, B] bool, cuts the bootstrap.
        weight: [M, B] float32, importance weight before its division by the largest, -1 on a row that
            weighs exactly 1.
        largest_weight: [M] int32, bits of the largest float32 raw weight of all B rows.
        index: [M, B] int32, slot in the ring.
        donor: [M, B] int32, slot whose achieved goal the row took, -1 where it kept its own.
        td_error: [M, B] float32.
        accept: [M] int32, 0 where the member's step was refused.
    """

    state: Tensor
    action: Tensor
    reward: Tensor
    terminated: Tensor
    weight: Tensor
    largest_weight: Tensor
    index: Tensor
    donor: Tensor
    td_error: Tensor
    accept: Tensor

    @classmethod
    def allocate(
        cls,
        members: int,
        batch_size: int,
        layout: StateLayout,
        activation_dtype: torch.dtype,
        device: torch.device,
    ) -> StepBuffers:
        """Allocates zeroed buffers for M ``members`` and B rows.

        Raises:
            ValueError: If ``activation_dtype`` is neither float32 nor bfloat16.
        """
        if activation_dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"activations are float32 or bfloat16, but got {activation_dtype}")

        def rows(*tail: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros((members, batch_size, *tail), dtype=dtype, device=device)

        def each(dtype: torch.dtype) -> Tensor:
            return torch.zeros(members, dtype=dtype, device=device)

        state = torch.zeros(
            (3, members, batch_size, round_up(layout.state_dim + 1)), dtype=activation_dtype, device=device
        )
        return cls(
            state=state,
            action=rows(layout.num_branches, dtype=torch.uint8),
            reward=rows(),
            terminated=rows(dtype=torch.bool),
            weight=rows(),
            largest_weight=each(torch.int32),
            index=rows(dtype=torch.int32),
            donor=rows(dtype=torch.int32),
            td_error=rows(),
            accept=each(torch.int32),
        )

    @property
    def members(self) -> int:
        """M."""
        return self.index.shape[0]

    @property
    def batch_size(self) -> int:
        """B."""
        return self.index.shape[1]

    def value_states(self) -> Tensor:
        """Returns [3M, B, Sp], the inputs of V_high, V_low and V_target as one batch."""
        return self.state.flatten(0, 1)

    def importance_weight(self) -> Tensor:
        """Returns [M, B] float32, the weights as the loss uses them: at most 1 per member."""
        largest = self.largest_weight.view(torch.float32)
        return torch.where(self.weight < 0.0, 1.0, self.weight / largest[:, None])
