"""FiniteGuard: counts steps skipped for NaN or infinity on the device; reads the host in one place."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from trainer.errors import NonFiniteError
from trainer.post_mortem import Output, Source, first_non_finite

QUANTITIES = ("TD error", "critic loss", "value loss", "gradient norm")  # the order of the update
NEVER = -1


class FiniteGuard:
    """Per member: how many steps were skipped, the first one, and what was wrong with it.

    Attributes:
        skipped: [M] int64.
        first_step: [M] int64, gradient step from 0; -1 while nothing was skipped.
        first_quantity: [M] int64, index into ``QUANTITIES``; -1 while nothing was skipped.
    """

    def __init__(self, members: int, device: torch.device) -> None:
        self.skipped = torch.zeros(members, dtype=torch.int64, device=device)
        self.first_step = torch.full_like(self.skipped, NEVER)
        self.first_quantity = torch.full_like(self.skipped, NEVER)

    def reset(self) -> None:
        """Forgets every skipped step, in place."""
        self.skipped.zero_()
        self.first_step.fill_(NEVER)
        self.first_quantity.fill_(NEVER)

    def judge(self, quantities: tuple[Tensor, ...], step: Tensor) -> Tensor:
        """Records one gradient step.

        Args:
            quantities: One tensor [M, ...] per name in ``QUANTITIES``, in that order.
            step: 0-d int64, the gradient step.

        Returns:
            accept [M] bool: everything of the member is finite.
        """
        finite = torch.stack([torch.isfinite(each).view(len(each), -1).all(1) for each in quantities])
        accept = finite.all(0)
        first_time = ~accept & (self.first_step == NEVER)
        quantity = finite.long().cumprod(0).sum(0)  # how many are finite before the first that is not
        self.first_step.copy_(torch.where(first_time, step, self.first_step))
        self.first_quantity.copy_(torch.where(first_time, quantity, self.first_quantity))
        self.skipped += ~accept
        return accept

    def check(self, max_skipped_steps: int, check_finite: bool, outputs: Iterable[Output] = ()) -> None:
        """Fails a training that skipped too often; the only read of device memory by the host.

        Args:
            max_skipped_steps: Skipped steps a member may have.
            check_finite: True: not a single one.
            outputs: Of the step just made, in its order; looked at where the training fails, to name the
                first that is not finite.

        Raises:
            NonFiniteError: Naming the first bad quantity of the member that failed first.
        """
        allowed = 0 if check_finite else max_skipped_steps
        table = torch.stack([self.skipped, self.first_step, self.first_quantity]).tolist()
        failed = [
            (step, member, quantity)
            for member, (skipped, step, quantity) in enumerate(zip(*table, strict=True))
            if skipped > allowed
        ]
        if failed:
            step, member, quantity = min(failed)
            source = first_non_finite(outputs, [m for first, m, _ in failed if first == step])
            raise NonFiniteError(QUANTITIES[quantity], step, member, _described(source, member))

    def tensors(self) -> dict[str, Tensor]:
        """Returns the live counters by name, for checkpoints."""
        return {
            "skipped": self.skipped,
            "first_step": self.first_step,
            "first_quantity": self.first_quantity,
        }


def _described(source: Source | None, member: int) -> str | None:
    """The output's name, with its member where that is another than the message names anyway."""
    if source is None:
        return None
    return source.name if source.member == member else f"{source.name} of member {source.member}"
