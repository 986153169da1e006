"""PaddedBlock: the flat padded layout of one network kind, and its way to and from the reference's layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.fused.shapes import ALIGNMENT, FusedShapes, round_up
from trainer.parameter_block import ParameterBlock

LINE = 64  # elements; a matrix starts at a multiple of it, and so does every row of the flat tensor
Window = Callable[[Tensor], Tensor]  # a padded matrix [N, rows, columns] -> its part that is in use


@dataclass(frozen=True)
class PaddedMatrix:
    """One matrix inside the flat row.

    Attributes:
        name: The layer.
        rows: Input rows, the bias row and its padding included.
        columns: A multiple of 8.
        decays: Rows and columns below these are weights and decay; the others are bias or padding.
        weight: The window of the reference's ``<name>.weight``.
        bias: The window of the reference's ``<name>.bias``; None: another matrix holds it.
    """

    name: str
    rows: int
    columns: int
    decays: tuple[int, int]
    weight: Window | None
    bias: Window | None


class PaddedBlock:
    """Where each matrix of a network stands in a flat row of ``width`` elements.

    Attributes:
        matrices: In the order of the row.
        width: P, elements of a row, a multiple of 64.
    """

    def __init__(self, matrices: tuple[PaddedMatrix, ...]) -> None:
        self.matrices = matrices
        self._start: dict[str, int] = {}
        offset = 0
        for matrix in matrices:
            self._start[matrix.name] = offset
            offset += round_up(matrix.rows * matrix.columns, LINE)
        self.width = offset

    def start(self, name: str) -> int:
        """Returns the first element of matrix ``name`` in a row."""
        return self._start[name]

    def matrix(self, name: str, flat: Tensor) -> Tensor:
        """Returns matrix ``name`` [N, rows, columns] as a view into ``flat`` [N, P]."""
        matrix = next(each for each in self.matrices if each.name == name)
        start = self._start[name]
        return flat[:, start : start + matrix.rows * matrix.columns].view(-1, matrix.rows, matrix.columns)

    def decays(self, device: torch.device) -> Tensor:
        """Returns [P / 4] uint8: 1 where four neighbouring parameters are weights, which decay."""
        marks = torch.zeros((1, self.width), dtype=torch.uint8, device=device)
        for matrix in self.matrices:
            rows, columns = matrix.decays
            self.matrix(matrix.name, marks)[:, :rows, :columns] = 1
        return marks[0, ::4].contiguous()

    def pack(self, reference: ParameterBlock, source: Tensor, flat: Tensor) -> None:
        """Writes parameters or moments from the reference's layout.

        Args:
            reference: The layout of ``source``.
            source: [N, P'] in the reference's layout.
            flat: [N, P], overwritten; its padding becomes 0.
        """
        flat.zero_()
        for name, window in self._windows(flat):
            window.copy_(reference.view(name, source).reshape(window.shape))

    def unpack(self, flat: Tensor, reference: ParameterBlock) -> Tensor:
        """Returns ``flat`` [N, P] in the reference's layout [N, P'], the gaps 0."""
        target = flat.new_zeros((len(flat), reference.value.shape[1]))
        for name, window in self._windows(flat):
            view = reference.view(name, target)
            view.copy_(window.reshape(view.shape))
        return target

    def _windows(self, flat: Tensor) -> list[tuple[str, Tensor]]:
        windows = []
        for matrix in self.matrices:
            padded = self.matrix(matrix.name, flat)
            layer = matrix.name.removesuffix(".bias")
            if matrix.weight is not None:
                windows.append((f"{layer}.weight", matrix.weight(padded)))
            if matrix.bias is not None:
                windows.append((f"{layer}.bias", matrix.bias(padded)))
        return windows


def q_block(shapes: FusedShapes) -> PaddedBlock:
    """Returns the layout of the Q network: trunk, heads' hidden layers, heads' output layers."""
    inputs, width = shapes.trunk_columns[-1], shapes.head_width
    heads, head_columns = shapes.heads, shapes.head_columns
    rows, atoms, atom_pitch = shapes.head_rows, shapes.num_atoms, shapes.atom_pitch

    def hidden(matrix: Tensor, chosen: slice | int) -> Tensor:
        return matrix.view(len(matrix), -1, heads, head_columns)[:, chosen, ..., :width]

    def output(matrix: Tensor, chosen: slice | int) -> Tensor:
        return matrix.view(len(matrix), -1, rows, atom_pitch)[:, chosen, ..., :atoms]

    return PaddedBlock(
        (
            *_trunk(shapes),
            PaddedMatrix(
                "head.hidden",
                shapes.trunk_pitches[-1],
                heads * head_columns,
                (inputs, heads * head_columns),
                lambda matrix: hidden(matrix, slice(shapes.trunk_widths[-1])),
                lambda matrix: hidden(matrix, inputs),
            ),
            PaddedMatrix(
                "head.output",
                head_columns,
                shapes.logit_width,
                (head_columns, shapes.logit_width),
                lambda matrix: output(matrix, slice(width)),
                None,
            ),
            PaddedMatrix(
                "head.output.bias",
                ALIGNMENT,
                shapes.logit_width,
                (0, 0),
                None,
                lambda matrix: output(matrix, 0),
            ),
        )
    )


def value_block(shapes: FusedShapes) -> PaddedBlock:
    """Returns the layout of a value network: trunk, then one output row of Hp, its bias at element Hn.

    The row is the first of 8, so that its gradient is an ordinary matrix product.
    """
    columns, width = shapes.trunk_columns[-1], shapes.trunk_widths[-1]
    return PaddedBlock(
        (
            *_trunk(shapes),
            PaddedMatrix(
                "output",
                ALIGNMENT,
                shapes.trunk_pitches[-1],
                (1, columns),
                lambda matrix: matrix[:, 0, :width],
                lambda matrix: matrix[:, 0, columns : columns + 1],
            ),
        )
    )


def _trunk(shapes: FusedShapes) -> tuple[PaddedMatrix, ...]:
    ins = (shapes.state_dim, *shapes.trunk_widths[:-1])
    bias_rows = (shapes.state_dim, *shapes.trunk_columns[:-1])
    pitches = (shapes.state_pitch, *shapes.trunk_pitches[:-1])
    return tuple(
        PaddedMatrix(
            f"trunk.{layer}",
            pitches[layer],
            columns,
            (bias_rows[layer], columns),
            *_affine(ins[layer], bias_rows[layer], width),
        )
        for layer, (columns, width) in enumerate(zip(shapes.trunk_columns, shapes.trunk_widths, strict=True))
    )


def _affine(inputs: int, bias_row: int, outputs: int) -> tuple[Window, Window]:
    return (lambda matrix: matrix[:, :inputs, :outputs], lambda matrix: matrix[:, bias_row, :outputs])
