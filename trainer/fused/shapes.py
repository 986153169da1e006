"""FusedShapes: padded widths of the fused networks, in one place.

Every width that a matrix product sees is a multiple of 8, so that bfloat16 rows start at 16-byte
addresses whatever the state or the layers measure. A constant column of ones behind the columns of each
layer's input turns the bias into one more weight row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainer.config import AgentConfig
from trainer.layout import StateLayout

ALIGNMENT = 8  # elements: 16 bytes of bfloat16


def round_up(width: int, multiple: int = ALIGNMENT) -> int:
    """Returns the smallest multiple of ``multiple`` that is at least ``width``."""
    return math.ceil(width / multiple) * multiple


@dataclass(frozen=True)
class FusedShapes:
    """Widths of the layers, as configured and as laid out.

    Attributes:
        state_dim: S.
        trunk_widths: H of each hidden layer of every network's trunk.
        head_width: Hidden width of the value head and of each branch head.
        num_atoms: Z.
        actions_per_branch: n_k.
    """

    state_dim: int
    trunk_widths: tuple[int, ...]
    head_width: int
    num_atoms: int
    actions_per_branch: tuple[int, ...]

    @classmethod
    def of(cls, config: AgentConfig, layout: StateLayout) -> FusedShapes:
        """Takes the shape keys of a configuration."""
        return cls(
            layout.state_dim,
            config.trunk_widths,
            config.head_width,
            config.num_atoms,
            layout.actions_per_branch,
        )

    @property
    def state_pitch(self) -> int:
        """Sp, elements of a state row: column S is 1, the columns behind it are 0."""
        return round_up(self.state_dim + 1)

    @property
    def trunk_columns(self) -> tuple[int, ...]:
        """Hn, product columns of each hidden layer; a row holds 8 more, the first of them 1."""
        return tuple(round_up(width) for width in self.trunk_widths)

    @property
    def trunk_pitches(self) -> tuple[int, ...]:
        """Hp, elements of a row of each hidden layer."""
        return tuple(columns + ALIGNMENT for columns in self.trunk_columns)

    @property
    def heads(self) -> int:
        """1 + K: the value head, then the branches."""
        return 1 + len(self.actions_per_branch)

    @property
    def head_columns(self) -> int:
        """Nn, product columns of one head's hidden layer."""
        return round_up(self.head_width)

    @property
    def head_rows(self) -> int:
        """1 + A: the value's and every action's distribution."""
        return 1 + sum(self.actions_per_branch)

    @property
    def atom_pitch(self) -> int:
        """Zp, columns of one distribution."""
        return round_up(self.num_atoms)

    @property
    def logit_width(self) -> int:
        """LW = (1 + A) Zp, columns of the output layer."""
        return self.head_rows * self.atom_pitch

    def hidden_columns_of(self, head: int) -> slice:
        """Returns which columns of the heads' hidden layer belong to ``head``."""
        return slice(head * self.head_columns, (head + 1) * self.head_columns)

    def logit_columns_of(self, head: int) -> slice:
        """Returns which columns of the output layer belong to ``head``."""
        rows = (1, *self.actions_per_branch)
        start = sum(rows[:head])
        return slice(start * self.atom_pitch, (start + rows[head]) * self.atom_pitch)
