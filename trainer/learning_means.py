"""LearningMeans: an epoch's running means of what the gradient steps report, kept on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainer.agent import UpdateResult


class StepMeans(NamedTuple):
    """Means over gradient steps and members, in the units of :class:`trainer.agent.UpdateResult`."""

    critic_loss: float
    value_loss: float
    value_gap: float
    gradient_norm: float
    clipped_target_share: float


class LearningMeans:
    """Sums accepted steps per member; skipped steps do not count.

    Args:
        members: M.
        dtype: Floating type of the sums.
        device: Where the sums live.

    Attributes:
        sums: [5, M], one row per field of ``StepMeans``, over accepted steps.
        count: [M], accepted steps.
    """

    def __init__(self, members: int, dtype: torch.dtype, device: torch.device) -> None:
        self.sums = torch.zeros((len(StepMeans._fields), members), dtype=dtype, device=device)
        self.count = torch.zeros(members, dtype=dtype, device=device)

    def add(self, result: UpdateResult) -> None:
        """Adds one gradient step, without reading the host."""
        values = torch.stack([getattr(result, name) for name in StepMeans._fields])
        self.sums += torch.where(result.accept, values, torch.zeros_like(values))
        self.count += result.accept

    def reset(self) -> None:
        """Starts anew, in place."""
        self.sums.zero_()
        self.count.zero_()

    def read(self) -> StepMeans:
        """Reads the means over steps and members and starts anew; 0 where no step counted."""
        per_member: Tensor = self.sums / self.count.clamp(min=1)
        means = StepMeans(*per_member.mean(dim=1).tolist())
        self.reset()
        return means
