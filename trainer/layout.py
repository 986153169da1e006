"""StateLayout: which columns of a state mean what, shared by environment, replay, hindsight and networks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.errors import ConfigError


@dataclass(frozen=True)
class StateLayout:
    """A state is [prefix | table row]; the prefix begins with [desired goal | achieved goal].

    The prefix is stored with every transition. The table part is rebuilt from the shared feature
    table at gather time: row ``t`` for the state, row ``t + 1`` for the next state. An environment
    without a table (``table_dim = 0``) stores its whole state in the prefix.

    Attributes:
        goal_dim: G, width of a goal.
        prefix_dim: P, floats stored per state.
        table_dim: F, columns of the feature table; 0 for dense environments.
        achieved_offset: Column of the achieved goal; 0 means the goal slot itself holds it.
        actions_per_branch: n_k for each of the K branches.
    """

    goal_dim: int
    prefix_dim: int
    table_dim: int
    achieved_offset: int
    actions_per_branch: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.achieved_offset + self.goal_dim > self.prefix_dim:
            raise ConfigError(
                "hindsight.achieved_offset",
                "`achieved_offset + goal_dim <= prefix_dim` must hold, but got "
                f"{self.achieved_offset} + {self.goal_dim} > {self.prefix_dim}; lower it, or leave it out",
            )

    @property
    def state_dim(self) -> int:
        """S = P + F."""
        return self.prefix_dim + self.table_dim

    @property
    def num_branches(self) -> int:
        """K."""
        return len(self.actions_per_branch)


@dataclass(frozen=True)
class FeatureTable:
    """The shared market part of every state, standardised per member.

    Attributes:
        features: [N, F] raw features, one row per bar, shared by all members.
        center: [M, F] training-window location of each member's fold.
        inverse_scale: [M, F] one over the training-window scale.
        limit: Standardised values are clipped to [-limit, limit].
    """

    features: Tensor
    center: Tensor
    inverse_scale: Tensor
    limit: float = 10.0

    def rows(self, row: Tensor) -> Tensor:
        """Returns the standardised features of bars ``row`` [M, X] int64 as [M, X, F]."""
        raw = self.features[row.long()]
        scaled = (raw - self.center[:, None, :]) * self.inverse_scale[:, None, :]
        return scaled.clamp(-self.limit, self.limit)


def assemble(prefix: Tensor, table: FeatureTable | None, row: Tensor) -> Tensor:
    """Joins prefix [M, X, P] and table rows of ``row`` [M, X] to states [M, X, P + F]."""
    if table is None:
        return prefix
    return torch.cat([prefix, table.rows(row)], dim=-1)
