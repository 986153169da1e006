"""LearningMeans: an epoch's running means of what the gradient steps report, kept on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from trainer.agent import UpdateResult

QUANTITIES = ("critic_loss", "value_loss", "value_gap", "gradient_norm", "clipped_target_share")


class LearningMeans:
    """Sums accepted steps per member; skipped steps do not count.

    Args:
        members: M.
        dtype: Floating type of the sums.
        device: Where the sums live.

    Attributes:
        sums: [5, M], one row per name in ``QUANTITIES``, over accepted steps.
        count: [M], accepted steps.
    """

    def __init__(self, members: int, dtype: torch.dtype, device: torch.device) -> None:
        self.sums = torch.zeros((len(QUANTITIES), members), dtype=dtype, device=device)
        self.count = torch.zeros(members, dtype=dtype, device=device)

    def add(self, result: UpdateResult) -> None:
        """Adds one gradient step, without reading the host."""
        values = torch.stack([getattr(result, name) for name in QUANTITIES])
        self.sums += torch.where(result.accept, values, torch.zeros_like(values))
        self.count += result.accept

    def reset(self) -> None:
        """Starts anew, in place."""
        self.sums.zero_()
        self.count.zero_()

    def read(self) -> dict[str, float]:
        """Reads the means over steps and members and starts anew; 0 where no step counted."""
        per_member: Tensor = self.sums / self.count.clamp(min=1)
        means = per_member.mean(dim=1).tolist()
        self.reset()
        return dict(zip(QUANTITIES, means, strict=True))
