"""Static activations of the fused networks: allocated once, so that a captured graph finds them again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.fused.shapes import ALIGNMENT, FusedShapes


@dataclass(frozen=True)
class QWorkspace:
    """Activations of R rows for each of M Q networks."""

    hidden: tuple[Tensor, ...]  # trunk layers [M, R, Hp] act dtype, column Hn is 1
    head: Tensor  # [M, R, (1 + K) Nn + 8] act dtype, hidden layers of all heads, then the column of ones
    logits: Tensor  # [M, R, LW] float32, without the output bias

    @classmethod
    def allocate(
        cls, shapes: FusedShapes, members: int, rows: int, act_dtype: torch.dtype, device: torch.device
    ) -> QWorkspace:
        """Allocates the buffers and writes the constant columns."""
        width = shapes.heads * shapes.head_columns
        logits = torch.zeros((members, rows, shapes.logit_width), dtype=torch.float32, device=device)
        return cls(
            _trunk(shapes, members, rows, act_dtype, device),
            _with_ones(members, rows, width, act_dtype, device),
            logits,
        )


@dataclass(frozen=True)
class VWorkspace:
    """Activations of R rows for each of N value networks."""

    hidden: tuple[Tensor, ...]  # trunk layers [N, R, Hp] act dtype, column Hn is 1

    @classmethod
    def allocate(
        cls, shapes: FusedShapes, networks: int, rows: int, act_dtype: torch.dtype, device: torch.device
    ) -> VWorkspace:
        """Allocates the buffers and writes the constant columns."""
        return cls(_trunk(shapes, networks, rows, act_dtype, device))


@dataclass(frozen=True)
class QSlopes:
    """d loss / d activation of B rows for each of M Q networks, act dtype, product columns only."""

    hidden: tuple[Tensor, ...]  # [M, B, Hn]
    head: Tensor  # [M, B, (1 + K) Nn]
    logits: Tensor  # [M, B, LW], padding 0

    @classmethod
    def allocate(
        cls, shapes: FusedShapes, members: int, rows: int, act_dtype: torch.dtype, device: torch.device
    ) -> QSlopes:
        """Allocates the buffers."""

        def zeros(width: int) -> Tensor:
            return torch.zeros((members, rows, width), dtype=act_dtype, device=device)

        widths = shapes.trunk_columns
        head = shapes.heads * shapes.head_columns
        return cls(tuple(zeros(width) for width in widths), zeros(head), zeros(shapes.logit_width))


@dataclass(frozen=True)
class VSlopes:
    """d loss / d activation of B rows for each of N value networks, act dtype, product columns only."""

    hidden: tuple[Tensor, ...]  # [N, B, Hn]
    output: Tensor  # [N, B, 8], column 0 is d loss / d V, the others are 0

    @classmethod
    def allocate(
        cls, shapes: FusedShapes, networks: int, rows: int, act_dtype: torch.dtype, device: torch.device
    ) -> VSlopes:
        """Allocates the buffers."""

        def zeros(width: int) -> Tensor:
            return torch.zeros((networks, rows, width), dtype=act_dtype, device=device)

        return cls(tuple(zeros(width) for width in shapes.trunk_columns), zeros(ALIGNMENT))


def _trunk(
    shapes: FusedShapes, networks: int, rows: int, act_dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, ...]:
    return tuple(_with_ones(networks, rows, width, act_dtype, device) for width in shapes.trunk_columns)


def _with_ones(
    networks: int, rows: int, columns: int, act_dtype: torch.dtype, device: torch.device
) -> Tensor:
    hidden = torch.zeros((networks, rows, columns + ALIGNMENT), dtype=act_dtype, device=device)
    hidden[..., columns] = 1.0
    return hidden
