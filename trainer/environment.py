"""Environment: M x E lanes in static tensors, and what every environment promises about them.

Time runs in lanes of exactly L steps. ``begin_lanes`` starts a fresh episode in every lane; an episode
that terminates inside a lane is followed by a new one in the same lane, whose start leaves room for the
rest of the lane. Nothing here reads a device value on the host, so a lane can be captured and replayed.

Random numbers come from Philox with the member's key (seed, fold) and the environment's own step
counter, hence a member sees the same numbers in any stack and at any position of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.layout import FeatureTable, StateLayout


@dataclass(frozen=True)
class Observation:
    """What a policy may know now. Static tensors: the next ``step`` or ``begin_lanes`` overwrites them."""

    prefix: Tensor  # [M, E, P] float
    row: Tensor  # [M, E] int64, row of the feature table; 0 without a table


@dataclass(frozen=True)
class StepResult:
    """What a step led to, before any restart. Static tensors: the next ``step`` overwrites them."""

    next_prefix: Tensor  # [M, E, P] float, of the state that the action led to (its row: row + 1)
    reward: Tensor  # [M, E] float
    terminated: Tensor  # [M, E] bool, the episode ended by itself: no bootstrap


class Environment(ABC):
    """M members with E lanes each.

    Attributes:
        layout: Meaning of the state's columns and sizes of the action branches.
        table: Shared feature table, or None where the prefix is the whole state.
        members: M.
        lanes: E.
        lane_length: L, steps per lane.
        steps: 0-d int64 on the device, steps made so far; incremented in place.
    """

    layout: StateLayout
    table: FeatureTable | None
    members: int
    lanes: int
    lane_length: int
    steps: Tensor

    @abstractmethod
    def begin_lanes(self) -> None:
        """Starts a fresh episode in every lane; the next ``step`` is at position 0."""

    @abstractmethod
    def observation(self) -> Observation:
        """Returns the present state of every lane."""

    @abstractmethod
    def step(self, action: Tensor, position: int) -> StepResult:
        """Acts in every lane; a lane whose episode terminates then starts a new one.

        Args:
            action: [M, E, K] int64, one index per branch.
            position: Steps made in the lane before this one, 0 <= position < L.
        """

    def moments(self) -> tuple[float, float]:
        """Mean of the differential Sharpe ratio's A and V over the lanes; 0, 0 without one.

        Reads the device, so it belongs at the end of an epoch.
        """
        return 0.0, 0.0

    def reset(self) -> None:
        """Goes back to step 0, in place; keys and hyperparameters are read anew by ``begin_lanes``."""
        self.steps.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """What the next ``begin_lanes`` depends on; lanes themselves never outlive a collection."""
        return {"steps": self.steps.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restores :meth:`state_dict` in place; ``begin_lanes`` must follow."""
        self.steps.copy_(state["steps"])


def step_counter(device: torch.device) -> Tensor:
    """Returns a step counter at 0: a 0-d int64 tensor on ``device``."""
    return torch.zeros((), dtype=torch.int64, device=device)
